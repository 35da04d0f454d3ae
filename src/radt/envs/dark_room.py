"""Dark-Room: find a goal that cannot be seen, then stay on it (the paper's first environment).

`DarkRoom` plays one task and `DarkRoomVec` many tasks at once, both by the rules of one `Room`;
`DarkRoomSuite` names the tasks.
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
from radt.envs.tasks import Room


class DarkRoom(GridEnv):
    """One task of a dark room: see (row, column), earn 1 with each step that ends on the goal."""

    room: Room

    def __init__(
        self, task: int = 0, room: Room | None = None, render_mode: str | None = None, **rules: Any
    ) -> None:
        """Build the room of `task`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        super().__init__(task, replace(room or Room(), **rules), render_mode)
        self._goal = self.room.goal(task)

    def _earn(self) -> float:
        return float(self._cell == self._goal)

    def optimal_return(self) -> float:
        """Return the best expected return of one episode."""
        return self.room.optimal_return(self._goal)

    def optimal_action(self, state: ArrayLike) -> int:
        """Return a best action in `state` for the steps that are left of this episode."""
        left = self.room.horizon - self._elapsed
        return int(self.room.optimal_actions(self._goal, state, left))


class DarkRoomVec(GridVec):
    """Many tasks of a dark room at once, one slot each."""

    room: Room

    def __init__(
        self,
        tasks: Sequence[int],
        room: Room | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **rules: Any,
    ) -> None:
        """Build a slot for each of `tasks`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        super().__init__(tasks, replace(room or Room(), **rules), autoreset_mode)
        self._goals = self.room.goals_of(self.tasks)

    def _earn(self, anew: Mask | None) -> NDArray[np.float64]:
        return np.asarray(self._cells == self._goals, np.float64)

    @cached_property
    def _ways(self) -> NDArray[np.int64]:
        """The best action of each slot in each cell, as if its episode had just begun."""
        room, cells = self.room, self.room.observations
        return np.stack([room.optimal_actions(g, cells, room.horizon) for g in self._goals])

    def optimal_actions(self) -> NDArray[np.int64]:
        """Return a best action for each slot from where it stands, [N]."""
        return np.asarray(self._ways[self._slots, self._cells])


def make_dark_rooms(
    num_envs: int = 1, tasks: Sequence[int] | None = None, **options: Any
) -> DarkRoomVec:
    """Build the vector environment for `gymnasium.make_vec`: `tasks`, or tasks 0 to num_envs-1."""
    return DarkRoomVec(chosen_tasks(num_envs, tasks), **options)


@dataclass(frozen=True)
class DarkRoomSuite(GridSuite):
    """The hundred goals of one kind of dark room, as the authors split them."""

    def make(self, task: int, render_mode: str | None = None) -> DarkRoom:
        """Build one environment."""
        return DarkRoom(task, self.room, render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> DarkRoomVec:
        """Build all `tasks` as one vector environment, one slot each."""
        return DarkRoomVec(tasks, self.room, autoreset_mode)

    def optimal_return(self, task: int) -> float:
        """Return the best expected return of one episode."""
        return self.room.optimal_return(self.room.goal(task))

    def optimal_action(
        self, task: int, states: ArrayLike, steps_left: int | None = None
    ) -> NDArray[np.int64]:
        """Return a best action for each of `states` [..., 2], by default as if just begun."""
        left = self.room.horizon if steps_left is None else steps_left
        return self.room.optimal_actions(self.room.goal(task), states, left)

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Return a best action for each step of one episode [T], as if it had just begun there.

        Where too little time is left for the goal every action is as good; these still lead there.
        """
        return self.optimal_action(task, states)

    def describe(self, task: int) -> str:
        """Say in a few words what `task` asks for."""
        row, column = divmod(self.room.goal(task), self.room.width)
        return f"find the hidden goal in row {row}, column {column} and stay on it"
