"""What the tasks of a room are: its rules, its goals, which are unseen, what is best on each.

A cell is an integer, `row * width + column`, so that moving is a look-up in one small table. These
are pure functions and tables; the environments that play by them are in `grid`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

ACTIONS = ("up", "right", "down", "left", "wait")
TRAIN_TASKS = tuple(range(80))
EVAL_TASKS = tuple(range(80, 100))
GOAL_SEED = 43  # the authors' seed of the goal split


def goal_cells(
    width: int, height: int, seed: int = GOAL_SEED, count: int = 100
) -> NDArray[np.int64]:
    """Draw the cells (x, y) of tasks 0, 1, ... as the authors do; small grids have fewer."""
    cells = np.array([(x, y) for x in range(width) for y in range(height)])
    order = np.random.RandomState(seed).permutation(len(cells))
    return cells[order[:count]]  # [tasks, 2]


@lru_cache(maxsize=16)
def next_cells(width: int, height: int) -> NDArray[np.int64]:
    """Tabulate the cell after each action; a move into a wall stays where it is."""
    row, col = np.divmod(np.arange(width * height), width)
    moved = np.stack(
        [
            np.maximum(row - 1, 0) * width + col,
            row * width + np.minimum(col + 1, width - 1),
            np.minimum(row + 1, height - 1) * width + col,
            row * width + np.maximum(col - 1, 0),
            row * width + col,
        ],
        axis=1,
    )
    moved.setflags(write=False)
    return moved  # [cells, actions]


def steps_to(width: int, height: int, cell: int) -> NDArray[np.int64]:
    """Return after how many steps from each cell a step can end in `cell`; 1 if there already."""
    row, col = np.divmod(np.arange(width * height), width)
    distance = abs(row - cell // width) + abs(col - cell % width)
    return np.asarray(np.maximum(distance, 1))  # [cells]


def straight_values(width: int, height: int, goal: int, steps_left: int) -> NDArray[np.float64]:
    """Return the best return from each cell when every move succeeds and `steps_left` remain."""
    # The first reward is paid by the step that reaches the goal, or by waiting on it.
    return np.asarray(np.maximum(steps_left + 1.0 - steps_to(width, height, goal), 0.0))


@lru_cache(maxsize=256)
def slippery_values(
    width: int, height: int, goal: int, horizon: int, slip: float
) -> NDArray[np.float64]:
    """Solve a slippery grid backwards from its end; row h holds the values with h steps left."""
    moved = next_cells(width, height)  # [cells, actions]
    reward = arrival_reward(width * height, goal)
    values = np.zeros((horizon + 1, width * height))
    for left in range(1, horizon + 1):
        outcome = (reward + values[left - 1])[moved]  # [cells, actions]
        values[left] = (1.0 - slip) * outcome.max(axis=1) + slip * outcome.mean(axis=1)
    values.setflags(write=False)
    return values  # [horizon + 1, cells]


def arrival_reward(cells: int, goal: int) -> NDArray[np.float64]:
    """Return the reward of the step that ends in each cell."""
    return np.equal(np.arange(cells), goal).astype(np.float64)


@dataclass(frozen=True)
class Room:
    """The rules of one kind of room; its horizon is its number of cells."""

    width: int = 10
    height: int = 10
    random_start: bool = False  # start each episode in a uniformly random cell, not in (0, 0)
    slip: float = 0.0  # with this probability a uniformly random action is executed instead
    end: Literal["terminated", "truncated"] = "terminated"  # how the end of the horizon is reported

    def __post_init__(self) -> None:
        if not (1 <= self.width <= 256 and 1 <= self.height <= 256):
            raise ValueError(f"a room is 1 to 256 cells wide and high, not {self.label}")
        if not 0.0 <= self.slip <= 1.0:
            raise ValueError(f"slip is a probability from 0 to 1, not {self.slip}")
        if self.end not in ("terminated", "truncated"):
            raise ValueError(f"end is 'terminated' or 'truncated', not {self.end!r}")

    @property
    def label(self) -> str:
        """The size as `width`x`height`."""
        return f"{self.width}x{self.height}"

    @property
    def actions(self) -> tuple[str, ...]:
        """What the actions are called."""
        return ACTIONS

    @property
    def horizon(self) -> int:
        """The number of steps of every episode."""
        return self.width * self.height

    @property
    def bins(self) -> tuple[int, ...]:
        """How many values each coordinate of an observation takes."""
        return self.height, self.width

    @property
    def solved_above(self) -> float:
        """The return that only a trial which found its goal can exceed."""
        return 0.0

    @property
    def is_noisy(self) -> bool:
        """Whether episodes depend on chance."""
        return self.random_start or self.slip > 0.0

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        """The goal cell of each task."""
        x, y = goal_cells(self.width, self.height).T
        return np.asarray(y * self.width + x)  # [tasks]

    @cached_property
    def observations(self) -> NDArray[np.uint8]:
        """The observation (row, column) of each cell."""
        pairs = np.divmod(np.arange(self.horizon), self.width)
        table = np.stack(pairs, axis=1).astype(np.uint8)
        table.setflags(write=False)
        return table  # [cells, 2]

    @property
    def moves(self) -> NDArray[np.int64]:
        """The next cell of each cell and action."""
        return next_cells(self.width, self.height)  # [cells, actions]

    def goal(self, task: SupportsIndex) -> int:
        """Return the goal cell of a task."""
        index = operator.index(task)
        if not 0 <= index < len(self.goals):
            raise ValueError(
                f"a {self.label} room has tasks 0 to {len(self.goals) - 1}, got task {index}; "
                "the suite lists them as train_tasks and eval_tasks"
            )
        return int(self.goals[index])

    def goals_of(self, tasks: Sequence[SupportsIndex]) -> NDArray[np.int64]:
        """Return the goal cells of tasks."""
        return np.array([self.goal(task) for task in tasks])  # [tasks]

    def cells(self, states: ArrayLike) -> NDArray[np.int64]:
        """Return the cells of observations [..., 2]."""
        pairs = np.asarray(states).astype(np.int64)
        if (
            pairs.shape[-1:] != (2,)
            or (pairs < 0).any()
            or (pairs >= (self.height, self.width)).any()
        ):
            raise ValueError(f"expected (row, column) inside {self.label}, got {states!r}")
        return np.asarray(pairs[..., 0] * self.width + pairs[..., 1])  # [...]

    def begin(self, rng: np.random.Generator) -> tuple[int, NDArray[np.int8]]:
        """Draw an episode's start cell and, for each step, the action forced by a slip or -1."""
        start = int(rng.integers(self.horizon)) if self.random_start else 0
        forced = np.full(self.horizon + 1, -1, np.int8)  # one more, for the step after the end
        if self.slip > 0.0:
            slips = rng.random(self.horizon) < self.slip
            draws = rng.integers(len(ACTIONS), size=self.horizon)
            forced[:-1] = np.where(slips, draws, -1)
        return start, forced

    def best_values(self, goal: int, steps_left: int) -> NDArray[np.float64]:
        """Return the best expected return from each cell with `steps_left` actions to go."""
        if self.slip > 0.0:
            size = (self.width, self.height)
            values = slippery_values(*size, goal, self.horizon, self.slip)
            return np.asarray(values[steps_left])
        return straight_values(self.width, self.height, goal, steps_left)  # [cells]

    def optimal_return(self, goal: int) -> float:
        """Return the best expected return of one episode."""
        values = self.best_values(goal, self.horizon)
        return float(values.mean() if self.random_start else values[0])

    def optimal_actions(self, goal: int, states: ArrayLike, steps_left: int) -> NDArray[np.int64]:
        """Return a best action for each observation with `steps_left` actions to go."""
        later = self.best_values(goal, max(steps_left - 1, 0))
        value = arrival_reward(self.horizon, goal) + later  # [cells]
        return np.asarray(value[self.moves[self.cells(states)]].argmax(axis=-1))  # [...]
