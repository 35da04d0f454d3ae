"""Recording what anybody does in a Gymnasium environment, as demonstrations for a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from radt.memory.demonstrations import write_npz
from radt.trajectory import Trajectory


class Recording(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps every finished episode of an environment; one that is broken off is left out."""

    def __init__(self, env: gym.Env[Any, Any], task: int = 0) -> None:
        super().__init__(env)
        self.task = task
        self.episodes: list[Trajectory] = []
        self._state: Any = None
        self._steps: list[tuple[Any, Any, float]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._state, info = self.env.reset(seed=seed, options=options)
        self._steps = []
        return self._state, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and write down where, what, and what it brought."""
        state, reward, terminated, truncated, info = self.env.step(action)
        self._steps.append((np.array(self._state), np.array(action), float(reward)))
        self._state = state
        if terminated or truncated:
            states, actions, rewards = zip(*self._steps, strict=True)
            number = len(self.episodes)
            kept = np.stack(states), np.stack(actions), np.array(rewards, np.float32)
            self.episodes.append(Trajectory(*kept, self.task, number))
            self._steps = []
        return state, float(reward), terminated, truncated, info

    def save(self, path: str | Path) -> None:
        """Write the finished episodes to an .npz file for `radt memory import`."""
        if not self.episodes:
            raise ValueError(f"no episode is finished yet, so there is nothing to save to {path}")
        write_npz(Path(path), self.episodes)
