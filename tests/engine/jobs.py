"""Work for the tests of engines, importable by workers, and what every engine must pass."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from radt.engine import RETRIES, Engine, Job, JobError, Work


@dataclass(frozen=True)
class Task:
    """A number to work on, and a folder to leave marks in."""

    number: int
    folder: Path
    deaths: int = 0  # so many times the work is not survived
    raises: str = ""  # or how it fails instead: refuses, breaks

    @property
    def tries(self) -> int:
        return len(list(self.folder.glob(f"{self.number}-*")))


def count_up(task: Task) -> Iterator[int]:
    """Say 0, 1, ..., number, but die in the middle as often as the task says."""
    tries = task.tries
    (task.folder / f"{task.number}-{tries}").touch()
    for value in range(task.number + 1):
        if value == 1 and tries < task.deaths:
            fail(task.raises)
        yield value


def sleep(seconds: float) -> Iterator[int]:
    """Say who sleeps, and do."""
    yield os.getpid()
    time.sleep(seconds)


def last_words(engine: Engine, work: Work[Job], jobs: Sequence[Job]) -> list[Any]:
    """Do all jobs and return their results in order."""
    results: dict[int, Any] = dict(engine.map(work, jobs))
    return [results[place] for place in range(len(jobs))]


def fail(how: str) -> None:
    if how == "refuses":
        raise ValueError("this number is not liked; choose another")
    if how == "breaks":
        raise RuntimeError("the disk is away")
    os.kill(os.getpid(), signal.SIGKILL)


def check_engine(engine: Engine, folder: Path) -> None:
    """Go through all that an engine promises."""
    check_results_in_order(engine, folder / "order")
    for how in ("", "breaks"):
        check_failures_are_retried(engine, folder / f"retried-{how}", how)
        check_retries_are_bounded(engine, folder / f"bounded-{how}", how)
    check_refusals_are_final(engine, folder / "refused")


def check_results_in_order(engine: Engine, folder: Path) -> None:
    folder.mkdir()
    tasks = [Task(number, folder) for number in (3, 1, 4, 0)]
    heard: dict[int, list[int]] = {}
    for place, news in engine.map(count_up, tasks):
        heard.setdefault(place, []).append(news)
    assert heard == {0: [0, 1, 2, 3], 1: [0, 1], 2: [0, 1, 2, 3, 4], 3: [0]}
    assert last_words(engine, count_up, []) == []


def check_failures_are_retried(engine: Engine, folder: Path, how: str) -> None:
    folder.mkdir()
    tasks = [Task(2, folder), Task(3, folder, deaths=RETRIES, raises=how), Task(1, folder)]
    assert last_words(engine, count_up, tasks) == [2, 3, 1]
    assert tasks[1].tries == RETRIES + 1


def check_retries_are_bounded(engine: Engine, folder: Path, how: str) -> None:
    folder.mkdir()
    tasks = [Task(1, folder), Task(2, folder, deaths=100, raises=how)]
    why = "the disk is away" if how else r"abruptly|unexpectedly|died|crash"
    with pytest.raises(JobError, match=rf"(?is)job 2 of 2 failed 3 times.*({why})"):
        last_words(engine, count_up, tasks)
    assert tasks[1].tries == RETRIES + 1


def check_refusals_are_final(engine: Engine, folder: Path) -> None:
    folder.mkdir()
    tasks = [Task(1, folder), Task(2, folder, deaths=100, raises="refuses")]
    with pytest.raises(JobError, match="not liked; choose another"):
        last_words(engine, count_up, tasks)
    assert tasks[1].tries == 1
