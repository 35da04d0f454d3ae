"""MazeRunner: find one to three hidden goals of a maze in order (the paper's third environment).

The agent sees where it is and how far the walls are, but no goal. Each goal pays 1 when it is
reached in its turn; with the last one the episode ends. `MazeRunner` plays one maze and
`MazeRunnerVec` many at once; `MazeRunnerSuite` names them by their seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.grid import GridEnv, GridVec
from radt.envs.maze import (
    CELLS,
    MOST_GOALS,
    SIDE,
    START,
    Maze,
    best_actions,
    build_maze,
    cell_number,
    cells_of,
)
from radt.envs.recipes import MAZES
from radt.envs.render import GridView
from radt.envs.suite import Recipe, splits_of
from radt.envs.vector import Mask, Slots
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

UNSEEN = tuple(range(300, 320))
CANDIDATES = (*range(300), *range(320, 1020))  # the paper's 300, and more of them
FRESH = tuple(range(2000, 2040))  # that no setting was chosen on, and nobody has looked at


class MazeRunnerVec(GridVec):
    """Many mazes at once, one slot each; cells are numbered through all slots."""

    room: Maze

    def __init__(
        self,
        tasks: Sequence[int] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_envs: int = 1,
    ) -> None:
        super().__init__(tasks, build_maze(0), autoreset_mode, num_envs)  # all have its rules
        mazes = [build_maze(task) for task in self.tasks]
        first = CELLS * self._slots  # [N] cell of each maze
        self._starts = first + cell_number(START)
        self._moves = np.concatenate([m.moves + at for m, at in zip(mazes, first, strict=True)])
        self._moves = self._moves.ravel()  # [N * CELLS * actions]
        self._observations = np.concatenate([maze.observations for maze in mazes])
        self._order = np.full((self.num_envs, MOST_GOALS + 1), -1)  # [N, goals], then no cell
        for slot, maze in enumerate(mazes):
            self._order[slot, : len(maze.goals)] = first[slot] + maze.goal_cells
        self.goals = self._order[:, 0]
        self._goal_count = np.array([len(maze.goals) for maze in mazes])  # [N]
        self.reached = np.zeros(self.num_envs, np.int64)  # [N] goals of this episode

    def _earn(self, slots: Slots) -> NDArray[np.float64]:
        paid = self._cells[slots] == self._order[slots, self.reached[slots]]
        self.reached[slots] += paid
        return np.asarray(paid, np.float64)

    def _hide(self, slots: Slots) -> None:
        self.reached[slots] = 0

    def _done(self, slots: Slots) -> Mask:
        return np.asarray(self.reached[slots] == self._goal_count[slots])

    @cached_property
    def _ways(self) -> NDArray[np.int8]:
        """The first step of a shortest path of each slot to each goal from each cell."""
        first_steps = np.zeros(
            (self.num_envs, MOST_GOALS + 1, CELLS), np.int8
        )  # after the last: any
        for slot, task in enumerate(self.tasks):
            first_steps[slot, : self._goal_count[slot]] = best_actions(build_maze(task))
        return first_steps

    def optimal_actions(self) -> NDArray[np.int64]:
        """Return the first step of a shortest path to the active goal for each slot, [N]."""
        here = self._cells - CELLS * self._slots
        return np.asarray(self._ways[self._slots, self.reached, here], np.int64)


class MazeRunner(GridEnv):
    """One maze; see (row, column, free cells west, north, east, south) / 15."""

    room: Maze
    vec: MazeRunnerVec

    def __init__(self, task: int = 0, render_mode: str | None = None) -> None:
        """Build the maze whose seed is `task`."""
        super().__init__(MazeRunnerVec([task], AutoresetMode.DISABLED), render_mode)
        self.room = build_maze(task)

    def view(self) -> GridView:
        return with_maze(super().view(), self.room, int(self.vec.reached[0]))


@dataclass(frozen=True)
class MazeRunnerSuite:
    """Mazes by their seeds: twenty unseen ones, and those that a data source may choose from."""

    name: str = "maze-runner-15x15"
    target_return: tuple[float, float] = (float(MOST_GOALS), 0.0)
    trials: int = 30
    train_tasks: tuple[int, ...] = CANDIDATES
    eval_tasks: tuple[int, ...] = UNSEEN
    source: str = "ppo-lstm"
    recipes: tuple[Recipe, ...] = field(default=MAZES, compare=False)
    splits: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {"fresh": FRESH}, compare=False
    )

    @cached_property
    def spaces(self) -> TaskSpaces:
        return TaskSpaces(
            state=StateSpace("vector", (6,)),
            action=ActionSpace("discrete", len(Maze.actions)),
            horizon=Maze.horizon,
            return_scale=float(MOST_GOALS),
            solved_above=MOST_GOALS - 1.0,  # nobody tells an agent that there are fewer
        )

    def make(self, task: int, render_mode: str | None = None) -> MazeRunner:
        self._check([task])
        return MazeRunner(task, render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> MazeRunnerVec:
        self._check(tasks)
        return MazeRunnerVec(tasks, autoreset_mode)

    def optimal_return(self, task: int) -> float:
        """Return the number of goals: every one can be reached in time."""
        return float(len(build_maze(task).goals))

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Return the first step of a shortest path to the active goal for each step of one episode.

        Which goal is active follows from the rewards [T] so far; states are [T, 6].
        """
        first_steps = best_actions(build_maze(task))  # [goals, CELLS]
        paid = np.asarray(rewards) > 0
        active = np.minimum(np.cumsum(paid) - paid, len(first_steps) - 1)  # [T]
        return first_steps[active, cells_of(states)].astype(np.int64)

    def view(self, task: int, states: NDArray[Any], rewards: NDArray[Any]) -> GridView:
        """Describe an episode so far for drawing: states [T + 1, 6] and the rewards between."""
        trail = tuple(divmod(int(cell), SIDE) for cell in cells_of(states))
        caption = f"step {len(rewards):3d}  return {np.sum(rewards):1.0f}"
        seen = GridView(SIDE, SIDE, trail[-1], START, START, trail, caption)
        return with_maze(seen, build_maze(task), int((np.asarray(rewards) > 0).sum()))

    def describe(self, task: int) -> str:
        goals = [f"row {row}, column {column}" for row, column in build_maze(task).goals]
        return f"find the hidden goal in {', then the one in '.join(goals)}"

    def _check(self, tasks: Sequence[int]) -> None:
        """Refuse seeds that are in no split."""
        known = {task for split in splits_of(self).values() for task in split}
        if strangers := [task for task in tasks if task not in known]:
            raise ValueError(
                f"{self.name} has no task {strangers[0]}; it lists its tasks as train_tasks, "
                "eval_tasks and splits, and MazeRunner plays any other seed"
            )


def with_maze(view: GridView, maze: Maze, reached: int) -> GridView:
    """Add the walls to a view and point out the goal that pays next, or the last one."""
    active = maze.goals[min(reached, len(maze.goals) - 1)]
    walls = frozenset((int(row), int(column)) for row, column in np.argwhere(maze.walls))
    others = tuple(goal for goal in maze.goals if goal != active)
    return replace(view, goal=active, walls=walls, other_goals=others)
