"""Tasks that somebody picks by hand: a room whose goal, and key, lie where they were put.

A picked suite has one task, 0, which nobody was trained on as such; its goal may well be one of
the hundred that the authors drew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.envs.dark_room import DarkRoomSuite
from radt.envs.key_door import KeyDoorSuite
from radt.envs.key_room import KeyRoom
from radt.envs.render import Cell
from radt.envs.suite import DrawnSuite, TaskSuite
from radt.envs.tasks import Room

PICKED = 0  # the one task of a picked suite


@dataclass(frozen=True)
class PickedRoom(Room):
    """A room whose only goal was put somewhere."""

    goal_cell: int = 0

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        """The goal cell of the one task."""
        return np.array([self.goal_cell])


@dataclass(frozen=True)
class PickedKeyRoom(KeyRoom):
    """A room whose only door and key were put somewhere."""

    goal_cell: int = 0
    key_cell: int = 0

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        """The door's cell of the one task."""
        return np.array([self.goal_cell])

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The key's cell of the one task."""
        return np.array([self.key_cell])


def pickable(suite: TaskSuite) -> tuple[str, ...]:
    """Name what can be put somewhere in the rooms of a suite; nothing where tasks are fixed."""
    if isinstance(suite, KeyDoorSuite):
        return "goal", "key"
    return ("goal",) if isinstance(suite, DarkRoomSuite) else ()


def pick(suite: TaskSuite, cells: Mapping[str, Cell]) -> DrawnSuite:
    """Return a suite of one task whose goal, and key, lie in the given cells."""
    if not isinstance(suite, DarkRoomSuite | KeyDoorSuite) or set(cells) != set(pickable(suite)):
        wanted = " and ".join(pickable(suite)) or "nothing"
        raise ValueError(
            f"in {suite.name} one can pick {wanted}, not {' and '.join(cells) or 'nothing'}"
        )
    only: dict[str, Any] = {"train_tasks": (), "eval_tasks": (PICKED,)}
    rules = {field.name: getattr(suite.room, field.name) for field in fields(suite.room)}
    rules |= {f"{name}_cell": _number(suite.room, cell) for name, cell in cells.items()}
    if isinstance(suite, KeyDoorSuite):
        return replace(suite, room=PickedKeyRoom(**rules), **only)
    return replace(suite, room=PickedRoom(**rules), **only)


def goal_cells_of(suite: TaskSuite, tasks: Sequence[int]) -> list[Cell]:
    """Return the goals of tasks as cells, where a suite has rooms one can pick in."""
    if not isinstance(suite, DarkRoomSuite | KeyDoorSuite):
        return []
    return [divmod(suite.room.goal(task), suite.room.width) for task in tasks]


def _number(room: Room, cell: Cell) -> int:
    row, column = cell
    if not (0 <= row < room.height and 0 <= column < room.width):
        raise ValueError(f"row {row}, column {column} is not inside a room of {room.label} cells")
    return row * room.width + column
