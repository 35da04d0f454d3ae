"""Target returns: one for a suite, one for each task, or the best of the data."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.agent import Agent, Target
from radt.data import Dataset
from radt.envs.dark_room import DarkRoomSuite
from radt.envs.suite import SUITES, Scoring
from radt.runs.evaluate import scoring_record, trials_of
from radt.runs.provenance import Stopwatch
from radt.runs.run import Run, collect, dataset_path, target_of
from radt.runs.train import train_run
from tests.contracts.method import build_method
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID


@dataclass(frozen=True)
class Aiming(DarkRoomSuite):
    """The toy grid, with target returns of its own."""

    task_targets: Any = None


def aiming(monkeypatch: pytest.MonkeyPatch, home: Path, targets: Any) -> Run:
    use_toys(monkeypatch, home)
    given = {one.name: getattr(TOY_GRID, one.name) for one in fields(TOY_GRID)}
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, Aiming(**given, task_targets=targets))
    return Run(small_config("dt"), home / "run", threads=1)


def test_each_slot_aims_at_the_target_of_its_task() -> None:
    target = Target(9.0, 0.0, ((4, 2.0, 0.0),))
    agent = Agent(build_method("dt", TOY_GRID.spaces), target, slots=2, tasks=[4, 5])
    agent.act(np.zeros((2, 2), np.int64))
    assert agent.trials.target.tolist() == [2.0, 9.0]


def test_a_table_says_what_tasks_aim_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = aiming(monkeypatch, tmp_path, {5: (3.0, 0.5)})
    assert target_of(run) == Target(9.0, 1.0, ((5, 3.0, 0.5),))
    assert trials_of(run).target == target_of(run)


def test_the_best_of_the_data_outlives_the_data(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = aiming(monkeypatch, tmp_path, "data")
    data = Dataset.open(collect(run.config, workers=1))
    returns, task = data.episodes.total_return, data.episodes.task
    best = {int(one): float(returns[task == one].max()) for one in np.unique(task)}
    target = target_of(run)
    assert {one: mean for one, mean, _ in target.of_tasks} == best
    assert target.of(TOY_GRID.eval_tasks[0]) == (np.mean(list(best.values())), 0.0)
    train_run(run, data, Stopwatch())
    (dataset_path(run.config) / "manifest.json").unlink()
    assert target_of(run) == target


def test_a_named_split_can_be_evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = aiming(monkeypatch, tmp_path, {})
    suite = replace(SUITES[TOY_GRID.name], splits={"far": (3,)})
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, suite)
    assert trials_of(run, "far").tasks == (3,)
    assert trials_of(run, "eval") == replace(trials_of(run), title="evaluate on eval")


def test_a_suite_says_how_returns_are_normalised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = aiming(monkeypatch, tmp_path, {})
    assert scoring_record(trials_of(run)) is None
    low, high = ({task: end for task in TOY_GRID.eval_tasks} for end in (1.0, 9.0))
    scoring = Scoring("data-normalised", low, high)
    monkeypatch.setattr(type(run.suite), "scoring", scoring, raising=False)
    count = len(TOY_GRID.eval_tasks)
    told = {"kind": "data-normalised", "low": [1.0] * count, "high": [9.0] * count}
    assert scoring_record(trials_of(run)) == told
