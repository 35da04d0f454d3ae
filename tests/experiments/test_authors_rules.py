"""AD under the rules of its authors' code: what changes, what is told, what is left as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt import api
from radt.experiments.authors_rules import WAYS, ask, dropped, rows
from radt.experiments.experiment import Weights
from radt.methods.ad import AD
from tests.contracts.method import build_method
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID


def test_every_way_is_rolled_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path / "data")
    config = small_config("ad", "evaluate.trials=3")
    api.run(config, tmp_path / "ad", threads=1)
    record = json.loads((tmp_path / "ad" / "icl.json").read_text())
    ask([Weights(config.env, "ad", tmp_path / "ad")], tmp_path / "out.json")
    answer = json.loads((tmp_path / "out.json").read_text())
    assert [line["way"] for line in answer["ways"]] == [*WAYS]
    assert answer["ways"][0]["returns"] == record["returns"]  # as here: the run's own trials
    told = rows(answer)
    assert [row["condition"] for row in told] == [*WAYS]
    assert told[0]["score"] == pytest.approx(record["score"])
    for row in told:
        low, high = row["ci95"]
        assert low <= row["score"] <= high


def test_dropout_ends_with_the_trials() -> None:
    method = build_method("ad", TOY_GRID.spaces)
    assert isinstance(method, AD)
    with dropped(method, 0.5):
        assert not method.options.cache
        method.actor(1)
        assert any(part.training for part in method.policy.modules())
    assert method.options.cache
    method.actor(1)
    assert not any(part.training for part in method.policy.modules())
    with (
        pytest.raises(TypeError, match="that of AD, not of dt"),
        dropped(build_method("dt", TOY_GRID.spaces), 0.5),
    ):
        pass
