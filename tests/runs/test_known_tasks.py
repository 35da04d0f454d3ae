"""A source may keep some of a suite's training tasks only; the data say which were trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from radt.checkpoint import load_checkpoint
from radt.config import TRAINING_TASKS
from radt.data import Dataset
from radt.runs.compare import REFERENCES, Comparison
from radt.runs.evaluate import trials_of
from radt.runs.provenance import Stopwatch
from radt.runs.run import Run, dataset_path, known_tasks
from radt.runs.train import train_run
from tests.contracts.method import toy_dataset
from tests.runs.small import small_config, use_toys
from tests.toys import TOY_GRID


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    use_toys(monkeypatch, tmp_path / "data")
    return Run(small_config("dt", "learn.evaluate_every=3"), tmp_path / "run", threads=1)


def test_a_run_learns_from_the_tasks_of_its_data(run: Run) -> None:
    assert known_tasks(run.config) == TOY_GRID.train_tasks  # there are no data yet
    folder = dataset_path(run.config)
    folder.mkdir(parents=True)
    toy_dataset(replace(TOY_GRID, train_tasks=(3, 0, 1)), folder)
    assert run.tasks == ((0, 1, 3), TOY_GRID.eval_tasks)
    tuning = Run(replace(run.config, split="tune"), run.out)
    assert sum(tuning.tasks, ()) == (0, 1, 3)
    _, card = load_checkpoint(train_run(run, Dataset.open(folder), Stopwatch()))
    assert card.tasks == (0, 1, 3)


def test_unseen_tasks_are_never_trained_on(run: Run) -> None:
    folder = dataset_path(run.config)
    folder.mkdir(parents=True)
    toy_dataset(replace(TOY_GRID, train_tasks=(1, *TOY_GRID.eval_tasks)), folder)
    assert known_tasks(run.config) == (1,)


def test_references_that_know_grids_only_are_left_out_of_a_comparison() -> None:
    assert Comparison("maze-runner-15x15", ("dt",)).references == ("nearest", "replay", "random")
    assert Comparison("dark-room-10x10", ("dt",)).references == REFERENCES


def test_training_tasks_are_lived_through_beside_the_unseen_ones(run: Run) -> None:
    folder = dataset_path(run.config)
    folder.mkdir(parents=True)
    toy_dataset(replace(TOY_GRID, train_tasks=(3, 0, 1)), folder)
    beside = trials_of(run, TRAINING_TASKS)
    assert set(beside.tasks) <= {0, 1, 3}
    assert len(beside.tasks) == min(3, len(TOY_GRID.eval_tasks))
    assert trials_of(run) == replace(beside, tasks=TOY_GRID.eval_tasks)
