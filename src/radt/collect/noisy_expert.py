"""The source `expert`: a policy whose noise is annealed over the history of a task.

In an episode each action is random with one probability, else the expert's; or a continuous action
is the expert's plus Gaussian noise, clipped. Noise falls linearly over the episodes. The expert is
the suite's: its vector environments know optimal actions (`Guide`), or `expert(task)` returns a
policy. `noisy-expert`, the source's older name, stays the name of what was made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
from radt.envs.suite import Demonstrated, Guide, TaskSuite

TASKS_AT_ONCE = 200
STEPS_AT_ONCE = 500
SECONDS_PER_EPISODE = 1e-4


@dataclass(frozen=True)
class NoisyExpertOptions:
    """How much is recorded, and how noise falls."""

    seed: int = 0  # of the dataset; a run has its own
    tasks: int = 100  # the first training tasks of the suite
    episodes: int = 100  # of each task
    first_noise: float = 1.0  # in the first episode: probability of a random action, or deviation
    last_noise: float = 0.0  # the same in the last episode
    noise: Literal["random", "gaussian"] = "random"  # actions drawn uniformly, or moved

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
        seed, self._space, self._kind = options.seed, suite.spaces.action, options.noise
        env, self._expert = guided(suite, tasks)
        seeds = [int(stream(seed, task, ENVIRONMENT).integers(2**31)) for task in tasks]
        self._runner = Runner(env, seeds)
        self._streams = [stream(seed, task, ROLLOUT) for task in tasks]
        self._noise = np.linspace(options.first_noise, options.last_noise, options.episodes)
        self._episode = np.full(len(tasks), -1)  # [tasks]
        self._padding = suite.spaces.padding(tasks)

    def go_on(self) -> Rollout:
        count, runner, episode, space = STEPS_AT_ONCE, self._runner, self._episode, self._space
        luck = np.stack([own.random(count) for own in self._streams], axis=1)
        if self._kind == "gaussian":
            shape = (count, space.size)
            detours = np.stack([own.standard_normal(shape) for own in self._streams], 1)
        else:
            detours = np.stack([space.sample(count, own) for own in self._streams], 1)
        if self._padding is not None:
            detours[:, self._padding] = 0.0

        def choose(step: int) -> NDArray[Any]:
            episode[runner.begun] += 1
            noise = self._noise[np.minimum(episode, len(self._noise) - 1)]  # [tasks]
            best = self._expert(runner.states)  # [tasks, *action_shape]
            if self._kind == "gaussian":
                return np.asarray(np.clip(best + noise[:, None] * detours[step], -1.0, 1.0))
            strays = (luck[step] < noise).reshape(-1, *[1] * (best.ndim - 1))
            return np.asarray(np.where(strays, detours[step], best))

        return runner.act(count, choose)


def guided(
    suite: TaskSuite, tasks: Sequence[int]
) -> tuple[Any, Callable[[NDArray[Any]], NDArray[Any]]]:
    """Build a vector environment, and what an expert does in its present states."""
    env = suite.make_vec(tasks)
    if isinstance(env, Guide):
        guide = env
        return env, lambda states: guide.optimal_actions()
    if isinstance(suite, Demonstrated):
        policies = [suite.expert(task) for task in tasks]
        return env, lambda states: np.stack(
            [np.asarray(policy(state)) for policy, state in zip(policies, states, strict=True)]
        )
    env.close()
    raise ValueError(
        f"{suite.name!r} does not know best actions: its vector environments have no "
        "optimal_actions(), and it has no expert(task) that returns a policy; choose another source"
    )


def check_noisy_expert(suite: TaskSuite, options: NoisyExpertOptions) -> None:
    """Refuse tasks whose best actions nobody knows."""
    if options.noise == "gaussian" and suite.spaces.action.kind == "discrete":
        raise ValueError(f"{suite.name!r} has discrete actions; set collect.noise=random")
    guided(suite, suite.train_tasks[:1])[0].close()


def forecast_noisy_expert(suite: TaskSuite, options: NoisyExpertOptions) -> Forecast:
    """Expect episodes that take a third of their time."""
    tasks = min(options.tasks, len(suite.train_tasks))
    episodes = tasks * options.episodes
    return Forecast(tasks, episodes * suite.spaces.horizon // 3, episodes * SECONDS_PER_EPISODE)


EXPERT = SourceEntry(
    NoisyExpertOptions,
    record_noisy_expert,
    forecast_noisy_expert,
    check=check_noisy_expert,
)
for name in ("expert", "noisy-expert"):
    SOURCES.register(name, EXPERT)
