"""The source `noisy-expert`: an expert whose noise is annealed over the history of a task.

In an episode each action is random with one probability, else the expert's. The probability falls
linearly over the episodes. A thousand tasks take seconds, where the vector environments know
optimal actions; all that is made of it is labelled `noisy-expert`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.collect.rollout import ENVIRONMENT, ROLLOUT, Rollout, Runner, one_history, stream
from radt.collect.source import (
    SOURCES,
    CollectProgress,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
    check_counts,
)
from radt.data import History
from radt.envs.suite import Guide, TaskSuite

TASKS_AT_ONCE = 200
STEPS_AT_ONCE = 500
SECONDS_PER_EPISODE = 1e-4


@dataclass(frozen=True)
class NoisyExpertOptions:
    """How much is recorded, and how noise falls."""

    seed: int = 0
    tasks: int = 100  # the first training tasks of the suite
    episodes: int = 100  # of each task
    first_noise: float = 1.0  # probability of a random action in the first episode
    last_noise: float = 0.0  # and in the last one

    def __post_init__(self) -> None:
        check_counts(self, "tasks", "episodes")
        if not 1.0 >= self.first_noise >= self.last_noise >= 0.0:
            raise ValueError(
                f"noise falls from a probability to a lower one, not from {self.first_noise} to "
                f"{self.last_noise}"
            )


def record_noisy_expert(request: Request) -> Recorded:
    """Act with falling noise in the first training tasks, many at once."""
    return Recorded(_histories(request))


def _histories(request: Request) -> Iterator[History]:
    suite, options = request.suite, request.options
    tasks = suite.train_tasks[: options.tasks]
    done, earned = 0, 0.0
    for start in range(0, len(tasks), TASKS_AT_ONCE):
        some = tasks[start : start + TASKS_AT_ONCE]
        for history in act_out(suite, some, options):
            yield history
            done += len(history.rewards)
            earned += float(history.rewards.sum(dtype=np.float64))
        ready = start + len(some)
        expected = done * len(tasks) // ready
        request.report(CollectProgress(done, expected, earned / (ready * options.episodes)))


def act_out(
    suite: TaskSuite, tasks: Sequence[int], options: NoisyExpertOptions
) -> Iterator[History]:
    """Roll out all episodes of some tasks; finished ones go on unrecorded."""
    walk, ended = Walk(suite, tasks, options), np.zeros(len(tasks), np.int64)
    parts = []
    while (ended < options.episodes).any():
        rollout = walk.go_on()
        actions = rollout.actions.astype(suite.spaces.action.dtype)
        parts.append((rollout.states, actions, rollout.rewards, rollout.ends))
        ended += rollout.ends.sum(axis=0)
    states, actions, rewards, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
    for slot, task in enumerate(tasks):
        stop = np.flatnonzero(ends[:, slot])[options.episodes - 1] + 1
        own = (slice(stop), slice(slot, slot + 1))
        yield one_history(task, states[own], actions[own], rewards[own], ends[own])


class Walk:
    """Running episodes of some tasks, each with its own noise."""

    def __init__(self, suite: TaskSuite, tasks: Sequence[int], options: NoisyExpertOptions) -> None:
        seed, self._space = options.seed, suite.spaces.action
        self._env = guided(suite, tasks)
        seeds = [int(stream(seed, task, ENVIRONMENT).integers(2**31)) for task in tasks]
        self._runner = Runner(self._env, seeds)
        self._streams = [stream(seed, task, ROLLOUT) for task in tasks]
        self._noise = np.linspace(options.first_noise, options.last_noise, options.episodes)
        self._episode = np.full(len(tasks), -1)  # [tasks]

    def go_on(self) -> Rollout:
        """Take some steps."""
        count, runner, episode = STEPS_AT_ONCE, self._runner, self._episode
        luck = np.stack([own.random(count) for own in self._streams], axis=1)
        detours = np.stack([self._space.sample(count, own) for own in self._streams], 1)

        def choose(step: int) -> NDArray[Any]:
            episode[runner.begun] += 1
            noise = self._noise[np.minimum(episode, len(self._noise) - 1)]  # [tasks]
            best = self._env.optimal_actions()
            strays = (luck[step] < noise).reshape(
                -1, *[1] * (best.ndim - 1)
            )  # [tasks] or [tasks, 1]
            return np.asarray(np.where(strays, detours[step], best))

        return runner.act(count, choose)


def guided(suite: TaskSuite, tasks: Sequence[int]) -> Any:
    """Build a vector environment that knows best actions."""
    env = suite.make_vec(tasks)
    if not isinstance(env, Guide):
        raise ValueError(
            f"{suite.name!r} does not know best actions: its vector environments have no "
            "optimal_actions(); choose another source"
        )
    return env


def check_noisy_expert(suite: TaskSuite, options: NoisyExpertOptions) -> None:
    """Refuse tasks whose best actions nobody knows."""
    guided(suite, suite.train_tasks[:1]).close()


def forecast_noisy_expert(suite: TaskSuite, options: NoisyExpertOptions) -> Forecast:
    """Expect episodes that take a third of their time."""
    tasks = min(options.tasks, len(suite.train_tasks))
    episodes = tasks * options.episodes
    return Forecast(tasks, episodes * suite.spaces.horizon // 3, episodes * SECONDS_PER_EPISODE)


SOURCES.register(
    "noisy-expert",
    SourceEntry(
        NoisyExpertOptions,
        record_noisy_expert,
        forecast_noisy_expert,
        check=check_noisy_expert,
    ),
)
