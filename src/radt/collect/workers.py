"""Workers: each records groups of tasks with one thread and says how far it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.collect.learner import Learner, LearningOptions
from radt.collect.parts import (
    Part,
    drop_learner,
    join,
    part_path,
    read_parts,
    write_part,
)
from radt.collect.rollout import Rollout
from radt.collect.source import CollectError
from radt.engine import Engine, JobError
from radt.envs.suite import TaskSuite
from radt.files import locked


@dataclass(frozen=True)
class GroupJob:
    """One group of tasks to record."""

    learner: type[Learner]
    suite: TaskSuite
    config: LearningOptions
    group: int
    tasks: tuple[int, ...]
    parts: Path
    plan_hash: str


@dataclass(frozen=True)
class GroupProgress:
    """How far a group is, and the rewards per finished episode in its last rollout."""

    group: int
    rollouts: int
    recent_return: float


Report = Callable[[GroupProgress], None]


def record_group(job: GroupJob) -> Iterator[GroupProgress]:
    """Record a group's rollouts from its last finished part to the end, telling after each."""
    # A worker whose parent was killed stops at its next report; until then its successor waits.
    with locked(job.parts / f"group-{job.group:03d}.lock", wait=True):
        finished = read_parts(job.parts, job.group, job.plan_hash)
        done = sum(len(part.actions) for part in finished) // job.config.n_steps
        if finished:
            yield _progress(job, done, finished[-1])
        if done < job.config.rollouts:
            learner = job.learner(job.suite, job.tasks, job.config)
            if finished:
                _live_again(learner, job, finished)
            yield from _record_parts(job, learner, len(finished))


def _record_parts(job: GroupJob, learner: Learner, number: int) -> Iterator[GroupProgress]:
    """Learn to the end and write the parts from `number` on."""
    while left := job.config.rollouts - learner.rollouts:
        seconds, rollouts = 0.0, []
        for _ in range(min(job.config.rollouts_per_part, left)):
            begun = time.perf_counter()
            rollouts.append(learner.advance())
            seconds += time.perf_counter() - begun
            yield _progress(job, learner.rollouts, rollouts[-1])
        goes_on = learner.rollouts < job.config.rollouts
        part = join(rollouts, learner.state() if goes_on else {}, seconds)
        write_part(part_path(job.parts, job.group, number), part, job.plan_hash)
        if number:
            drop_learner(part_path(job.parts, job.group, number - 1), job.plan_hash)
        number += 1


def _live_again(learner: Learner, job: GroupJob, finished: list[Part]) -> None:
    """Bring a new learner and its environments to the end of the finished parts."""
    actions = np.concatenate([part.actions for part in finished])
    lived = learner.resume(finished[-1].learner, actions)
    if not np.array_equal(lived.states, np.concatenate([part.states for part in finished])):
        raise CollectError(
            f"{job.suite.name!r} does not pass the same states when it takes the recorded "
            f"actions again, so this run cannot go on; delete {job.parts} to collect anew"
        )


def _progress(job: GroupJob, done: int, latest: Rollout | Part) -> GroupProgress:
    last = slice(-job.config.n_steps, None)
    ends = int(latest.ends[last].sum())
    rewards = float(latest.rewards[last].sum(dtype=np.float64))
    return GroupProgress(job.group, done, rewards / max(1, ends))


def record_groups(jobs: Sequence[GroupJob], engine: Engine, report: Report) -> None:
    """Record all groups where the engine has workers; one that fails goes on from its parts."""
    try:
        for _, news in engine.map(_tell, jobs):
            report(GroupProgress(*news))
    except JobError as error:
        raise CollectError(str(error)) from None


def _tell(job: GroupJob) -> Iterator[tuple[Any, ...]]:
    """Record a group with one thread and say how far it is."""
    with one_thread():
        yield from map(astuple, record_group(job))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that sums are rounded the same everywhere."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):  # NumPy's BLAS has threads of its own
            yield
    finally:
        torch.set_num_threads(before)
