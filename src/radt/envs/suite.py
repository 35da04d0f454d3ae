"""The plug point of environments: a suite is a family of tasks that share their spaces.

A task is an integer. A suite knows which tasks are for training and which are unseen, builds one
environment or many at once, and says what the best possible return is, where that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
from numpy.typing import NDArray

from radt.envs.render import GridView
from radt.registry import Registry
from radt.spaces import TaskSpaces


@runtime_checkable
class TaskSuite(Protocol):
    """A family of tasks, e.g. Dark-Room 10x10 with its hundred goals."""

    @property
    def name(self) -> str:
        """The registered name."""

    @property
    def spaces(self) -> TaskSpaces:
        """What a model needs to know of these tasks."""

    @property
    def train_tasks(self) -> tuple[int, ...]:
        """The tasks to learn from."""

    @property
    def eval_tasks(self) -> tuple[int, ...]:
        """The unseen tasks."""

    @property
    def trials(self) -> int:
        """How many trials the paper gives an agent on one task."""

    @property
    def target_return(self) -> tuple[float, float]:
        """The mean and the standard deviation of DT's target."""

    def make(self, task: int, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Build one environment."""

    def make_vec(self, tasks: Sequence[int]) -> gym.vector.VectorEnv[Any, Any, Any]:
        """Build all `tasks` as one vector environment, one slot each."""

    def optimal_return(self, task: int) -> float | None:
        """Return the best expected return of one episode, or None where it is not known."""

    def describe(self, task: int) -> str:
        """Say in a few words what `task` asks for."""


def success_threshold(suite: TaskSuite, tasks: Sequence[int]) -> float:
    """Return what a trial exceeds that has found what its task is about.

    That is what solves a task, unless some of `tasks` do not pay so much: then it is any reward.
    """
    above = suite.spaces.solved_above
    best = [suite.optimal_return(task) for task in tasks]
    return 0.0 if any(value is not None and value <= above for value in best) else above


@runtime_checkable
class PrivilegedSuite(TaskSuite, Protocol):
    """A family of tasks whose states leave something out."""

    @property
    def privileged(self) -> TaskSuite:
        """The same tasks with what is hidden appended to each state as further coordinates."""


def privileged_suite(suite: TaskSuite) -> TaskSuite:
    """Return the suite whose states hide nothing."""
    if not isinstance(suite, PrivilegedSuite):
        raise ValueError(
            f"{suite.name!r} hides nothing from its states; set collect.privileged=false"
        )
    return suite.privileged


@runtime_checkable
class DrawnSuite(TaskSuite, Protocol):
    """A family of tasks that can be drawn while an agent acts in them."""

    def optimal_return(self, task: int) -> float:
        """Return the best expected return of one episode."""

    def view(self, task: int, states: NDArray[Any], rewards: NDArray[Any]) -> GridView:
        """Describe an episode so far: its states, the present one last, and the rewards between."""


@runtime_checkable
class Oracle(Protocol):
    """A family of tasks that knows what should have been done in an episode."""

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[Any]:
        """Return a best action for each step of one episode, from all its states and rewards."""


@runtime_checkable
class Guide(Protocol):
    """A vector environment that knows what should be done now."""

    def optimal_actions(self) -> NDArray[Any]:
        """Return a best action for each slot from where it stands, [N]."""


SUITES: Registry[TaskSuite] = Registry("envs", "environment")
