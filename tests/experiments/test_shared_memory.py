"""Fleets of several sizes: who acts together, and how soon they earn what one earns late."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from radt.experiments import shared_memory
from radt.experiments.experiment import Weights
from radt.experiments.weights import opened
from radt.loading import shipped

ENV = "dark-room-10x10"


def test_trials_are_counted_until_the_late_return_of_one_agent() -> None:
    one = np.tile(np.arange(40.0), (3, 1))  # its late trials earn 34.5
    soon = np.tile(np.arange(20.0) * 10, (3, 1))
    assert shared_memory.reached(soon, one).mean == 5
    assert (shared_memory.reached(soon, one).low, shared_memory.reached(soon, one).high) == (5, 5)
    assert shared_memory.reached(np.zeros((3, 20)), one).mean == 21  # never


def test_what_came_out_is_written_becomes_rows_and_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "fleet.json"
    method, card, trials = opened(Weights(ENV, "ra-dt+", shipped(ENV)), 4)
    few = replace(trials, tasks=trials.tasks[:3])
    monkeypatch.setattr(shared_memory, "opened", lambda weights: (method, card, few))
    monkeypatch.setattr(shared_memory, "AGENTS", (1, 3))
    shared_memory.ask_fleets([Weights(ENV, "ra-dt+", shipped(ENV))], out)
    answer = json.loads(out.read_text())
    shapes = [np.array(line["returns"]).shape for line in answer["fleets"]]
    assert shapes == [(3, 1, 4), (3, 3, 1)]
    _, together = (np.array(line["returns"]) for line in answer["fleets"])
    assert "3 agents need" in answer["verdict"]
    rows = shared_memory.rows_of_fleets(answer)
    assert [row["condition"] for row in rows] == ["1 agents", "3 agents"]
    assert rows[1]["curve"] == pytest.approx(together.mean((0, 1)).tolist())
    assert [line["agents"] for line in shared_memory.summary(rows)] == [1, 3]
    assert shared_memory.picture(rows, tmp_path / "fleet.png").stat().st_size > 1000
