"""CartPole whose buttons are swapped: dense reward, discrete actions.

Gymnasium's CartPole-v1 with four actions, two strong pushes and two weak ones. Which action is
which push is hidden and differs between tasks: the 24 permutations. Each step that the pole stands
pays 1, so that nothing but trying tells a good permutation from a bad one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from radt.envs import SUITES
from radt.envs.suite import Recipe
from radt.experiments import EXPERIMENTS, Experiment, Study
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON = 200
FORCES = np.array([-10.0, 10.0, -2.0, 2.0])  # newtons; the strong ones are CartPole's own
TASKS = tuple(permutations(range(len(FORCES))))
UNSEEN = (1, 8, 15, 22)  # one of each first action
SPACES = TaskSpaces(
    state=StateSpace("vector", (4,)),
    action=ActionSpace("discrete", len(FORCES)),
    horizon=HORIZON,
    return_scale=float(HORIZON),
)

PPO = {
    "settings": {
        "n_steps": 512,
        "batch_size": 64,
        "n_epochs": 5,
        "learning_rate": 1e-3,
        "gae_lambda": 0.8,
        "gamma": 0.98,
    },
    "transitions": 10240,
    "parts": 4,
}

# Not retrieved in training: those are twins of their windows.
SAMPLED = {"contexts": "own-task", "min_length": 10, "dedup": None, "cut_off": None}


class PermutedCartPole(gym.Wrapper):
    """CartPole-v1, its pushes in the order of a permutation."""

    action_space = gym.spaces.Discrete(len(FORCES))

    def __init__(self, task: int) -> None:
        if not 0 <= task < len(TASKS):
            raise ValueError(f"there are permutations 0 to {len(TASKS) - 1}, got task {task}")
        super().__init__(gym.make("CartPole-v1", max_episode_steps=HORIZON))
        self.forces = FORCES[list(TASKS[task])]  # [actions]

    def step(self, action: Any) -> Any:
        """Push as this task's action does."""
        force = self.forces[int(action)]
        self.unwrapped.force_mag = abs(force)
        return self.env.step(int(force > 0))

    def optimal_action(self) -> int:
        """Push strongly to where the pole falls."""
        position, speed, angle, turn = self.unwrapped.state
        leans_right = angle + 0.5 * turn + 0.05 * position + 0.1 * speed > 0
        return int(np.argmax(self.forces) if leans_right else np.argmin(self.forces))


class PermutedCartPoles(SyncVectorEnv):
    """Many at once; they know what should be done, which is what `noisy-expert` needs."""

    def optimal_actions(self) -> Any:
        """Return the expert's action of each slot, [N]."""
        return np.array([env.optimal_action() for env in self.envs])


@dataclass(frozen=True)
class CartPoleSuite:
    """The permutations of four pushes, four of them unseen."""

    name: str = "cartpole-permuted"
    train_tasks: tuple[int, ...] = tuple(t for t in range(len(TASKS)) if t not in UNSEEN)
    eval_tasks: tuple[int, ...] = UNSEEN
    trials: int = 12
    target_return: tuple[float, float] = (float(HORIZON), 0.0)  # mean and deviation
    spaces: TaskSpaces = SPACES
    source: str = "sb3"
    recipes: tuple[Recipe, ...] = (
        Recipe({"collect": {"tasks": 20, "episodes": 60}}),
        Recipe({"collect": PPO}, source="sb3"),
        Recipe({"options": {"context_len": 20, "memory": {"context_len": 20}, "window_step": 10}}),
        Recipe({"options": {"memory": {"retrieve_every": 10}, "episode_gap": 20}}),
        Recipe({"learn": {"updates": 1000, "evaluate_every": 0}}, budgets=("laptop",)),
        Recipe({"options": {"training": SAMPLED}}, budgets=("laptop",)),
        Recipe({"learn": {"batch_size": 8}}, budgets=("laptop",), methods=("ad",)),
        Recipe({"embedder": {"updates": 150}}, budgets=("laptop",)),
        Recipe({"collect": {"tasks": 5, "episodes": 6}}, budgets=("smoke",)),
    )

    def make(self, task: int, render_mode: str | None = None) -> PermutedCartPole:
        """Build one environment."""
        return PermutedCartPole(task)

    def make_vec(self, tasks: Sequence[int]) -> PermutedCartPoles:
        """Build a vector environment, one task per slot."""
        return PermutedCartPoles([partial(PermutedCartPole, task) for task in tasks])

    def optimal_return(self, task: int) -> float:
        """Return the steps of an episode: the pole can be kept standing."""
        return float(HORIZON)

    def describe(self, task: int) -> str:
        """List the force of each action."""
        return "pushes of " + ", ".join(f"{force:+.0f}" for force in FORCES[list(TASKS[task])])


SUITES.register("cartpole-permuted", CartPoleSuite())
EXPERIMENTS.register(
    "cartpole-permuted",
    Experiment(
        name="cartpole-permuted",
        paper="Not in the paper: which action pushes which way is hidden, and every step pays.",
        studies=(
            Study("cartpole-permuted", ("dt", "ad", "ra-dt"), 1, rules=(), controls=("erased",)),
        ),
    ),
)
