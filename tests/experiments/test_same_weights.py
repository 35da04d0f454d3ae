"""The same weights with another memory: what is changed is what acts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from radt.commands.reproduce_work import still_needed
from radt.experiments import EXPERIMENTS
from radt.experiments.experiment import Weights
from radt.experiments.reproduce import Where, answers_of, runs_of
from radt.experiments.weights import SHIPPED, opened, remembering
from radt.runs.roll_out import roll_out
from radt.track import Tracker

ENV = "dark-room-10x10"


@pytest.mark.parametrize("changes", [{"retrieve_every": 25}, {"alpha": 0.0}])
def test_a_change_reaches_the_memory_that_acts(changes: dict[str, float]) -> None:
    method, *_ = opened(Weights(ENV, "ra-dt+", SHIPPED / f"{ENV}.safetensors"), 1)
    memory, usual = (one.actor(1).memory for one in (remembering(method, changes), method))
    assert memory is not None
    assert usual is not None
    ((name, value),) = changes.items()
    assert getattr(memory.config, name) == value != getattr(usual.config, name)


def test_another_memory_acts_otherwise() -> None:
    method, _, trials = opened(Weights(ENV, "ra-dt+", SHIPPED / f"{ENV}.safetensors"), 2)
    changed = remembering(method, {"alpha": 0.0})
    before, after = (roll_out(one, trials, Tracker()).returns for one in (method, changed))
    assert (before[:, 0] == after[:, 0]).all()  # nothing is remembered yet
    assert (before != after).any()


def test_no_change_is_the_method_itself() -> None:
    method, *_ = opened(Weights(ENV, "ra-dt+", SHIPPED / f"{ENV}.safetensors"), 1)
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
