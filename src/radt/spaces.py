"""What a family of tasks looks like from outside: its states, its actions, its returns.

Everything that depends on the kind of environment is decided by these records: which encoder reads
the state, which head writes the action, how rewards and returns are scaled. A new environment
describes itself here and needs no change elsewhere.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

StateKind = Literal["discrete", "vector", "image", "encoded"]
ActionKind = Literal["discrete", "continuous"]


def _refuse_unknown(noun: str, kind: str, known: tuple[str, ...]) -> None:
    if kind not in known:
        raise ValueError(f"there are no {kind!r} {noun}; choose among {', '.join(known)}")


@dataclass(frozen=True)
class StateSpace:
    """The states of a family of tasks, padded to one shape where tasks differ."""

    kind: StateKind  # discrete: integer coordinates; encoded: outputs of a frozen encoder
    shape: tuple[int, ...]
    bins: tuple[int, ...] = ()  # discrete: how many values each coordinate takes

    def __post_init__(self) -> None:
        _refuse_unknown("states", self.kind, get_args(StateKind))
        if self.kind == "discrete" and len(self.bins) != math.prod(self.shape):
            raise ValueError(f"{len(self.bins)} bins given for {math.prod(self.shape)} coordinates")
        if self.kind == "image" and len(self.shape) != 3:
            raise ValueError(f"an image state is [channels, height, width], not {self.shape}")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        if self.kind == "image":
            return np.dtype(np.uint8)
        if self.kind == "discrete":
            return np.dtype(np.uint8 if max(self.bins) <= 256 else np.int32)
        return np.dtype(np.float32)

    def in_gymnasium(self, bound: float = np.inf) -> gym.Space[Any]:
        """Describe a state as Gymnasium does; `bound` is that of the numbers of a vector."""
        if self.kind == "discrete":
            highest = np.reshape(self.bins, self.shape) - 1
            return gym.spaces.Box(np.zeros_like(highest), highest, dtype=self.dtype.type)
        low, high = (0, 255) if self.kind == "image" else (-bound, bound)
        return gym.spaces.Box(low, high, self.shape, self.dtype.type)


@dataclass(frozen=True)
class ActionSpace:
    """The actions of a family of tasks; continuous ones lie in [-1, 1] and are padded."""

    kind: ActionKind
    size: int  # discrete: number of actions; continuous: number of dimensions

    def __post_init__(self) -> None:
        _refuse_unknown("actions", self.kind, get_args(ActionKind))

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self.kind == "discrete" else (self.size,)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(np.uint8 if self.kind == "discrete" else np.float32)

    def in_gymnasium(self) -> gym.Space[Any]:
        if self.kind == "discrete":
            return gym.spaces.Discrete(self.size)
        return gym.spaces.Box(-1.0, 1.0, self.shape, np.float32)

    def sample(self, count: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw actions uniformly, [count, *shape]."""
        if self.kind == "discrete":
            return rng.integers(self.size, size=count)
        return rng.uniform(-1.0, 1.0, (count, self.size)).astype(np.float32)


@dataclass(frozen=True)
class TaskSpaces:
    """All a model needs to know of a family of tasks before it sees the first step."""

    state: StateSpace
    action: ActionSpace
    horizon: int  # the longest episode, in steps
    return_scale: float  # returns-to-go are divided by it before they enter a network
    reward_scale: float = 1.0
    solved_above: float | None = None  # a trial that earns more succeeds; None: there is no success
    lowest_return: float = 0.0  # of a trial that achieves nothing: bounds on returns count from it
    action_dims: tuple[tuple[int, int], ...] = ()  # (task, valid dimensions) where padded

    def valid_action_dims(self, task: int) -> int:
        """How many dimensions of a continuous action mean something in `task`."""
        return dict(self.action_dims).get(task, self.action.size)

    def padding(self, tasks: Iterable[int]) -> NDArray[np.bool_] | None:
        """Mark the dimensions of actions that tasks do not have, [B, A]; None: they have all."""
        if not self.action_dims:
            return None
        count = np.array([self.valid_action_dims(int(task)) for task in tasks])
        return np.arange(self.action.size) >= count[:, None]

    def encoded(self, width: int) -> TaskSpaces:
        """Return the same tasks, seen by the outputs of a frozen encoder."""
        return replace(self, state=StateSpace("encoded", (width,)))

    def plain_values(self) -> dict[str, Any]:
        """Return plain values, without what was added later and says nothing: hashes stay equal."""
        values = asdict(self)
        if not self.lowest_return:
            del values["lowest_return"]
        return values

    def above_lowest(self, earned: Any, steps: Any) -> Any:
        """Return how much more some steps earned than those of a trial that achieves nothing."""
        if not self.lowest_return:
            return earned
        return earned - self.lowest_return * (steps / self.horizon)


ROUNDING = 1e-6  # of an action at the end of its range
LARGEST = 1e15  # of a state's or reward's numbers: a network squares them in float32


def value_problem(
    name: str, values: NDArray[Any], spaces: TaskSpaces, row: str = "step"
) -> str | None:
    """Say which numbers of an array cannot be, if any, and in which row the first of them is."""
    low: float = 0
    high: NDArray[Any] = np.asarray(np.inf)
    if name == "lengths":
        low, high = 1, np.asarray(spaces.horizon)
    elif name == "states" and spaces.state.kind == "discrete":
        high = np.reshape(spaces.state.bins, spaces.state.shape) - 1
    elif name == "states" and spaces.state.kind == "image":
        high = np.asarray(255)
    elif name == "actions" and spaces.action.kind == "discrete":
        high = np.asarray(spaces.action.size - 1)
    elif not (finite := np.isfinite(values)).all():
        return f"some {name} are not finite numbers{_first(~finite, values, row)}"
    elif name == "actions":
        low, high = -1 - ROUNDING, np.asarray(1 + ROUNDING)
    else:
        large = (values > LARGEST) | (values < -LARGEST)  # the least int64 has no absolute value
        beyond = f"some {name} are beyond {LARGEST:g}"
        return f"{beyond}{_first(large, values, row)}" if large.any() else None
    if not values.size or (values.min() >= low and values.max() <= high.min()):
        return None  # the usual case, at a fraction of the cost
    if not (wrong := (values < low) | (values > high)).any():
        return None
    first = _first(wrong, values, row)
    if low < 0:
        return f"{name} from {values.min()} to {values.max()} leave [-1, 1]{first}"
    return f"{name} from {values.min()} to {values.max()} are not in {low}..{high.tolist()}{first}"


def _first(wrong: NDArray[np.bool_], values: NDArray[Any], row: str) -> str:
    """Name the first row that has something wrong, with its values if they are few."""
    number = int(np.argwhere(wrong)[0][0])
    shown = np.array2string(values[number], threshold=8, edgeitems=3, separator=", ")
    return f", first at {row} {number}: {' '.join(shown.split())}"


def is_whole_number(value: Any) -> bool:
    """Tell whether a value is a whole number, of Python or of NumPy."""
    try:
        return operator.index(value) == value and not isinstance(value, (bool, np.bool_))
    except TypeError:
        return False
