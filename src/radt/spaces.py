"""What a family of tasks looks like from outside: its states, its actions, its returns.

Everything that depends on the kind of environment is decided by these records: which encoder reads
the state, which head writes the action, how rewards and returns are scaled. A new environment
describes itself here and needs no change elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

StateKind = Literal["discrete", "vector", "image", "encoded"]
ActionKind = Literal["discrete", "continuous"]


@dataclass(frozen=True)
class StateSpace:
    """The states of a family of tasks, padded to one shape where tasks differ."""

    kind: StateKind  # discrete: integer coordinates; encoded: outputs of a frozen encoder
    shape: tuple[int, ...]
    bins: tuple[int, ...] = ()  # discrete: how many values each coordinate takes

    def __post_init__(self) -> None:
        if self.kind == "discrete" and len(self.bins) != math.prod(self.shape):
            raise ValueError(f"{len(self.bins)} bins given for {math.prod(self.shape)} coordinates")
        if self.kind == "image" and len(self.shape) != 3:
            raise ValueError(f"an image state is [channels, height, width], not {self.shape}")

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """How a state is stored."""
        if self.kind == "image":
            return np.dtype(np.uint8)
        if self.kind == "discrete":
            return np.dtype(np.uint8 if max(self.bins) <= 256 else np.int32)
        return np.dtype(np.float32)


@dataclass(frozen=True)
class ActionSpace:
    """The actions of a family of tasks; continuous ones lie in [-1, 1] and are padded."""

    kind: ActionKind
    size: int  # discrete: number of actions; continuous: number of dimensions

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one action."""
        return () if self.kind == "discrete" else (self.size,)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """How an action is stored."""
        return np.dtype(np.uint8 if self.kind == "discrete" else np.float32)

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
