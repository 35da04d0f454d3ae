"""The source `sb3`: an unmodified stable-baselines3 or sb3-contrib algorithm learns each task.

It works for any suite: discrete or continuous actions, vectors or images. Of some environments each
transition is stored: rewards as the environment gives them, actions as they were taken. A task's
learning is cut into parts; a run that is killed goes on after the last one that is whole. An
episode that runs when a part ends is stored, but belongs to no complete episode.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from radt.collect.groups import Arrays, read_arrays, write_arrays
from radt.collect.rollout import LATE_EPISODES, episode_returns, one_history
from radt.collect.source import (
    SOURCES,
    CollectError,
    CollectProgress,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
    check_counts,
)
from radt.data import History
from radt.decode import unknown
from radt.engine import JobError, single_threaded
from radt.envs.suite import TaskSuite
from radt.files import locked

SECONDS_PER_STEP = {"PPO": 5e-4, "SAC": 7e-3, "RecurrentPPO": 5e-3}  # small networks
News = tuple[int, float]  # transitions of a task, and the mean return of its last episodes


@dataclass(frozen=True)
class SB3Options:
    """What learns, and how much of it is stored."""

    seed: int = 0  # of the dataset; a run has its own
    algorithm: Literal["PPO", "SAC", "RecurrentPPO"] = "PPO"  # of stable-baselines3 or its contrib
    policy: str | None = None  # by the library's name; None: as states and algorithm ask for
    settings: Mapping[str, Any] = field(default_factory=dict)  # hyper-parameters by their names
    tasks: int = 100  # the first training tasks of the suite
    transitions: int = 100_000  # of each task that are stored
    envs_per_task: int = 1  # that an agent acts in at once
    keep_envs: int = 1  # of how many each transition is stored
    parts: int = 10  # of a task's learning; a killed run does at most one of them again
    normalise: bool = False  # observations and rewards, for the networks only

    def __post_init__(self) -> None:
        check_counts(self, "tasks", "transitions", "envs_per_task", "keep_envs", "parts")
        if self.keep_envs > self.envs_per_task or self.transitions % self.keep_envs:
            raise ValueError(
                f"keep_envs={self.keep_envs} must be some of the {self.envs_per_task} environments "
                f"and share transitions={self.transitions} equally"
            )
        if self.rounds < self.parts:
            raise ValueError(
                f"{self.steps} steps of each environment are {self.rounds} rounds of learning, "
                f"which make no {self.parts} parts; lower collect.parts"
            )

    @property
    def steps(self) -> int:
        """How many steps each environment takes."""
        return self.transitions // self.keep_envs

    @property
    def steps_per_round(self) -> int:
        """How many steps each environment takes between updates of the networks."""
        name, usual = {
            "PPO": ("n_steps", 2048),
            "RecurrentPPO": ("n_steps", 128),
            "SAC": ("train_freq", 1),
        }[self.algorithm]
        given = self.settings.get(name, usual)
        if not isinstance(given, int) or given < 1:
            raise ValueError(f"settings.{name} must be a whole number of steps, not {given!r}")
        return given

    @property
    def rounds(self) -> int:
        """How many rounds hold the steps; what the last one has beyond them is dropped."""
        return -(-self.steps // self.steps_per_round)

    def part_steps(self, part: int) -> int:
        """How many steps each environment takes in one part: whole rounds."""
        first, last = (self.rounds * number // self.parts for number in (part, part + 1))
        return (last - first) * self.steps_per_round


@dataclass(frozen=True)
class TaskJob:
    """One task to learn."""

    suite: TaskSuite
    options: SB3Options
    task: int
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / f"task-{self.task:05d}-{name}"

    @property
    def own_folder(self) -> Path:
        """The folder of the lock: other tasks are learned meanwhile."""
        return self.folder / f"task-{self.task:05d}"

    def part(self, number: int) -> Path:
        return self.file(f"part-{number:03d}.safetensors")

    @property
    def learner(self) -> Path:
        """The file of the learner's state after a part, which is written after that part."""
        return self.file("learner.safetensors")

    def parts(self) -> list[Arrays]:
        """Read the parts that are whole and can be gone on from."""
        found: list[Arrays] = []
        while (path := self.part(len(found))).is_file():
            found.append(read_arrays(path))
        if len(found) == self.options.parts:
            return found
        return found[: self.state()["parts"].item()] if self.learner.is_file() else []

    def state(self) -> Arrays:
        return read_arrays(self.learner)


