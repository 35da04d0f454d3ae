"""The rules of a dark room with a key and a door: where they are, and what is best.

A place is a cell without the key, or, `cells` further on, the same cell with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radt.envs.tasks import Room, goal_cells, next_cells, slippery_values, steps_to

KEY_SEED = 42  # the authors' seed of the keys; doors are where Dark-Room has its goals
HAND_FIX = {(10, 10): {81: (3, 1)}}  # their key (x, y) of a task where it fell on the door


@dataclass(frozen=True)
class KeyRoom(Room):
    """The rules of one kind of room with a key and a door.

    The first step that ends on the key takes it and pays 1, a step that waits on it included; a
    reset alone takes nothing. Each later step that ends on the door pays 1. No step pays twice:
    where the key lies under the door, the step that takes it is paid for the key.
    """

    persist_key: bool = False  # the key once taken stays taken until a reset with a seed
    show_key: bool = False  # observe (row, column, has key) instead of (row, column)

    @property
    def bins(self) -> tuple[int, ...]:
        """How many values each coordinate of an observation takes."""
        return (self.height, self.width, 2) if self.show_key else (self.height, self.width)

    @property
    def solved_above(self) -> float:
        """The return that only a trial which found the door can exceed; the key alone pays 1.

        Where the key persists, a later trial that ends with its first step on the door earns no
        more.
        """
        return 1.0

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The key's cell of each task."""
        cells = goal_cells(self.width, self.height, KEY_SEED)
        for task, cell in HAND_FIX.get((self.width, self.height), {}).items():
            cells[task] = cell
        x, y = cells.T
        return np.asarray(y * self.width + x)  # [tasks]

    @cached_property
    def observations(self) -> NDArray[np.uint8]:
        """The observation of each place."""
        shape = (2, self.height, self.width)
        has_key, row, col = np.unravel_index(np.arange(2 * self.horizon), shape)
        table = np.stack([row, col, has_key][: len(self.bins)], axis=1).astype(np.uint8)
        table.setflags(write=False)
        return table  # [2 * cells, 2 or 3]

    def key(self, task: SupportsIndex) -> int:
        """Return the key's cell of a task."""
        self.goal(task)  # which refuses an unknown task
        return int(self.keys[task])

    def values(self, task: int, steps_left: int, has_key: bool) -> NDArray[np.float64]:
        """Return the best expected return from each cell with `steps_left` actions to go."""
        key, door = self.key(task), self.goal(task)
        if has_key:
            return self.best_values(door, steps_left)
        size = (self.width, self.height)
        if self.slip > 0.0:
            held = slippery_values(*size, door, self.horizon, self.slip)[:, key]  # [horizon + 1]
            values = slippery_key_values(*size, key, tuple(held), self.slip)
            return np.asarray(values[steps_left])
        left = steps_left - steps_to(*size, key)  # [cells] once the key is taken
        then = np.maximum(left + 1.0 - steps_to(*size, door)[key], 0.0)
        return np.where(left >= 0, 1.0 + then, 0.0)

    def best_return(self, task: int, has_key: bool) -> float:
        """Return the best expected return of an episode that begins with or without the key."""
        values = self.values(task, self.horizon, has_key)
        return float(values.mean() if self.random_start else values[0])

    def best_actions(
        self, task: int, states: ArrayLike, has_key: bool, steps_left: int | None = None
    ) -> NDArray[np.int64]:
        """Return a best action for each of `states`, by default as if the episode just began."""
        left = max((self.horizon if steps_left is None else steps_left) - 1, 0)
        after = self.values(task, left, has_key).copy()  # [cells] of arriving there
        if has_key:
            after[self.goal(task)] += 1.0
        else:
            key = self.key(task)
            after[key] = 1.0 + self.values(task, left, has_key=True)[key]
        cells = self.cells(np.asarray(states)[..., :2])
        return np.asarray(after[self.moves[cells]].argmax(axis=-1))  # [...]


@lru_cache(maxsize=256)
def slippery_key_values(
    width: int, height: int, key: int, held: tuple[float, ...], slip: float
) -> NDArray[np.float64]:
    """Solve the way to a key backwards; `held` are the values of having just taken it."""
    moved = next_cells(width, height)  # [cells, actions]
    values = np.zeros((len(held), width * height))
    for left in range(1, len(held)):
        after = values[left - 1].copy()
        after[key] = 1.0 + held[left - 1]
        outcome = after[moved]  # [cells, actions]
        values[left] = (1.0 - slip) * outcome.max(axis=1) + slip * outcome.mean(axis=1)
    values.setflags(write=False)
    return values  # [horizon + 1, cells]
