"""The source `expert`: a policy whose noise is annealed over the history of a task.

In an episode each action is random with one probability, else the expert's; or a continuous action
is the expert's plus Gaussian noise, clipped. Noise falls linearly over the episodes. The expert is
the suite's: its vector environments know optimal actions (`Guide`), or `expert(task)` returns a
policy. `noisy-expert`, the source's older name, stays the name of what was made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
    suite, options = request.suite, request.options
    tasks = suite.train_tasks[: options.tasks]

    def histories() -> Iterator[History]:
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

    return Recorded(histories())


def act_out(
    suite: TaskSuite, tasks: Sequence[int], options: NoisyExpertOptions
) -> Iterator[History]:
    """Roll out all episodes of some tasks; finished ones go on unrecorded."""
    ended, parts = np.zeros(len(tasks), np.int64), []
    for rollout in rollouts(suite, tasks, options):
        actions = rollout.actions.astype(suite.spaces.action.dtype)
        parts.append((rollout.states, actions, rollout.rewards, rollout.ends))
        ended += rollout.ends.sum(axis=0)
        if (ended >= options.episodes).all():
            break
    states, actions, rewards, ends = (np.concatenate(part) for part in zip(*parts, strict=True))
    for slot, task in enumerate(tasks):
        stop = np.flatnonzero(ends[:, slot])[options.episodes - 1] + 1
        own = (slice(stop), slice(slot, slot + 1))
        yield one_history(task, states[own], actions[own], rewards[own], ends[own])


def rollouts(
    suite: TaskSuite, tasks: Sequence[int], options: NoisyExpertOptions
) -> Iterator[Rollout]:
    """Act in running episodes of some tasks, each with its own noise, for as long as is asked."""
    seed, space, count = options.seed, suite.spaces.action, STEPS_AT_ONCE
    env, expert = guided(suite, tasks)
    seeds = [int(stream(seed, task, ENVIRONMENT).integers(2**31)) for task in tasks]
    runner, streams = Runner(env, seeds), [stream(seed, task, ROLLOUT) for task in tasks]
    falling = np.linspace(options.first_noise, options.last_noise, options.episodes)
    episode = np.full(len(tasks), -1)  # [tasks]
    padding = suite.spaces.padding(tasks)

    def choose(luck: NDArray[Any], detours: NDArray[Any], step: int) -> NDArray[Any]:
        episode[runner.begun] += 1
        noise = falling[np.minimum(episode, len(falling) - 1)]  # [tasks]
        best = expert(runner.states)  # [tasks, *action_shape]
        if options.noise == "gaussian":
            return np.asarray(np.clip(best + noise[:, None] * detours[step], -1.0, 1.0))
        strays = (luck[step] < noise).reshape(-1, *[1] * (best.ndim - 1))
        return np.asarray(np.where(strays, detours[step], best))

    while True:
        luck = np.stack([own.random(count) for own in streams], axis=1)
        if options.noise == "gaussian":
            drawn = [own.standard_normal((count, space.size)) for own in streams]
        else:
            drawn = [space.sample(count, own) for own in streams]
        detours = np.stack(drawn, axis=1)
        if padding is not None:
            detours[:, padding] = 0.0
        yield runner.act(count, partial(choose, luck, detours))


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
    NoisyExpertOptions, record_noisy_expert, forecast_noisy_expert, check=check_noisy_expert
)
for name in ("expert", "noisy-expert"):
    SOURCES.register(name, EXPERT)
