"""The plug point of environments: a suite is a family of tasks that share their spaces.

A task is an integer. A suite knows which tasks are for training and which are unseen, builds one
environment or many at once, and says what the best possible return is, where that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

from radt.registry import Registry
from radt.spaces import TaskSpaces


@runtime_checkable
class TaskSuite(Protocol):
    """A family of tasks, e.g. Dark-Room 10x10 with its hundred goals."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def spaces(self) -> TaskSpaces:
        """What a model needs to know of these tasks."""
        ...

    @property
    def train_tasks(self) -> tuple[int, ...]:
        """The tasks to learn from."""
        ...

    @property
    def eval_tasks(self) -> tuple[int, ...]:
        """The unseen tasks."""
        ...

    @property
    def trials(self) -> int:
        """How many trials the paper gives an agent on one task."""
        ...

    @property
    def target_return(self) -> tuple[float, float]:
        """The mean and the standard deviation of DT's target."""
        ...

    def make(self, task: int, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Build one environment."""
        ...

    def make_vec(self, tasks: Sequence[int]) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Build all `tasks` as one vector environment, one slot each."""
        ...

    def optimal_return(self, task: int) -> float | None:
        """Return the best expected return of one episode, or None where it is not known."""
        ...

    def describe(self, task: int) -> str:
        """Say in a few words what `task` asks for."""
        ...


SUITES: Registry[TaskSuite] = Registry("envs")
