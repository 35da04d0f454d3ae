"""The mazes are the authors': walls, goals, what is seen, and the shortest ways through them."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from radt.envs.maze import (
    CELLS,
    DIRECTIONS,
    SIDE,
    START,
    best_actions,
    build_maze,
    cell_number,
    cells_of,
    steps_to,
)
from radt.envs.render import Cell
from tests.envs.tours import shortest_tour

FIXTURES = {  # seed: goals, free cells, first digits of the map's sha1
    0: ([(1, 11)], 117, "030ded28b2e5"),
    1: ([(12, 2), (6, 13)], 115, "9dec2478c5e0"),
    3: ([(11, 1), (1, 7), (1, 8)], 115, "e0249fe5eefd"),
    300: ([(7, 3), (1, 8)], 113, "97e4128dce43"),
    301: ([(1, 1), (11, 2)], 113, "3714b55e5f0f"),
}


@pytest.mark.parametrize("seed", FIXTURES)
def test_mazes_are_the_authors(seed: int) -> None:
    maze, (goals, free, digest) = build_maze(seed), FIXTURES[seed]
    assert list(maze.goals) == goals
    assert (maze.walls == 0).sum() == free
    assert maze.walls.dtype == np.uint8
    assert hashlib.sha1(maze.walls.tobytes()).hexdigest().startswith(digest)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_maze_can_be_played(seed: int) -> None:
    maze = build_maze(seed)
    walls, goals = maze.walls, maze.goals
    assert walls[[0, -1]].all()
    assert walls[:, [0, -1]].all()
    assert walls[11:14, 6:9].tolist() == [[1, 0, 1]] * 3  # the corridor of the start
    assert 1 <= len(goals) <= 3
    assert len({*goals, START}) == len(goals) + 1
    assert not any(walls[goal] for goal in goals)
    assert not walls.flags.writeable


def test_goals_of_the_unseen_mazes_are_spread_as_the_authors_found() -> None:
    counts = [len(build_maze(seed).goals) for seed in range(300, 320)]
    assert [counts.count(number) for number in (1, 2, 3)] == [6, 8, 6]


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_cannot_be_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match=str(seed)):
        build_maze(seed)


def look(walls: NDArray[np.uint8], cell: Cell, down: int, right: int) -> int:
    """Count free cells until a wall, step by step."""
    row, column = cell[0] + down, cell[1] + right
    return 0 if walls[row, column] else 1 + look(walls, (row, column), down, right)


def test_the_six_numbers() -> None:
    maze = build_maze(300)
    for cell in map(tuple, np.argwhere(maze.walls == 0).tolist()):
        runs = [look(maze.walls, cell, *way) for way in list(DIRECTIONS.values())[:4]]
        expected = np.array([*cell, *runs], np.float32) / np.float32(15)
        assert np.array_equal(maze.observations[cell_number(cell)], expected)
    assert maze.observations.dtype == np.float32
    assert np.array_equal(cells_of(maze.observations), np.arange(CELLS))


@pytest.mark.parametrize("states", [[0.0] * 5, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0]])
def test_what_is_seen_nowhere_has_no_cell(states: list[float]) -> None:
    with pytest.raises(ValueError, match="six numbers"):
        cells_of(states)


def test_walls_stop_a_move() -> None:
    maze = build_maze(300)
    west, north, east, south, none = maze.moves[cell_number(START)].tolist()
    assert west == east == south == none == cell_number(START)
    assert north == cell_number((12, 7))


def test_steps_count_the_nearest_target_and_know_what_is_out_of_reach() -> None:
    line = np.array([[0, 1], [0, 2], [1, 3], [2, 3], [4, 4]])  # left and right on 0-3; 4 is alone
    assert steps_to(line, [3]).tolist() == [3, 2, 1, 0, 5]
    assert steps_to(line, [0, 3]).tolist() == [0, 1, 1, 0, 5]


@pytest.mark.parametrize("seed", [0, 3, 300, 301])
def test_a_tour_is_shortest_and_meets_the_goals_in_order(seed: int) -> None:
    maze = build_maze(seed)
    tour = shortest_tour(maze)
    lengths = [
        steps_to(maze.moves, cell_number(goal))[cell_number(start)]
        for start, goal in zip((START, *maze.goals), maze.goals, strict=False)
    ]
    assert len(tour) - 1 == sum(lengths)
    assert tour[0] == START
    assert tour[-1] == maze.goals[-1]
    assert all(goal in tour for goal in maze.goals)
    for (row, column), (next_row, next_column) in pairwise(tour):
        assert abs(row - next_row) + abs(column - next_column) == 1
        assert not maze.walls[next_row, next_column]


def test_the_best_action_leads_one_step_nearer_from_everywhere() -> None:
    maze = build_maze(3)
    free = np.flatnonzero(maze.walls.ravel() == 0)
    for goal, best in zip(maze.goal_cells, best_actions(maze), strict=True):
        steps = steps_to(maze.moves, goal)
        away = free[free != goal]
        assert (steps[away] < CELLS).all()
        assert np.array_equal(steps[maze.moves[away, best[away]]], steps[away] - 1)


def test_the_shortest_tours_are_as_long_as_the_authors() -> None:
    lengths = [len(shortest_tour(build_maze(seed))) - 1 for seed in range(300, 320)]
    assert max(lengths) < 4 * SIDE
    assert 15 < np.mean(lengths) < 35
