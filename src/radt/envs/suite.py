"""The plug point of environments: a suite is a family of tasks that share their spaces.

A task is an integer. A suite knows which tasks are for training and which are unseen, builds one
environment or many at once, and says what the best possible return is, where that is known.

What else it can say of itself has defaults, so that a suite is as short as its tasks allow:

| attribute      | default    | meaning                                                        |
|----------------|------------|----------------------------------------------------------------|
| `splits`       | none       | further named sets of tasks, beside `train` and `eval`         |
| `source`       | `"ppo"`    | the data source that is used unless another is asked for       |
| `recipes`      | none       | what it changes about runs, by budget, row or source           |
| `scoring`      | the return | how a return becomes a score                                   |
| `task_targets` | none       | target returns by task as (mean, std), or `"data"`: the best   |
|                |            | recorded return of the task, of unseen ones the mean of these  |
| `twins`        | none       | tasks that differ from a training task only in their level, by |
|                |            | that task, whose target they have                              |
| `for_data`     | itself     | the suite that data are collected in, if episodes begin        |
|                |            | otherwise there                                                |
| `action_names` | numbers    | what the actions, or the dimensions of one, are called         |

Whether a trial can succeed, and from which return on, is `spaces.solved_above`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from radt.envs.render import GridView, Sketch
from radt.errors import MissingError
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


SAID_OF_ITSELF = ("splits", "source", "recipes", "scoring", "task_targets")  # and may be left out


@dataclass(frozen=True)
class Recipe:
    """What a suite changes about runs: a layer of config values, and for which runs it is.

    Options that a method does not have are left out, so one recipe serves many.
    """

    values: Mapping[str, Any]  # nested as the config is
    budgets: tuple[str, ...] = ()  # none: all of them
    labels: tuple[str, ...] = ()  # rows by name; none: all of them
    methods: tuple[str, ...] = ()  # rows by their method; none: all of them
    source: str | None = None  # a data source; None: any

    def __post_init__(self) -> None:
        if unknown := {*self.budgets} - {"smoke", "laptop", "paper"}:
            raise ValueError(f"a recipe is for smoke, laptop or paper, not for {min(unknown)!r}")

    def fits(self, budget: str, label: str, method: str, source: str) -> bool:
        wanted = ((self.budgets, budget), (self.labels, label), (self.methods, method))
        return self.source in (None, source) and all(not ok or one in ok for ok, one in wanted)


@dataclass(frozen=True)
class Scoring:
    """How a return becomes a score; a normalised one is 0 at `low` and 1 at `high`."""

    kind: Literal["return", "success", "data-normalised", "human-normalised"] = "return"
    low: Mapping[int, float] = field(default_factory=dict)  # by task, e.g. of a random policy
    high: Mapping[int, float] = field(default_factory=dict)  # e.g. of the data, or of people


def recipes_of(suite: TaskSuite) -> tuple[Recipe, ...]:
    """Return what a suite changes about runs."""
    return tuple(getattr(suite, "recipes", ()))


def source_of(suite: TaskSuite) -> str:
    """Name the data source of a suite, unless another one is asked for."""
    return str(getattr(suite, "source", "ppo"))


def for_data(suite: TaskSuite) -> TaskSuite:
    """Return the suite that data of a suite are collected in."""
    found: TaskSuite = getattr(suite, "for_data", suite)
    return found


def splits_of(suite: TaskSuite) -> dict[str, tuple[int, ...]]:
    """Return the named sets of a suite's tasks."""
    own: Mapping[str, tuple[int, ...]] = getattr(suite, "splits", {})
    return {"train": suite.train_tasks, "eval": suite.eval_tasks, **own}


def task_targets_of(suite: TaskSuite) -> Mapping[int, tuple[float, float]] | Literal["data"]:
    """Return the target returns of single tasks, where they differ."""
    found: Mapping[int, tuple[float, float]] | Literal["data"] = getattr(suite, "task_targets", {})
    return found


def twins_of(suite: TaskSuite) -> Mapping[int, int]:
    """Return the tasks that are a training task on another level, with that task."""
    found: Mapping[int, int] = getattr(suite, "twins", {})
    return found


def scoring_of(suite: TaskSuite) -> Scoring:
    """Say how a suite is scored."""
    found: Scoring = getattr(suite, "scoring", Scoring())
    return found


def success_threshold(suite: TaskSuite, tasks: Sequence[int]) -> float | None:
    """Return what a trial exceeds that has succeeded; None: the suite declares no success.

    That is what solves a task, unless some of `tasks` do not pay so much: then it is any reward.
    """
    above = suite.spaces.solved_above
    if above is None:
        return None
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
class SketchedSuite(TaskSuite, Protocol):
    """A family of tasks whose states show where bodies are."""

    def sketch(self, task: int, states: NDArray[Any]) -> Sketch:
        """Draw consecutive states of an episode, [T, width]."""


def sketch_of(suite: TaskSuite, task: int, states: NDArray[Any] | None = None) -> Sketch | None:
    """Draw states, or one of zeros; None where a suite cannot, or lacks a package for it."""
    if not isinstance(suite, SketchedSuite):
        return None
    some = np.zeros((1, *suite.spaces.state.shape), np.float32) if states is None else states
    try:
        return suite.sketch(task, some)
    except MissingError:
        return None


@runtime_checkable
class PhotographedSuite(SketchedSuite, Protocol):
    """A family of tasks that a renderer shows, where one is installed."""

    def photographs(
        self, task: int, states: NDArray[Any], steps: Sequence[int], pixels: int
    ) -> NDArray[np.uint8] | None:
        """Show some of an episode's states as [steps, pixels, pixels, 3]; None: no renderer."""


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
        """Return a best action for each slot from where it stands, [N, *action_shape]."""


@runtime_checkable
class Demonstrated(Protocol):
    """A family of tasks with a policy for each, e.g. a script that solves it."""

    def expert(self, task: int) -> Callable[[NDArray[Any]], Any]:
        """Return a policy: from one state to an action."""


SUITES: Registry[TaskSuite] = Registry("envs", "environment")
