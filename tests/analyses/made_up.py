"""Trials made by hand on the toy grid (4 wide, 3 high, 12 steps), for the tests of analyses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from radt.agent import ActionRule
from radt.analyses.shared import RolledOut
from radt.envs.suite import SUITES
from radt.runs.roll_out import Trials
from radt.trajectory import Trajectory
from tests.toys import TOY_GRID

Cells = Sequence[tuple[int, int]]
TASKS = TOY_GRID.eval_tasks
GOALS = (1.0, 2.0, 3.0)  # of the mazes


def toy_trials(count: int) -> Trials:
    """Say what is rolled out on the toy grid."""
    return Trials(TOY_GRID, TASKS, count, ActionRule(), seed=0)


def maze_trials(count: int) -> Trials:
    """Say what is rolled out in mazes of one, two and three goals."""
    mazes = SUITES["maze-runner-15x15"]
    goals = {mazes.optimal_return(task): task for task in mazes.eval_tasks}
    return Trials(mazes, tuple(goals[wanted] for wanted in GOALS), count, ActionRule(), seed=0)


def episode(cells: Cells, paid: Sequence[int] = (), task: int = TASKS[0]) -> Trajectory:
    """Pass some cells; the steps in `paid` earn 1."""
    rewards = np.zeros(len(cells), np.float32)
    rewards[list(paid)] = 1.0
    states = np.array(cells, dtype=np.int64)
    return Trajectory(states, np.zeros(len(cells), np.int64), rewards, task, 0)


def rolled_out(*tasks: Sequence[Trajectory], method: str = "ra-dt") -> RolledOut:
    """Put trials together, [task][trial]."""
    return RolledOut(method, toy_trials(len(tasks[0])), tuple(map(tuple, tasks)))
