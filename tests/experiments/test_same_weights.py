"""The same weights otherwise: what is changed acts, and what is told of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt import api
from radt.checkpoint import load_checkpoint, untrained
from radt.commands.reproduce_work import still_needed
from radt.experiments import EXPERIMENTS, same_weights
from radt.experiments.experiment import Weights
from radt.experiments.reproduce import Where, answers_of, runs_of
from radt.experiments.same_weights import (
    AS_IT_IS,
    EMPTY,
    WAYS,
    ask_ways,
    dropped,
    rows_of_ways,
)
from radt.experiments.weights import opened, remembering
from radt.loading import shipped
from radt.methods.ad import AD
from radt.methods.exploration import ExplorationConfig, exploration_of
from radt.runs.roll_out import roll_out
from radt.track import Tracker
from tests.contracts.method import build_method
from tests.contracts.method import roll_out as rolled
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID

ENV = "dark-room-10x10"


@pytest.mark.parametrize("changes", [{"retrieve_every": 25}, {"alpha": 0.0}])
def test_a_change_reaches_the_memory_that_acts(changes: dict[str, float]) -> None:
    method, *_ = opened(Weights(ENV, "ra-dt+", shipped(ENV)), 1)
    memory, usual = (one.actor(1).memory for one in (remembering(method, changes), method))
    assert memory is not None
    assert usual is not None
    ((name, value),) = changes.items()
    assert getattr(memory.config, name) == value != getattr(usual.config, name)


def test_another_memory_acts_otherwise() -> None:
    method, _, trials = opened(Weights(ENV, "ra-dt+", shipped(ENV)), 2)
    changed = remembering(method, {"alpha": 0.0})
    before, after = (roll_out(one, trials, Tracker()).returns for one in (method, changed))
    assert (before[:, 0] == after[:, 0]).all()  # nothing is remembered yet
    assert (before != after).any()


def test_no_change_is_the_method_itself() -> None:
    method, *_ = opened(Weights(ENV, "ra-dt+", shipped(ENV)), 1)
    assert remembering(method, {}) is method


def test_a_plan_to_run_anew_counts_weights_that_are_asked_anew(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["ablate-alpha-eval"]
    where = Where("smoke", out=tmp_path / "runs", results=tmp_path / "results")
    ((_, one),) = runs_of(experiment, where)
    one.published.mkdir(parents=True)
    older = replace(one.config, learn=replace(one.config.learn, updates=7))
    (one.published / "config.json").write_text(json.dumps(older.to_json()))
    (one.published / "icl.json").write_text("{}")
    for answer in answers_of(experiment, where):
        answer.file.parent.mkdir(parents=True, exist_ok=True)
        answer.file.write_text("{}")
    assert still_needed(experiment, where) == []
    ((_, planned),) = still_needed(experiment, where, again=True)
    assert (planned.name, planned.state) == ("ra-dt-seed0", "changed")


def test_a_control_changes_one_thing_and_not_the_method_itself() -> None:
    loaded, card = load_checkpoint(shipped(ENV))
    method: Any = loaded
    before, exploration = method.options, method.exploration
    made: dict[str, Any] = dict(same_weights.controls(method, untrained(shipped(ENV), card)))
    assert method.options is before
    assert made[EMPTY].exploration == exploration == same_weights.COUNTS
    assert made[EMPTY].options.memory.store_above == math.inf
    plain, counted = exploration_of(made["nothing counted"])
    assert plain is method.method
    assert counted == ExplorationConfig()
    assert made["untrained"].options == before
    assert made["untrained"].exploration == exploration
    own, other = (each.policy.state_dict() for each in (method, made["untrained"]))
    assert any(not torch.equal(own[name], other[name]) for name in own)


def test_what_came_out_of_controls_is_written_and_becomes_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = same_weights.opened
    monkeypatch.setattr(same_weights, "opened", lambda weights: opened(weights, 3))
    out = tmp_path / "controls.json"
    same_weights.ask_controls([Weights(ENV, "ra-dt+", shipped(ENV))], out)
    answer = json.loads(out.read_text())
    returns = {line["control"]: np.array(line["returns"]) for line in answer["controls"]}
    assert list(returns) == [AS_IT_IS, EMPTY, "nothing counted", "untrained"]
    whole, forgetful = returns[AS_IT_IS], returns[EMPTY]
    assert (whole[:, 0] == forgetful[:, 0]).all()  # nobody remembers anything in the first trial
    assert (whole != forgetful).any()
    rows = same_weights.rows_of_controls(answer)
    assert [row["condition"] for row in rows] == list(returns)
    assert {row["label"] for row in rows} == {"ra-dt+"}
    assert {row["method"] for row in rows} == {"ra-dt"}
    assert rows[0]["improves"] == pytest.approx(rows[0]["score"] - rows[1]["score"])
    assert all(row["improves"] is None for row in rows[1:])


@pytest.mark.parametrize("name", ["ad", "dpt", "ra-dt"])
def test_a_method_without_an_exploration_bonus_is_given_one(name: str) -> None:
    method = build_method(name, TOY_GRID.spaces)
    made = dict(same_weights.controls(method, method))
    assert (EMPTY in made) == (name == "ra-dt")
    assert "nothing counted" not in made
    both = method, made["with exploration bonus"]
    acted = [rolled(each, TOY_GRID, TOY_GRID.train_tasks) for each in both]
    plain, counted = (actions for _, actions, _ in acted)
    assert (plain[0] == counted[0]).all()  # nothing is tried yet
    assert (plain != counted).any()


def test_every_way_is_rolled_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path / "data")
    config = small_config("ad", "evaluate.trials=3")
    api.run(config, tmp_path / "ad", threads=1)
    record = json.loads((tmp_path / "ad" / "icl.json").read_text())
    ask_ways([Weights(config.env, "ad", tmp_path / "ad")], tmp_path / "out.json")
    answer = json.loads((tmp_path / "out.json").read_text())
    assert [line["way"] for line in answer["ways"]] == [*WAYS]
    assert answer["ways"][0]["returns"] == record["returns"]  # as here: the run's own trials
    told = rows_of_ways(answer)
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
