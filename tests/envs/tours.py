"""Shortest tours of mazes, to walk and to count."""

from __future__ import annotations

from radt.envs.maze import CELLS, SIDE, START, Maze, best_actions, cell_number
from radt.envs.render import Cell


def shortest_tour(maze: Maze) -> list[Cell]:
    """Return the cells of a shortest path from the start over all goals in their order."""
    tour = [cell_number(START)]
    for goal, best in zip(maze.goal_cells, best_actions(maze), strict=True):
        while tour[-1] != goal:
            tour.append(int(maze.moves[tour[-1], best[tour[-1]]]))
            assert len(tour) <= CELLS * len(maze.goals), "a goal is walled in"
    return [divmod(cell, SIDE) for cell in tour]
