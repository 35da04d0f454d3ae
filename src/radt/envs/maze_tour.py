"""Shortest ways through a maze: how far a goal is, where to turn, the best tour of all goals."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radt.envs.maze import CELLS, SIDE, START, Maze, cell_number
from radt.envs.render import Cell


def steps_to(moves: NDArray[np.int64], targets: ArrayLike) -> NDArray[np.int64]:
    """Return how many steps the nearest of some cells is away; `len(moves)` if out of reach."""
    steps = np.full(len(moves), len(moves))  # [cells]
    steps[np.asarray(targets)] = 0
    while True:
        nearer = np.minimum(steps, 1 + steps[moves].min(axis=1))
        if np.array_equal(nearer, steps):
            return steps
        steps = nearer


@lru_cache(maxsize=2048)
def best_actions(maze: Maze) -> NDArray[np.int8]:
    """Tabulate the first step of a shortest way to each goal from every cell, [goals, CELLS]."""
    ways = [steps_to(maze.moves, goal)[maze.moves].argmin(axis=1) for goal in maze.goal_cells]
    table = np.stack(ways).astype(np.int8)
    table.setflags(write=False)
    return table


def shortest_tour(maze: Maze) -> list[Cell]:
    """Return the cells of a shortest way from the start over all goals in their order."""
    tour = [cell_number(START)]
    for goal, best in zip(maze.goal_cells, best_actions(maze), strict=True):
        while tour[-1] != goal:
            tour.append(int(maze.moves[tour[-1], best[tour[-1]]]))
            if len(tour) > CELLS * len(maze.goals):
                raise ValueError(f"goal {divmod(int(goal), SIDE)} of maze {maze.seed} is walled in")
    return [divmod(cell, SIDE) for cell in tour]