def record_sb3(request: Request) -> Recorded:
    """Let an agent learn each of the first training tasks."""
    suite, options = request.suite, request.options
    tasks = suite.train_tasks[: options.tasks]
    jobs = [TaskJob(suite, options, task, request.parts) for task in tasks]
    latest: dict[int, News] = {}
    try:
        for place, news in request.engine.map(record_task, jobs):
            latest[place] = news
            done, returns = zip(*latest.values(), strict=True)
            total = len(jobs) * options.transitions
            request.report(CollectProgress(sum(done), total, float(np.mean(returns))))
    except JobError as error:
        raise CollectError(str(error)) from None
    seconds = sum(part["seconds"].item() for job in jobs for part in job.parts())
    histories = (whole_history(job, job.parts()) for job in jobs)
    return Recorded(histories, seconds / min(request.engine.workers, len(jobs)))


def record_task(job: TaskJob) -> Iterator[News]:
    """Learn a task from where it stands to the end, telling after each part."""
    learner = library()
    with locked(job.own_folder / ".lock", wait=True), single_threaded():
        parts = job.parts()
        if parts:
            yield progress(job, parts)
        for number in range(len(parts), job.options.parts):
            begun, earlier = time.perf_counter(), [*parts, job.state()] if parts else []
            steps = job.options.part_steps(number)
            try:
                part, state = learner.learn_part(
                    job.suite, job.options, job.task, number, steps, earlier
                )
            except (AssertionError, TypeError, ValueError) as error:
                name, task = job.options.algorithm, f"task {job.task} of {job.suite.name!r}"
                raise CollectError(f"{name} cannot learn {task}: {error}") from error
            part["seconds"] = np.array(time.perf_counter() - begun)
            write_arrays(job.part(number), part)
            write_arrays(job.learner, {**state, "parts": np.array(number + 1)})
            parts.append(part)
            yield progress(job, parts)


def progress(job: TaskJob, parts: list[Arrays]) -> News:
    """Count the transitions and average the last episodes."""
    history = whole_history(job, [{**part, "states": part["rewards"]} for part in parts])  # sooner
    returns = episode_returns(history)[-LATE_EPISODES:]
    return len(history.rewards), float(returns.mean()) if len(returns) else 0.0


def whole_history(job: TaskJob, parts: list[Arrays]) -> History:
    """Lay the complete episodes of all parts one after the other, and then what was cut off."""
    options, left = job.options, job.options.steps
    own: list[History] = []
    for part in parts:
        kept = (slice(left), slice(options.keep_envs))
        states, actions, rewards = (part[name][kept] for name in ("states", "actions", "rewards"))
        ends = part["terminated"][kept] | part["truncated"][kept]
        actions = actions.astype(job.suite.spaces.action.dtype)
        levels = part["levels"][kept] if "levels" in part else None
        own.append(one_history(job.task, states, actions, rewards, ends, levels))
        left -= len(rewards)
    stops = [int(history.lengths.sum()) for history in own]

    def laid(name: str) -> NDArray[Any]:
        columns = [getattr(history, name) for history in own]
        heads = [column[:stop] for column, stop in zip(columns, stops, strict=True)]
        tails = [column[stop:] for column, stop in zip(columns, stops, strict=True)]
        return np.concatenate([*heads, *tails])

    lengths = np.concatenate([history.lengths for history in own])
    told = [history.levels for history in own if history.levels is not None]
    levels = np.concatenate(told) if told else None
    return History(job.task, laid("states"), laid("actions"), laid("rewards"), lengths, levels)


def library() -> ModuleType:
    """Import what needs stable-baselines3 and sb3-contrib."""
    try:
        from radt.collect import sb3_learner
    except ImportError as error:
        raise CollectError(
            f"the source sb3 needs stable-baselines3 and sb3-contrib ({error}): "
            "pip install 'radt[sb3]'"
        ) from error
    return sb3_learner


def check_sb3(suite: TaskSuite, options: SB3Options) -> None:
    """Refuse settings that the algorithm does not have, and tasks that it cannot act in."""
    if options.algorithm == "SAC" and suite.spaces.action.kind == "discrete":
        raise ValueError(f"SAC has continuous actions, {suite.name!r} discrete ones; choose PPO")
    known = library().setting_names(options.algorithm)
    for name in options.settings:
        if name not in known:
            raise ValueError(f"collect.settings of {options.algorithm}: {unknown(name, known)}")


def forecast_sb3(suite: TaskSuite, options: SB3Options) -> Forecast:
    """Expect the time of small networks."""
    tasks = min(options.tasks, len(suite.train_tasks))
    steps = tasks * options.steps * options.envs_per_task
    seconds = steps * SECONDS_PER_STEP[options.algorithm]
    return Forecast(tasks, tasks * options.transitions, seconds)


SOURCES.register("sb3", SourceEntry(SB3Options, record_sb3, forecast_sb3, check=check_sb3))
