"""The source `annealed`: nobody learns, a best way with noise that falls looks as if somebody did.

An episode acts at random with one probability at every step, else along a shortest way. The
probability falls in a straight line over a task's history. It takes seconds for a thousand tasks,
where the vector environments know best actions, and everything made of it is labelled `annealed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.collect.histories import one_history
from radt.collect.learner import ENVIRONMENT, ROLLOUT, stream
from radt.collect.rollout import Actor, Rollout
from radt.collect.source import (
    SOURCES,
    CollectProgress,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
)
from radt.data import History
from radt.envs.suite import Guide, TaskSuite

TRANSITIONS_AT_ONCE = 5_000_000  # a third of a gigabyte
SECONDS_PER_TRANSITION = 8e-7


@dataclass(frozen=True)
class AnnealedOptions:
    """How much is recorded, and how noise falls."""

    seed: int = 0
    tasks: int = 100  # the first training tasks of the suite
    transitions: int = 20_000  # of each task
    first_noise: float = 1.0  # probability of a random action at the beginning of a history
    last_noise: float = 0.0  # and at its end

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed}")
        for name in ("tasks", "transitions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 1.0 >= self.first_noise >= self.last_noise >= 0.0:
            raise ValueError(
                f"noise falls from a probability to a lower one, not from {self.first_noise} to "
                f"{self.last_noise}"
            )

    def noise(self, step: int) -> float:
        """Return the probability of random actions in an episode that begins with this step."""
        done = step / self.transitions
        return (1.0 - done) * self.first_noise + done * self.last_noise


def record(request: Request) -> Recorded:
    """Act with falling noise in the first training tasks, some at once."""
    return Recorded(_histories(request))


def _histories(request: Request) -> Iterator[History]:
    options, suite = request.options, request.suite
    tasks = suite.train_tasks[: options.tasks]
    at_once = max(1, TRANSITIONS_AT_ONCE // options.transitions)
    for start in range(0, len(tasks), at_once):
        some = tasks[start : start + at_once]
        lived = act_out(suite, some, options)
        done, total = (count * options.transitions for count in (start + len(some), len(tasks)))
        mean = float(lived.rewards.sum(dtype=np.float64)) / max(1, int(lived.ends.sum()))
        request.report(CollectProgress(done, total, mean))
        for slot, task in enumerate(some):
            own = slice(slot, slot + 1)
            yield one_history(
                task,
                lived.states[:, own],
                lived.actions[:, own].astype(suite.spaces.action.dtype),
                lived.rewards[:, own],
                lived.ends[:, own],
            )


def act_out(suite: TaskSuite, tasks: Sequence[int], options: AnnealedOptions) -> Rollout:
    """Live through the histories of some tasks, [transitions, tasks, ...]."""
    env = guided(suite, tasks)
    seeds = [int(stream(options.seed, task, ENVIRONMENT).integers(2**31)) for task in tasks]
    actor = Actor(env, seeds)
    luck, detours = _random_numbers(suite, tasks, options)
    noise = np.empty(len(tasks))

    def choose(step: int) -> NDArray[np.int64]:
        noise[actor.begun] = options.noise(step)
        return np.asarray(np.where(luck[step] < noise, detours[step], env.optimal_actions()))

    return actor.act(options.transitions, choose)


def _random_numbers(
    suite: TaskSuite, tasks: Sequence[int], options: AnnealedOptions
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Draw what decides whether a step is random, and where it then goes, [transitions, tasks]."""
    count, actions = options.transitions, suite.spaces.action.size
    streams = [stream(options.seed, task, ROLLOUT) for task in tasks]
    luck = np.stack([own.random(count, np.float32) for own in streams], axis=1)
    return luck, np.stack([own.integers(actions, size=count, dtype=np.uint8) for own in streams], 1)


def guided(suite: TaskSuite, tasks: Sequence[int]) -> Any:
    """Build a vector environment that knows best actions."""
    env = suite.make_vec(tasks)
    if not isinstance(env, Guide):
        raise ValueError(
            f"{suite.name!r} does not know best actions: its vector environments have no "
            "optimal_actions(); choose another source"
        )
    return env


def check(suite: TaskSuite, options: AnnealedOptions) -> None:
    """Refuse tasks whose best actions nobody knows."""
    guided(suite, suite.train_tasks[:1]).close()


def forecast(suite: TaskSuite, options: AnnealedOptions) -> Forecast:
    """Expect as many tasks as there are, up to those asked for."""
    tasks = min(options.tasks, len(suite.train_tasks))
    count = tasks * options.transitions
    return Forecast(tasks, count, count * SECONDS_PER_TRANSITION)


def usual_options(env: str) -> AnnealedOptions:
    """Return the defaults; the paper has no such source."""
    return AnnealedOptions()


SOURCES.register("annealed", SourceEntry(AnnealedOptions, record, forecast, usual_options, check))
