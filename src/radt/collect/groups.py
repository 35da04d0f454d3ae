"""Agents that learn as a data source: groups of tasks, and which of them become a dataset.

Which tasks form a group is fixed by their order and the options, so the data do not depend on the
number of workers. What a group has recorded is kept in parts, safetensors files that are whole or
absent, and beside them the learner as it was after the last one. A run that is killed goes on from
there and ends with the same arrays; environments are brought there by the recorded actions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radt.collect.networks import Adam
from radt.collect.rollout import Rollout, Runner, episode_returns, late_return, one_history
from radt.collect.source import CollectError, CollectProgress, Recorded, Request
from radt.data import History
from radt.engine import JobError, single_threaded
from radt.envs.suite import TaskSuite
from radt.files import locked
from radt.sealed import EDITED, BrokenSealError, read_sealed, write_sealed

Arrays = Mapping[str, NDArray[Any]]
LearnerState = Mapping[str, NDArray[np.float32]]
News = tuple[int, float]  # rollouts that a group has done, and rewards per episode in the last one
RECORDED = ("states", "actions", "rewards", "ends")  # of rollouts, in a part


class Learner:
    """The learning agents of one group of tasks, and the environments that they act in."""

    rollouts = 0  # how many are done
    optimiser: Adam
    runner: Runner

    def __init__(self, suite: TaskSuite, tasks: Sequence[int], config: Any) -> None:
        self.tasks, self.config = tuple(tasks), config

    def advance(self) -> Rollout:
        """Act for one rollout and, unless it is the last one, learn from it."""
        raise NotImplementedError

    def state(self) -> LearnerState:
        """Return what `resume` needs beside the recorded actions."""
        return self.optimiser.state()

    def resume(self, state: LearnerState, actions: NDArray[np.generic]) -> Rollout:
        """Go on after the recorded actions [steps, slots], which the environments take again."""
        self.optimiser.restore(state)
        self.rollouts = len(actions) // self.config.n_steps
        return self.runner.replay(actions)

    @staticmethod
    def observed(suite: TaskSuite, options: Any, states: NDArray[Any]) -> NDArray[Any]:
        """Turn recorded states [N, values] into those of the suite [N, *shape]."""
        return states


@dataclass(frozen=True)
class GroupJob:
    """One group of tasks to record."""

    learner: type[Learner]
    suite: TaskSuite
    config: Any  # of a source whose agents learn rollout by rollout, such as CollectConfig
    group: int
    tasks: tuple[int, ...]
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / f"group-{self.group:03d}-{name}.safetensors"

    @property
    def own_folder(self) -> Path:
        """The folder of the lock: other groups are recorded meanwhile."""
        return self.folder / f"group-{self.group:03d}"

    def part(self, number: int) -> Path:
        return self.file(f"part-{number:03d}")

    def parts(self) -> list[Arrays]:
        """Read what is recorded so far, from the first part to the last before a gap."""
        found: list[Arrays] = []
        while (path := self.part(len(found))).is_file():
            found.append(read_arrays(path))
        return found


def record_learning(
    request: Request,
    learner: type[Learner],
    tasks: Sequence[int],
    count: int,
    above: float = -np.inf,
) -> Recorded:
    """Let agents learn, group after group, until `count` late returns are better than `above`."""
    jobs = group_jobs(request, learner, tasks)
    kept: list[int] = []
    done = 0  # groups
    latest: dict[int, News] = {}
    while done < len(jobs) and len(kept) < count:
        wave = next_wave(jobs[done:], count - len(kept), request.engine.workers)
        done += len(wave)
        try:
            for place, news in request.engine.map(record_group, wave):
                latest[wave[place].group] = news
                request.report(_whole_progress(jobs[:done], latest))
        except JobError as error:
            raise CollectError(str(error)) from None
        kept += [task for job in wave for task in learned_tasks(job, above)]
    if not kept:
        raise CollectError(
            f"none of {len(tasks)} tasks of {request.suite.name!r} ended with a mean return above "
            f"{above:g}; lower collect.keep_above, or let agents learn longer with "
            f"collect.transitions. What is recorded is kept in {request.parts}"
        )
    seconds = sum(part["seconds"].item() for job in jobs[:done] for part in job.parts())
    wanted = set(kept[:count])
    some = [job for job in jobs[:done] if wanted & set(job.tasks)]
    chosen = (history for job in some for history in histories(job) if history.task in wanted)
    return Recorded(chosen, seconds / min(request.engine.workers, done))


def group_jobs(request: Request, learner: type[Learner], tasks: Sequence[int]) -> list[GroupJob]:
    """Cut the tasks into groups by their order."""
    suite, options, size = request.suite, request.options, request.options.tasks_per_group
    groups = [tuple(tasks[start : start + size]) for start in range(0, len(tasks), size)]
    return [
        GroupJob(learner, suite, options, number, group, request.parts)
        for number, group in enumerate(groups)
    ]


def next_wave(jobs: Sequence[GroupJob], missing: int, workers: int) -> Sequence[GroupJob]:
    """Take as many groups as would do if every task were learned, and work for every worker."""
    sizes = accumulate(len(job.tasks) for job in jobs)
    enough = 1 + sum(size < missing for size in sizes)
    return jobs[: max(enough, workers)]


def _whole_progress(jobs: Sequence[GroupJob], latest: Mapping[int, News]) -> CollectProgress:
    """Sum up how far the groups are that have to be recorded as far as is known."""
    config, sizes = jobs[0].config, [len(job.tasks) for job in jobs]
    steps, most = config.n_steps * config.envs_per_task, config.transitions
    done = sum(sizes[group] * min(n * steps, most) for group, (n, _) in latest.items())
    returns = [recent for _, recent in latest.values()]
    recent = np.average(returns, weights=[sizes[group] for group in latest])
    return CollectProgress(done, sum(sizes) * most, float(recent))


def learned_tasks(job: GroupJob, above: float) -> list[int]:
    """Return the tasks of a group that may be kept; without a complete episode none is learned."""
    if above == -np.inf:
        return list(job.tasks)
    late = {
        history.task: late_return(episode_returns(history), history.lengths, len(history.rewards))
        for history in histories(job)
    }
    return [task for task, mean in late.items() if mean is not None and mean > above]


def histories(job: GroupJob) -> Iterator[History]:
    """Put the parts of a group together again, one task after the other."""
    envs, parts = job.config.envs_per_task, job.parts()
    keep = job.config.transitions // envs  # steps of each environment
    states, actions, rewards, ends = (_joined(parts, name)[:keep] for name in RECORDED)
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


def record_group(job: GroupJob) -> Iterator[News]:
    """Record a group's rollouts from where it stands to the end, telling after each."""
    # A worker whose parent was killed may take a while to notice; until then its successor waits.
    with locked(job.own_folder / ".lock", wait=True), single_threaded():
        parts = job.parts()
        if sum(len(part["actions"]) for part in parts) == job.config.rollouts * job.config.n_steps:
            yield job.config.rollouts, _last_return(job, parts)
            return
        learner = job.learner(job.suite, job.tasks, job.config)
        parts = _resume(job, learner, parts)
        if parts:
            yield learner.rollouts, _last_return(job, parts)
        yield from _record_parts(job, learner, len(parts))


