"""What recording needs to know of agents that learn, whatever they learn with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radt.collect.rollout import Rollout
from radt.envs.suite import TaskSuite

INITIAL, ENVIRONMENT, ROLLOUT, CUT = range(4)  # what a random stream is for

LearnerState = Mapping[str, NDArray[np.float32]]


def stream(seed: int, task: int, purpose: int, number: int = 0) -> np.random.Generator:
    """Return the random numbers of a task for a purpose; nothing has to be stored to go on."""
    return np.random.default_rng((seed, task, purpose, number))


class LearningOptions(Protocol):
    """The options of a source whose agents learn rollout by rollout."""

    @property
    def seed(self) -> int:
        """The seed of all random numbers."""
        ...

    @property
    def transitions(self) -> int:
        """How many transitions of each task are kept."""
        ...

    @property
    def n_steps(self) -> int:
        """How many steps each environment takes in a rollout."""
        ...

    @property
    def envs_per_task(self) -> int:
        """How many environments an agent learns from."""
        ...

    @property
    def rollouts(self) -> int:
        """How many rollouts hold the transitions."""
        ...

    @property
    def tasks_per_group(self) -> int:
        """How many tasks are computed as one batch."""
        ...

    @property
    def rollouts_per_part(self) -> int:
        """After how many rollouts a part is written: the most that a killed run does again."""
        ...


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
        """Go on after the recorded actions [steps, slots], which the environments live again."""
        ...

    @staticmethod
    def observed(suite: TaskSuite, options: Any, states: NDArray[Any]) -> NDArray[Any]:
        """Turn recorded states [N, values] into those of the suite [N, *shape]."""
        ...
