"""Dark Key-Door: take a key that cannot be seen, then stay on a door that cannot be seen.

The agent sees (row, column) and not whether it holds the key. With each episode the key lies in
its place again; with `persist_key=True` it stays taken, as in the authors' data. A place is a cell
without the key, or, `cells` further on, the same cell with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radt.envs.dark_room import (
    DarkRoom,
    DarkRoomSuite,
    DarkRoomVec,
    PickedRoom,
    Room,
    goal_cells,
    slippery_values,
    steps_until_on,
)
from radt.envs.render import GridView
from radt.envs.vector import Mask, Slots

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
        cells = goal_cells(self.width, self.height, KEY_SEED)
        for task, cell in HAND_FIX.get((self.width, self.height), {}).items():
            cells[task] = cell
        x, y = cells.T
        return np.asarray(y * self.width + x)  # [tasks]

    @cached_property
    def observations(self) -> NDArray[np.uint8]:
        shape = (2, self.height, self.width)
        has_key, row, col = np.unravel_index(np.arange(2 * self.horizon), shape)
        table = np.stack([row, col, has_key][: len(self.bins)], axis=1).astype(np.uint8)
        table.setflags(write=False)
        return table  # [2 * cells, 2 or 3]

    def key(self, task: SupportsIndex) -> int:
        self.goal(task)  # which refuses an unknown task
        return int(self.keys[task])

    def values(self, task: int, steps_left: int, has_key: bool) -> NDArray[np.float64]:
        """Return the best expected return from each cell with `steps_left` actions to go."""
        key, door = self.key(task), self.goal(task)
        if has_key:
            return self.best_values(door, steps_left)
        size = (self.width, self.height)
        if self.slip > 0.0:
            held = slippery_values(*size, door, self.slip)[:, key]  # [horizon + 1]
            values = slippery_values(*size, key, self.slip, after=tuple(held))
            return np.asarray(values[steps_left])
        left = steps_left - steps_until_on(*size, key)  # [cells] once the key is taken
        then = np.maximum(left + 1.0 - steps_until_on(*size, door)[key], 0.0)
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


@dataclass(frozen=True)
class PickedKeyRoom(PickedRoom, KeyRoom):
    """A room of one task, whose door and key somebody put somewhere."""

    key_cell: int = 0

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        return np.array([self.key_cell])


class KeyDoorVec(DarkRoomVec):
    """Many tasks at once, one slot each."""

    room: KeyRoom
    rules: ClassVar[type[Room]] = KeyRoom

    @cached_property
    def has_key(self) -> Mask:
        return np.zeros(self.num_envs, np.bool_)

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self.room.keys[list(self.tasks)]  # [N]

    def _earn(self, slots: Slots) -> NDArray[np.float64]:
        cells, held = self._cells[slots], self.has_key[slots]
        taken = (cells == self._keys[slots]) & ~held
        self.has_key[slots] = held | taken
        return np.asarray(taken | (held & (cells == self.goals[slots])), np.float64)

    def _hide(self, slots: Slots) -> None:
        if not self.room.persist_key:
            self.has_key[slots] = False

    def _seeded(self, slot: int, seed: int) -> None:
        self.has_key[slot] = False

    def _places(self, slots: Slots) -> NDArray[np.int64]:
        return np.asarray(self._cells[slots] + self.room.horizon * self.has_key[slots])

    @cached_property
    def _ways(self) -> NDArray[np.int64]:
        """The best action of each slot in each place, as if its episode had just begun."""
        cells = self.room.observations[: self.room.horizon]
        both = [(task, has) for task in self.tasks for has in (False, True)]
        best = np.stack([self.room.best_actions(task, cells, has) for task, has in both])
        return best.reshape(self.num_envs, -1)  # [N, 2 * cells]

    def optimal_actions(self) -> NDArray[np.int64]:
        return np.asarray(self._ways[self._slots, self._places(self._slots)])


class KeyDoor(DarkRoom):
    """One task: earn 1 for taking the key, then 1 with each step that ends on the door."""

    room: KeyRoom
    many: ClassVar[type[DarkRoomVec]] = KeyDoorVec
    vec: KeyDoorVec

    def view(self) -> GridView:
        """Describe the present moment for rendering: the key is drawn until it is taken."""
        key = divmod(self.room.key(self.task), self.room.width)
        return replace(super().view(), key=None if self.vec.has_key[0] else key)


@dataclass(frozen=True)
class KeyDoorSuite(DarkRoomSuite):
    """The hundred pairs of key and door of one kind of room, as the authors split them."""

    room: KeyRoom

    pickable: ClassVar[tuple[str, ...]] = ("goal", "key")
    picked_room: ClassVar[type[Room]] = PickedKeyRoom
    single: ClassVar[type[DarkRoom]] = KeyDoor

    @property
    def privileged(self) -> KeyDoorSuite:
        """The same tasks with the hidden has-key bit at the end of each state."""
        return replace(self, room=replace(self.room, show_key=True))

    def optimal_return(self, task: int) -> float:
        """Return the best expected return of one episode.

        Where the key persists, this is the steady state: an episode that begins with the key.
        Only the first episodes, up to the one that finds the key, can do no better than a reset
        room's, whose best return `room.best_return(task, has_key=False)` is.
        """
        return self.room.best_return(task, has_key=self.room.persist_key)

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[np.int64]:
        held = self.has_key(task, states, rewards)
        to_key, to_door = (self.room.best_actions(task, states, has) for has in (False, True))
        return np.where(held, to_door, to_key)  # [T]

    def has_key(self, task: int, states: NDArray[Any], rewards: NDArray[Any]) -> NDArray[np.bool_]:
        """Derive from an episode's states [T, 2] and rewards [T] when the key was held.

        A reset room tells: held after the first reward. Where the key persists it was held from
        the start if the agent stood on it unpaid before the first reward, or was first paid
        elsewhere; an episode that shows neither counts as one that began without it.
        """
        paid = np.asarray(rewards) > 0
        held = np.cumsum(paid) - paid > 0  # [T] paid before step t
        if self.room.persist_key:
            arrived = self.room.cells(np.asarray(states)[1:, :2])  # [T - 1] where steps led
            first = int(np.argmax(paid)) if paid.any() else len(paid)
            unpaid = (arrived[:first] == self.room.key(task)).any()
            elsewhere = (arrived[first : first + 1] != self.room.key(task)).any()
            held |= unpaid or elsewhere
        return np.asarray(held)

    def view(self, task: int, states: NDArray[Any], rewards: NDArray[Any]) -> GridView:
        """Describe an episode so far for drawing: the key is shown until it is taken."""
        lived = np.asarray(states)[: len(rewards)]  # without the present state
        taken = bool(np.any(np.asarray(rewards) > 0) or self.has_key(task, lived, rewards).any())
        key = None if taken else divmod(self.room.key(task), self.room.width)
        return replace(super().view(task, states, rewards), key=key)

    def describe(self, task: int) -> str:
        row, column = divmod(self.room.key(task), self.room.width)
        door_row, door_column = divmod(self.room.goal(task), self.room.width)
        return (
            f"take the hidden key in row {row}, column {column}, then stay on the hidden door in "
            f"row {door_row}, column {door_column}"
        )