def _resume(job: GroupJob, learner: Learner, parts: list[Arrays]) -> list[Arrays]:
    """Bring a new learner to where it was last saved; return the parts up to there."""
    saved = read_arrays(job.file("learner")) if job.file("learner").is_file() else {}
    count = saved["parts"].item() if saved else 0
    if not 0 < count <= len(parts):
        return []
    again = learner.resume(saved, _joined(parts[:count], "actions"))
    if not np.array_equal(again.states, _joined(parts[:count], "states")):
        raise CollectError(
            f"{job.suite.name!r} does not pass the same states when it takes the recorded "
            f"actions again, so this run cannot go on; delete {job.folder} to collect anew"
        )
    return parts[:count]


def _record_parts(job: GroupJob, learner: Learner, number: int) -> Iterator[News]:
    """Learn to the end and write the parts from `number` on, each before its learner."""
    while left := job.config.rollouts - learner.rollouts:
        seconds, rollouts = 0.0, []
        for _ in range(min(job.config.rollouts_per_part, left)):
            begun = time.perf_counter()
            rollouts.append(learner.advance())
            seconds += time.perf_counter() - begun
            yield learner.rollouts, _mean_return(rollouts[-1].rewards, rollouts[-1].ends)
        part = {name: np.concatenate([getattr(one, name) for one in rollouts]) for name in RECORDED}
        write_arrays(job.part(number), {**part, "seconds": np.array(seconds)})
        number += 1
        if learner.rollouts < job.config.rollouts:
            write_arrays(job.file("learner"), {**learner.state(), "parts": np.array(number)})


def _last_return(job: GroupJob, parts: Sequence[Arrays]) -> float:
    rewards, ends = (parts[-1][name][-job.config.n_steps :] for name in ("rewards", "ends"))
    return _mean_return(rewards, ends)


def _mean_return(rewards: NDArray[np.float32], ends: NDArray[np.bool_]) -> float:
    """Return the rewards per finished episode."""
    return float(rewards.sum(dtype=np.float64)) / max(1, int(ends.sum()))


def _joined(parts: Sequence[Arrays], name: str) -> NDArray[Any]:
    return np.concatenate([part[name] for part in parts])


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Put a file of arrays in place at once; whole numbers are small ones."""
    small = {
        name: array.astype(np.int32) if array.dtype == np.int64 else array
        for name, array in arrays.items()
    }
    tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in small.items()}
    write_sealed(path, tensors, {"file": path.name})


def read_arrays(path: Path) -> Arrays:
    """Read a file of arrays, once it is what `write_arrays` wrote under this name."""
    try:
        tensors, header, has_seal = read_sealed(path)
        if not has_seal or header.get("file") != path.name:  # or another part lies in its place
            raise BrokenSealError(EDITED)
    except BrokenSealError as error:
        raise CollectError(
            f"{path}: this part cannot be used: it {error}. Delete it and start again: it is redone"
        ) from error
    return {name: tensor.numpy() for name, tensor in tensors.items()}
