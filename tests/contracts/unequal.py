"""Environments whose episodes end at different times, for tests of everything that resets."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON = 7
SPACES = TaskSpaces(
    StateSpace("discrete", (2,), (5, HORIZON + 1)),
    ActionSpace("discrete", 3),
    HORIZON,
    5.0,
    solved_above=0.0,
)
Step = tuple[list[int], int, float]


class Unequal(gym.Env[NDArray[np.uint8], np.int64]):
    """Walk on a ring of 5 cells; an episode takes 2 to 7 steps. Keeps a diary of all episodes."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.observation_space = gym.spaces.Box(0, HORIZON, (2,), np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self.diary: list[list[Step]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.length = 2 + (3 * self.task + 5 * len(self.diary)) % (HORIZON - 1)
        self.cell, self.elapsed = self.task % 5, 0
        self.diary.append([])
        return self._state(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        before = self._state().tolist()
        self.cell = (self.cell + int(action) - 1) % 5
        self.elapsed += 1
        reward = float(self.cell == 2) * (1 + len(self.diary))
        self.diary[-1].append((before, int(action), reward))
        over = self.elapsed == self.length
        return self._state(), reward, over and self.task % 2 == 0, over and self.task % 2 == 1, {}

    def _state(self) -> NDArray[np.uint8]:
        return np.array([self.cell, self.elapsed], np.uint8)


def unequal_envs(tasks: tuple[int, ...], mode: AutoresetMode) -> SyncVectorEnv[Any, Any]:
    """Build one slot per task."""
    return SyncVectorEnv([lambda task=task: Unequal(task) for task in tasks], autoreset_mode=mode)


def diaries(env: SyncVectorEnv[Any, Any]) -> list[list[list[Step]]]:
    """Return what each slot's environment wrote down, [slot][episode][step]."""
    return [inner.diary for inner in env.envs]  # type: ignore[attr-defined]
