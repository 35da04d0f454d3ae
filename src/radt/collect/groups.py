"""Agents that learn as a data source: groups of tasks, and which of them become a dataset.

Which tasks form a group is fixed by their order and the options, so the data do not depend on the
number of workers. A run that is killed goes on from its last finished parts and ends with the same
arrays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radt.collect.parts import (
    GroupPart,
    LearnerState,
    drop_learner,
    join,
    part_path,
    read_parts,
    write_part,
)
from radt.collect.rollout import Rollout, episode_returns, late_return, one_history
from radt.collect.source import CollectError, CollectProgress, Recorded, Request
from radt.data import History
from radt.engine import Engine, JobError, single_threaded
from radt.envs.suite import TaskSuite
from radt.files import locked


class Learner(Protocol):
    """The learning agents of one group of tasks, and the environments that they act in."""

    rollouts: int  # how many are done

    def __init__(self, suite: TaskSuite, tasks: Sequence[int], options: Any) -> None: ...

    def advance(self) -> Rollout:
        """Act for one rollout and, unless it is the last one, learn from it."""
        ...

    def state(self) -> LearnerState:
        """Return what `resume` needs beside the recorded actions."""
        ...

    def resume(self, state: LearnerState, actions: NDArray[np.generic]) -> Rollout:
        """Go on after the recorded actions [steps, slots], which the environments take again."""
        ...

    @staticmethod
    def observed(suite: TaskSuite, options: Any, states: NDArray[Any]) -> NDArray[Any]:
        """Turn recorded states [N, values] into those of the suite [N, *shape]."""
        ...


@dataclass(frozen=True)
class GroupJob:
    """One group of tasks to record."""

    learner: type[Learner]
    suite: TaskSuite
    config: Any  # of a source whose agents learn rollout by rollout, such as CollectConfig
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


def finished_parts(job: GroupJob) -> list[GroupPart]:
    """Read what a group has recorded so far."""
    return read_parts(job.parts, job.group, job.plan_hash)


@dataclass(frozen=True)
class Selection:
    """Which tasks are kept: the first `count` whose late episodes return more than `above`."""

    count: int
    above: float = -np.inf


def record_learning(
    request: Request, learner: type[Learner], tasks: Sequence[int], selection: Selection
) -> Recorded:
    """Let agents learn, group after group, until enough of them have learned their task."""
    jobs = group_jobs(request, learner, tasks)
    kept: list[int] = []
    done = 0  # groups
    latest: dict[int, GroupProgress] = {}
    while done < len(jobs) and len(kept) < selection.count:
        wave = next_wave(jobs[done:], selection.count - len(kept), request.engine.workers)
        done += len(wave)
        record_groups(wave, request.engine, whole_progress(request, jobs[:done], latest))
        kept += [task for job in wave for task in learned_tasks(job, selection)]
    if not kept:
        raise CollectError(
            f"none of {len(tasks)} tasks of {request.suite.name!r} ended with a mean return above "
            f"{selection.above:g}; lower collect.keep_above, or let agents learn longer with "
            f"collect.transitions. What is recorded is kept in {request.parts}"
        )
    seconds = sum(part.seconds for job in jobs[:done] for part in finished_parts(job))
    chosen = kept[: selection.count]
    return Recorded(_chosen(jobs[:done], chosen), seconds / min(request.engine.workers, done))


def group_jobs(request: Request, learner: type[Learner], tasks: Sequence[int]) -> list[GroupJob]:
    """Cut the tasks into groups by their order."""
    size, folder, plan_hash = request.options.tasks_per_group, request.parts, request.plan_hash
    return [
        GroupJob(
            learner,
            request.suite,
            request.options,
            group,
            tuple(tasks[start : start + size]),
            folder,
            plan_hash,
        )
        for group, start in enumerate(range(0, len(tasks), size))
    ]


def next_wave(jobs: Sequence[GroupJob], missing: int, workers: int) -> Sequence[GroupJob]:
    """Take as many groups as would do if every task were learned, and work for every worker."""
    sizes = accumulate(len(job.tasks) for job in jobs)
    enough = 1 + sum(size < missing for size in sizes)
    return jobs[: max(enough, workers)]


def whole_progress(
    request: Request, jobs: Sequence[GroupJob], latest: dict[int, GroupProgress]
) -> Report:
    """Turn the progress of groups into that of all that have to be recorded as far as is known."""
    options = request.options
    total = sum(len(job.tasks) for job in jobs) * options.transitions

    def report(news: GroupProgress) -> None:
        latest[news.group] = news
        done, returns, begun = 0, 0.0, 0
        for group, heard in latest.items():
            tasks, steps = len(jobs[group].tasks), heard.rollouts * options.n_steps
            done += tasks * min(steps * options.envs_per_task, options.transitions)
            returns += tasks * heard.recent_return
            begun += tasks
        request.report(CollectProgress(done, total, returns / begun))

    return report


def learned_tasks(job: GroupJob, selection: Selection) -> list[int]:
    """Return the tasks of a group that may be kept."""
    if selection.above == -np.inf:
        return list(job.tasks)
    returns = {history.task: _late(history) for history in histories(job)}
    return [task for task in job.tasks if returns[task] > selection.above]


def _late(history: History) -> float:
    """Return how well an agent did in the end; without one complete episode it did nothing."""
    late = late_return(episode_returns(history), history.lengths, len(history.rewards))
    return -np.inf if late is None else late


def _chosen(jobs: Sequence[GroupJob], tasks: Sequence[int]) -> Iterator[History]:
    for job in jobs:
        if wanted := set(job.tasks) & set(tasks):
            yield from (history for history in histories(job) if history.task in wanted)


def histories(job: GroupJob) -> Iterator[History]:
    """Put the parts of a group together again, one task after the other."""
    envs, parts = job.config.envs_per_task, finished_parts(job)
    keep = job.config.transitions // envs  # steps of each environment
    states, actions, rewards, ends = (
        np.concatenate([getattr(part, name) for part in parts])[:keep]
        for name in ("states", "actions", "rewards", "ends")
    )
    action_type = job.suite.spaces.action.dtype
    for number, task in enumerate(job.tasks):
        own = slice(number * envs, (number + 1) * envs)
        seen = job.learner.observed(job.suite, job.config, states[:, own].reshape(keep * envs, -1))
        yield one_history(
            task,
            seen.reshape(keep, envs, *job.suite.spaces.state.shape),
            actions[:, own].astype(action_type),
            rewards[:, own],
            ends[:, own],
        )


def record_group(job: GroupJob) -> Iterator[GroupProgress]:
    """Record a group's rollouts from its last finished part to the end, telling after each."""
    # A worker whose parent was killed stops at its next report; until then its successor waits.
    with locked(job.parts / f"group-{job.group:03d}.lock", wait=True):
        finished = finished_parts(job)
        done = sum(len(part.actions) for part in finished) // job.config.n_steps
        if finished:
            yield _progress(job, done, finished[-1])
        if done < job.config.rollouts:
            learner = job.learner(job.suite, job.tasks, job.config)
            if finished:
                _take_again(learner, job, finished)
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


def _take_again(learner: Learner, job: GroupJob, finished: list[GroupPart]) -> None:
    """Bring a new learner and its environments to the end of the finished parts."""
    actions = np.concatenate([part.actions for part in finished])
    again = learner.resume(finished[-1].learner, actions)
    if not np.array_equal(again.states, np.concatenate([part.states for part in finished])):
        raise CollectError(
            f"{job.suite.name!r} does not pass the same states when it takes the recorded "
            f"actions again, so this run cannot go on; delete {job.parts} to collect anew"
        )


def _progress(job: GroupJob, done: int, latest: Rollout | GroupPart) -> GroupProgress:
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
    with single_threaded():
        yield from map(astuple, record_group(job))
