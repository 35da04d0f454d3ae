"""An environment: a corridor with a hidden goal cell, which pays 1 for every step on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from radt.envs import SUITES
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

CELLS, START, HORIZON = 9, 4, 12
LEFT, STAY, RIGHT = 0, 1, 2
SPACES = TaskSpaces(
    state=StateSpace("discrete", (1,), bins=(CELLS,)),
    action=ActionSpace("discrete", 3),
    horizon=HORIZON,
    return_scale=float(HORIZON),
    solved_above=0.0,  # any reward: the cell was found
)


class Corridor(gym.Env):
    """Find the cell whose number is the task, and stay there."""

    observation_space = gym.spaces.Box(0, CELLS - 1, (1,), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, task: int) -> None:
        if not 0 <= task < CELLS:
            raise ValueError(f"a corridor has cells 0 to {CELLS - 1}, got task {task}")
        self.goal = task

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start in the middle."""
        super().reset(seed=seed)
        self.cell, self.steps = START, 0
        return np.array([self.cell], np.uint8), {}

    def step(self, action: Any) -> Any:
        """Move; the reward is 1 in the goal cell."""
        self.cell = int(np.clip(self.cell + int(action) - STAY, 0, CELLS - 1))
        self.steps += 1
        paid = float(self.cell == self.goal)
        return np.array([self.cell], np.uint8), paid, False, self.steps == HORIZON, {}


@dataclass(frozen=True)
class CorridorSuite:
    """The cells of the corridor, two of them unseen."""

    name: str = "corridor"
    train_tasks: tuple[int, ...] = (0, 1, 3, 5, 6, 8)
    eval_tasks: tuple[int, ...] = (2, 7)
    trials: int = 10
    target_return: tuple[float, float] = (9.0, 0.0)  # mean and deviation
    spaces: TaskSpaces = SPACES

    def make(self, task: int, render_mode: str | None = None) -> Corridor:
        """Build one environment."""
        return Corridor(task)

    def make_vec(self, tasks: Sequence[int]) -> SyncVectorEnv:
        """Build a vector environment, one task per slot."""
        return SyncVectorEnv([partial(Corridor, task) for task in tasks])

    def optimal_return(self, task: int) -> float:
        """Return the steps that are left after the shortest path to the goal."""
        return float(HORIZON + 1 - max(1, abs(task - START)))

    def describe(self, task: int) -> str:
        """Describe the task."""
        return f"stay in cell {task}"


CORRIDOR = SUITES.register("corridor", CorridorSuite())
