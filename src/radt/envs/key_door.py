"""Dark Key-Door: take a key that cannot be seen, then stay on a door that cannot be seen.

The agent sees (row, column) and not whether it holds the key. With each episode the key lies in
its place again; with `persist_key=True` it stays taken, as in the authors' data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from radt.envs.grid import GridEnv, GridSuite, GridVec, Mask, chosen_tasks
from radt.envs.key_room import KeyRoom
from radt.envs.render import GridView


class KeyDoor(GridEnv):
    """One task: earn 1 for taking the key, then 1 with each step that ends on the door."""

    room: KeyRoom

    def __init__(
        self,
        task: int = 0,
        room: KeyRoom | None = None,
        render_mode: str | None = None,
        **rules: Any,
    ) -> None:
        """Build the room of `task`; `rules` change fields of `room`, e.g. `persist_key=True`."""
        super().__init__(task, replace(room or KeyRoom(), **rules), render_mode)
        self._goal, self._key = self.room.goal(task), self.room.key(task)
        self._has_key = self._began_with_key = False

    def _earn(self) -> float:
        if self._has_key:
            return float(self._cell == self._goal)
        self._has_key = self._cell == self._key
        return float(self._has_key)

    def _hide(self, new_life: bool) -> None:
        self._has_key &= self.room.persist_key and not new_life
        self._began_with_key = self._has_key

    def _place(self) -> int:
        return self._cell + self.room.horizon * self._has_key

    def optimal_return(self) -> float:
        """Return the best expected return of this episode, which may begin with the key."""
        return self.room.best_return(self.task, self._began_with_key)

    def optimal_action(self, state: ArrayLike) -> int:
        """Return a best action in `state` for the steps that are left of this episode."""
        left = self.room.horizon - self._elapsed
        return int(self.room.best_actions(self.task, state, self._has_key, left))

    def view(self) -> GridView:
        """Describe the present moment for rendering: the key is drawn until it is taken."""
        key = None if self._has_key else divmod(self._key, self.room.width)
        return replace(super().view(), key=key)


class KeyDoorVec(GridVec):
    """Many tasks at once, one slot each."""

    room: KeyRoom

    def __init__(
        self,
        tasks: Sequence[int],
        room: KeyRoom | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **rules: Any,
    ) -> None:
        """Build a slot for each of `tasks`; `rules` change fields of `room`."""
        super().__init__(tasks, replace(room or KeyRoom(), **rules), autoreset_mode)
        self._goals = self.room.goals_of(self.tasks)
        self._keys = self.room.keys[list(self.tasks)]  # [N]
        self._has_key = np.zeros(self.num_envs, np.bool_)  # [N]

    def _earn(self, anew: Mask | None) -> NDArray[np.float64]:
        taken = (self._cells == self._keys) & ~self._has_key
        if anew is not None:
            taken &= ~anew  # the move of a slot that begins again does not count
        paid = taken | (self._has_key & (self._cells == self._goals))
        self._has_key |= taken
        return np.asarray(paid, np.float64)

    def _hide(self, mask: Mask, new_life: bool) -> None:
        if new_life or not self.room.persist_key:
            self._has_key[mask] = False

    def _places(self) -> NDArray[np.int64]:
        return self._cells + self.room.horizon * self._has_key

    @cached_property
    def _ways(self) -> NDArray[np.int64]:
        """The best action of each slot in each place, as if its episode had just begun."""
        cells = self.room.observations[: self.room.horizon]
        both = [(task, has) for task in self.tasks for has in (False, True)]
        ways = np.stack([self.room.best_actions(task, cells, has) for task, has in both])
        return ways.reshape(self.num_envs, -1)  # [N, 2 * cells]

    def optimal_actions(self) -> NDArray[np.int64]:
        """Return a best action for each slot from where it stands, [N]."""
        return np.asarray(self._ways[self._slots, self._places()])


def make_key_doors(
    num_envs: int = 1, tasks: Sequence[int] | None = None, **options: Any
) -> KeyDoorVec:
    """Build the vector environment for `gymnasium.make_vec`: `tasks`, or tasks 0 to num_envs-1."""
    return KeyDoorVec(chosen_tasks(num_envs, tasks), **options)


@dataclass(frozen=True)
class KeyDoorSuite(GridSuite):
    """The hundred pairs of key and door of one kind of room, as the authors split them."""

    room: KeyRoom

    @property
    def revealed(self) -> KeyDoorSuite:
        """The same tasks with the hidden has-key bit at the end of each state."""
        return replace(self, room=replace(self.room, show_key=True))

    def make(self, task: int, render_mode: str | None = None) -> KeyDoor:
        """Build one environment."""
        return KeyDoor(task, self.room, render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> KeyDoorVec:
        """Build all `tasks` as one vector environment, one slot each."""
        return KeyDoorVec(tasks, self.room, autoreset_mode)

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
        """Return a best action for each step of one episode, from states [T, 2] and rewards [T]."""
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
        """Say in a few words what `task` asks for."""
        row, column = divmod(self.room.key(task), self.room.width)
        door_row, door_column = divmod(self.room.goal(task), self.room.width)
        return (
            f"take the hidden key in row {row}, column {column}, then stay on the hidden door in "
            f"row {door_row}, column {door_column}"
        )
