"""The plug point of grids: the rules and tables that `GridEnv` and `GridVec` play by."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Observations = NDArray[Any]  # (row, column) in the last axis, and what a world shows beside it


class World(Protocol):
    """The rules and tables that an environment plays by; a cell is `row * width + column`."""

    @property
    def width(self) -> int:
        """How many columns there are."""
        ...

    @property
    def horizon(self) -> int:
        """The most steps of an episode."""
        ...

    @property
    def actions(self) -> tuple[str, ...]:
        """What the actions are called."""
        ...

    @property
    def slip(self) -> float:
        """With this probability a uniformly random action is executed instead."""
        ...

    @property
    def is_noisy(self) -> bool:
        """Whether episodes depend on chance."""
        ...

    @property
    def end(self) -> Literal["terminated", "truncated"]:
        """How the end of the horizon is reported."""
        ...

    @property
    def moves(self) -> NDArray[np.int64]:
        """The next cell of each cell and action."""
        ...

    @property
    def observations(self) -> Observations:
        """What is seen in each place; integers from 0 up, or shares from 0 to 1."""
        ...

    def begin(self, rng: np.random.Generator) -> tuple[int, NDArray[np.int8]]:
        """Draw an episode's start cell and, for each step, the action forced by a slip or -1."""
        ...
