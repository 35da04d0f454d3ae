"""Mazes as the authors draw them, and the first steps of the shortest paths through them.

Walls grow on the 8x8 lattice of even coordinates. From each of 36 random points a walk goes on for
112 draws: a draw names a neighbour two cells away, and if that is still free, the walk builds a
wall up to it and stands there. The lowest rows are cleared for the start.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from radt.envs.render import Cell

SIDE = 15
CELLS = SIDE * SIDE
START: Cell = (13, 7)  # at the end of a corridor
MOST_GOALS = 3
HORIZON = 400
DIRECTIONS = {"west": (0, -1), "north": (-1, 0), "east": (0, 1), "south": (1, 0), "none": (0, 0)}

POINTS = (SIDE + 1) // 2  # of the lattice, along each side
WALKS = 36  # a density of 0.75 times 7 x 7
DRAWS = 112  # of each walk: a complexity of 0.75 times 5 x (15 + 15)
NEIGHBOURS: dict[Cell, list[Cell]] = {  # of lattice points: west, east, north, south
    (row, column): [
        (row + down, column + right)
        for down, right in ((0, -2), (0, 2), (-2, 0), (2, 0))
        if 0 <= row + down < SIDE and 0 <= column + right < SIDE
    ]
    for row in range(0, SIDE, 2)
    for column in range(0, SIDE, 2)
}


def draw_walls(rng: np.random.RandomState) -> NDArray[np.uint8]:
    """Draw the map of a maze, 1 for a wall."""
    walls = np.zeros((SIDE, SIDE), np.uint8)
    walls[[0, -1]] = walls[:, [0, -1]] = 1
    for _ in range(WALKS):
        column, row = 2 * rng.randint(0, POINTS), 2 * rng.randint(0, POINTS)
        walls[row, column] = 1
        for _ in range(DRAWS):
            near = NEIGHBOURS[row, column]
            there = near[rng.randint(0, len(near))]
            if not walls[there]:
                walls[there] = walls[(row + there[0]) // 2, (column + there[1]) // 2] = 1
                row, column = there
    walls[-5:-1, 1:-1] = 0  # room for the start ...
    walls[-4:-1, START[1] - 1 : START[1] + 2 : 2] = 1  # ... and its corridor, three cells long
    return walls  # [SIDE, SIDE]


def draw_goals(rng: np.random.RandomState, walls: NDArray[np.uint8]) -> tuple[Cell, ...]:
    """Draw one to three goals among the free cells, in the order in which they pay."""
    count = rng.randint(1, MOST_GOALS + 1)
    free = np.flatnonzero(walls == 0)
    free = free[free != cell_number(START)]
    return tuple(divmod(int(cell), SIDE) for cell in rng.choice(free, size=count, replace=False))


@dataclass(frozen=True, eq=False)
class Maze:
    """One maze with the rules and tables that an environment plays by; cells count row by row."""

    seed: int
    walls: NDArray[np.uint8]  # [SIDE, SIDE] 1 for a wall
    goals: tuple[Cell, ...]  # in the order in which they pay

    width: ClassVar[int] = SIDE
    horizon: ClassVar[int] = HORIZON
    actions: ClassVar[tuple[str, ...]] = tuple(DIRECTIONS)
    is_noisy: ClassVar[bool] = False
    end: ClassVar[Literal["truncated"]] = "truncated"

    def begin(self, rng: np.random.Generator) -> tuple[int, NDArray[np.int8]]:
        """Return the start cell and that no step is forced."""
        return cell_number(START), np.full(HORIZON + 1, -1, np.int8)

    @cached_property
    def goal_cells(self) -> NDArray[np.int64]:
        return np.array([cell_number(goal) for goal in self.goals])  # [goals]

    @cached_property
    def moves(self) -> NDArray[np.int64]:
        """The next cell of each cell and action; a move into a wall stays where it is."""
        here = np.arange(CELLS)[:, None]
        offsets = [down * SIDE + right for down, right in DIRECTIONS.values()]
        there = np.clip(here + np.array(offsets), 0, CELLS - 1)  # [CELLS, actions]
        return np.where(self.walls.ravel()[there], here, there)

    @cached_property
    def observations(self) -> NDArray[np.float32]:
        """What is seen in each cell: row, column, free cells west, north, east and south, / 15."""
        free = self.walls == 0
        runs = (
            _free_before(free),
            _free_before(free.T).T,
            _free_before(free[:, ::-1])[:, ::-1],
            _free_before(free.T[:, ::-1])[:, ::-1].T,
        )
        numbers = np.stack([*np.indices(free.shape), *runs], axis=-1)  # [SIDE, SIDE, 6]
        table = (numbers.reshape(CELLS, -1) / SIDE).astype(np.float32)
        table.setflags(write=False)
        return table  # [CELLS, 6]


def _free_before(free: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count in each row the free cells from each cell to the nearest wall on its left."""
    runs = np.zeros(free.shape, np.int64)
    for column in range(1, SIDE):
        runs[:, column] = (runs[:, column - 1] + 1) * free[:, column - 1]
    return runs  # [SIDE, SIDE]


def cell_number(cell: Cell) -> int:
    """Number a cell row by row."""
    return cell[0] * SIDE + cell[1]


def cells_of(states: ArrayLike) -> NDArray[np.int64]:
    """Return the cell numbers of observations [..., 6]."""
    places = np.asarray(states, np.float64)[..., :2] * SIDE
    pairs = places.round().astype(np.int64)
    if np.shape(states)[-1:] != (6,) or (abs(places - pairs) > 1e-3).any():
        raise ValueError(f"expected the six numbers that are seen in a maze, got {states!r}")
    return np.asarray(pairs[..., 0] * SIDE + pairs[..., 1])  # [...]


@lru_cache(maxsize=2048)
def _build(seed: int) -> Maze:
    rng = np.random.RandomState(seed)
    walls = draw_walls(rng)
    walls.setflags(write=False)
    rng.seed(seed)  # the authors draw the goals with a fresh generator
    return Maze(seed, walls, draw_goals(rng, walls))


def build_maze(seed: SupportsIndex) -> Maze:
    """Build the maze of a seed, or take the one that was built before."""
    number = operator.index(seed)
    if not 0 <= number < 2**32:
        raise ValueError(f"a maze is drawn with a seed from 0 to 2^32 - 1, got {number}")
    return _build(number)


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
    """Tabulate the first step of a shortest path to each goal from every cell, [goals, CELLS]."""
    first_steps = [
        steps_to(maze.moves, goal)[maze.moves].argmin(axis=1) for goal in maze.goal_cells
    ]
    table = np.stack(first_steps).astype(np.int8)
    table.setflags(write=False)
    return table
