"""A reference that learns nothing but knows that it lives on a grid.

`sweep` visits every cell in turn and then walks straight to the one that paid. Where that one pays
only once, as a key does, it is an errand: `sweep` goes on from there and visits every cell again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from radt.methods.heuristic import Cell, HeuristicActor, Move, register
from radt.spaces import StateKind, TaskSpaces


@dataclass
class Search:
    """What `sweep` knows of a task, and how far it is in the running trial."""

    unvisited: list[Cell]  # since the last errand
    errands: list[Cell] = field(default_factory=list)  # places that pay once, in their order
    goal: Cell | None = None  # the place that paid last
    done: int = 0  # errands of the running trial


class SweepActor(HeuristicActor):
    """Visits every cell of a grid in boustrophedon order, then walks straight to the goal."""

    reads: tuple[StateKind, ...] = ("discrete",)  # and it has to know how many there are

    @classmethod
    def problem_with(cls, spaces: TaskSpaces) -> str | None:
        """Ask for a grid, also where states are discrete."""
        if problem := super().problem_with(spaces):
            return problem
        on_grid = len(spaces.state.bins) == 2 and spaces.action.size == 5
        return None if on_grid else "needs rows, columns and the five moves of a grid"

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Have every cell still to visit."""
        if not hasattr(self, "searches"):
            self.searches: dict[int, Search] = {}
        for slot in slots.tolist():
            self.searches[slot] = Search(self._every_cell())

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Have every errand to do again."""
        for slot in slots.tolist():
            self.searches[slot].done = 0

    def _every_cell(self) -> list[Cell]:
        rows, columns = self.spaces.state.bins
        return [
            (row, column if row % 2 == 0 else columns - 1 - column)
            for row in range(rows)
            for column in range(columns)
        ]

    def arrived(self, slot: int, moved: Move, cell: Cell, paid: bool) -> None:
        """Note what pays, and what does not pay any more."""
        search = self.searches[slot]
        if search.done < len(search.errands):
            if cell == search.errands[search.done]:
                if paid:
                    search.done += 1
                else:  # it pays no more, in this trial and later ones
                    search.errands.pop(search.done)
        elif paid:
            search.goal = cell
        elif cell == search.goal:  # it paid once: an errand, after which the search begins anew
            search.errands.append(cell)
            search.done, search.goal = len(search.errands), None
            search.unvisited = self._every_cell()

    def choose(self, slot: int, step: int, cell: Cell) -> int:
        """Walk to the next errand, else the goal, else the next cell that was not visited yet."""
        search = self.searches[slot]
        if search.done < len(search.errands):
            return _towards(cell, search.errands[search.done])
        if step and cell in search.unvisited:
            search.unvisited.remove(cell)
        return _towards(cell, search.goal or next(iter(search.unvisited), cell))


def _towards(cell: Cell, target: Cell) -> int:
    """Return the action that leads nearer, row first."""
    (row, column), (to_row, to_column) = cell, target
    if row != to_row:
        return 2 if to_row > row else 0  # down, up
    if column != to_column:
        return 1 if to_column > column else 3  # right, left
    return 4  # wait


register("sweep", SweepActor)
