"""A family of tasks: CartPole whose pushes differ in a way that cannot be observed.

To make it yours, change what is numbered, and after each change run `radt envs check`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv

from radt.envs import SUITES
from radt.envs.suite import Recipe
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

NAME = "template"  # what `radt run` calls it
TASKS = 24
HORIZON = 100  # 1. the most steps of an episode; all tasks share it and the spaces
SPACES = TaskSpaces(
    state=StateSpace("vector", (4,)),  # or "discrete" with bins, "image" as (channels, h, w)
    action=ActionSpace("discrete", 2),  # or "continuous", whose actions lie in [-1, 1]
    horizon=HORIZON,
    return_scale=float(HORIZON),  # about the best return
)  # with solved_above=X, trials that earn more than X are called solved


class Pole(gym.Wrapper):
    """2. One task: any Gymnasium environment with what differs between tasks hidden inside."""

    def __init__(self, task: int) -> None:
        if not 0 <= task < TASKS:
            raise ValueError(f"there are tasks 0 to {TASKS - 1}, not {task}")
        super().__init__(gym.make("CartPole-v1", max_episode_steps=HORIZON))
        self.swapped = task % 2  # whether 0 pushes to the right
        self.unwrapped.force_mag = 5.0 + task // 2  # newtons

    def step(self, action: Any) -> Any:
        """Push, and earn 1 while the pole stands."""
        return self.env.step(int(action) ^ self.swapped)


@dataclass(frozen=True)
class PoleSuite:
    """The tasks, named by integers: some to learn from, others to be tested on."""

    name: str = NAME
    train_tasks: tuple[int, ...] = tuple(t for t in range(TASKS) if t % 6 < 4)  # 3.
    eval_tasks: tuple[int, ...] = tuple(t for t in range(TASKS) if t % 6 >= 4)
    trials: int = 10  # that an agent has on each unseen task
    target_return: tuple[float, float] = (float(HORIZON), 0.0)  # 3. aimed at: mean, deviation
    spaces: TaskSpaces = SPACES
    source: str = "expert"  # 4. of the data: or "sb3", an algorithm that learns each task alone
    recipes: tuple[Recipe, ...] = (  # 5. what runs do otherwise here, see `radt config explain`
        Recipe({"options": {"context_len": 20, "memory": {"context_len": 20}}}),
        Recipe({"collect": {"tasks": 5, "episodes": 6}}, budgets=("smoke",)),
    )

    def make(self, task: int, render_mode: str | None = None) -> Pole:
        """Build one environment."""
        return Pole(task)

    def make_vec(self, tasks: Sequence[int]) -> SyncVectorEnv:
        """Build a vector environment, one task per slot."""
        return SyncVectorEnv([partial(Pole, task) for task in tasks])

    def expert(self, task: int) -> Callable[[Any], int]:
        """4. Return a policy that solves a task: only the source "expert" asks for it."""
        swapped = task % 2
        return lambda state: int(state @ (0.05, 0.1, 1.0, 0.5) > 0) ^ swapped

    def optimal_return(self, task: int) -> float | None:
        """3. Return the best expected return of an episode; None: nobody knows."""
        return float(HORIZON)

    def describe(self, task: int) -> str:
        """Say in a few words what a task is."""
        return f"{5 + task // 2} N{', swapped' if task % 2 else ''}"


SUITES.register(NAME, PoleSuite())
