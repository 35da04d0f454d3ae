"""Agents that learn as a data source: groups of tasks, and which of them become a dataset.

Which tasks form a group is fixed by their order and the options, so the data do not depend on the
number of workers. A run that is killed goes on from its last finished parts and ends with the same
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from radt.collect.histories import episode_returns, late_return, one_history
from radt.collect.learner import Learner
from radt.collect.parts import read_parts, recorded_seconds
from radt.collect.source import CollectError, CollectProgress, Recorded, Request
from radt.collect.workers import GroupJob, GroupProgress, Report, record_groups
from radt.data import History


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
    seconds = sum(recorded_seconds(job.parts, job.group, job.plan_hash) for job in jobs[:done])
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
    envs, parts = job.config.envs_per_task, read_parts(job.parts, job.group, job.plan_hash)
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
