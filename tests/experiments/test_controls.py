"""Agents with a part left out: what stays, and what is said of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.checkpoint import load_checkpoint, untrained
from radt.experiments import controls
from radt.experiments.controls import AS_IT_IS, EMPTY
from radt.experiments.experiment import Weights
from radt.loading import shipped
from radt.methods.exploration import ExplorationConfig, exploration_of
from tests.contracts.method import build_method, roll_out
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"


def test_a_control_changes_one_thing_and_not_the_method_itself() -> None:
    loaded, card = load_checkpoint(shipped(ENV))
    method: Any = loaded
    before, exploration = method.options, method.exploration
    made: dict[str, Any] = dict(controls.controls(method, untrained(shipped(ENV), card)))
    assert method.options is before
    assert made[EMPTY].exploration == exploration == controls.COUNTS
    assert made[EMPTY].options.memory.store_above == math.inf
    plain, counted = exploration_of(made["nothing counted"])
    assert plain is method.method
    assert counted == ExplorationConfig()
    assert made["untrained"].options == before
    assert made["untrained"].exploration == exploration
    own, other = (each.policy.state_dict() for each in (method, made["untrained"]))
    assert any(not torch.equal(own[name], other[name]) for name in own)


def test_what_came_out_is_written_and_becomes_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = controls.opened
    monkeypatch.setattr(controls, "opened", lambda weights: opened(weights, 3))
    out = tmp_path / "controls.json"
    controls.ask([Weights(ENV, "ra-dt+", shipped(ENV))], out)
    answer = json.loads(out.read_text())
    returns = {line["control"]: np.array(line["returns"]) for line in answer["controls"]}
    assert list(returns) == [AS_IT_IS, EMPTY, "nothing counted", "untrained"]
    whole, forgetful = returns[AS_IT_IS], returns[EMPTY]
    assert (whole[:, 0] == forgetful[:, 0]).all()  # nobody remembers anything in the first trial
    assert (whole != forgetful).any()
    rows = controls.rows(answer)
    assert [row["condition"] for row in rows] == list(returns)
    assert {row["label"] for row in rows} == {"ra-dt+"}
    assert {row["method"] for row in rows} == {"ra-dt"}
    assert rows[0]["improves"] == pytest.approx(rows[0]["score"] - rows[1]["score"])
    assert all(row["improves"] is None for row in rows[1:])


@pytest.mark.parametrize("name", ["ad", "dpt", "ra-dt"])
def test_a_method_without_an_exploration_bonus_is_given_one(name: str) -> None:
    method = build_method(name, TOY_GRID.spaces)
    made = dict(controls.controls(method, method))
    assert (EMPTY in made) == (name == "ra-dt")
    assert "nothing counted" not in made
    both = method, made["with exploration bonus"]
    rolled = [roll_out(each, TOY_GRID, TOY_GRID.train_tasks) for each in both]
    plain, counted = (actions for _, actions, _ in rolled)
    assert (plain[0] == counted[0]).all()  # nothing is tried yet
    assert (plain != counted).any()
