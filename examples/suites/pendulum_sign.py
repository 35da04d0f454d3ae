"""Pendulum whose motor may be wired the wrong way: continuous actions, negative rewards.

Gymnasium's Pendulum-v1 with a hidden gain of the torque, negative in half of the tasks. An agent
that pushes the wrong way never gets the pendulum up. Beside angle and speed it feels the last
torque, so that one step shows what its actions do; without it the gain is a small part of the
change of speed. Returns lie between about -1600 (it hangs) and -150; the best one is not known,
since it depends on where the pendulum starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from radt.envs import SUITES
from radt.envs.suite import Recipe
from radt.experiments import EXPERIMENTS, Experiment, Study
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON, TORQUE = 200, 2.0
FASTEST = 8.0  # radians a second, Pendulum-v1's own limit
GAINS = tuple(sign * size for size in (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4) for sign in (1, -1))
UNSEEN = (4, 5, 10, 11)  # gains of 0.9 and 1.2, both signs
SPACES = TaskSpaces(
    state=StateSpace("vector", (4,)),
    action=ActionSpace("continuous", 1),
    horizon=HORIZON,
    return_scale=1000.0,
    reward_scale=10.0,
    lowest_return=-1600.0,  # of a pendulum that hangs
)

SAC = {
    "algorithm": "SAC",
    "settings": {
        "learning_rate": 1e-3,
        "batch_size": 128,
        "policy_kwargs": {"net_arch": [64, 64]},
    },
    "transitions": 6000,
    "parts": 6,
}

# Not retrieved in training: those are twins of their windows.
SAMPLED = {"contexts": "own-task", "min_length": 10, "dedup": None, "cut_off": None}
BINS = {"action_head": "bins"}  # a mean over both signs would be no torque at all


class SignedPendulum(gym.Wrapper):
    """Pendulum-v1 with actions in [-1, 1], times the task's gain, and states in [-1, 1]."""

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)

    def __init__(self, task: int) -> None:
        if not 0 <= task < len(GAINS):
            raise ValueError(f"there are gains 0 to {len(GAINS) - 1}, got task {task}")
        super().__init__(gym.make("Pendulum-v1", max_episode_steps=HORIZON))
        self.gain = GAINS[task]

    def reset(self, **how: Any) -> Any:
        """Begin without a torque."""
        state, info = self.env.reset(**how)
        return self.felt(state, 0.0), info

    def step(self, action: Any) -> Any:
        """Turn the motor; Pendulum-v1 itself limits the torque."""
        torque = np.clip(np.asarray(action) * self.gain * TORQUE, -TORQUE, TORQUE)
        state, reward, *ended = self.env.step(torque)
        return self.felt(state, torque[0]), float(reward), *ended

    def felt(self, state: Any, torque: float) -> Any:
        """Return cosine and sine of the angle, speed and torque, [4]."""
        return np.array([*state[:2], state[2] / FASTEST, torque / TORQUE], np.float32)

    def optimal_action(self) -> Any:
        """Swing up by its energy, then hold, [1]."""
        angle, speed = self.unwrapped.state
        angle = (angle + np.pi) % (2 * np.pi) - np.pi  # 0 is up
        missing = 10.0 * (1 - np.cos(angle)) - speed**2 / 3  # energy to the top
        wanted = np.sign(speed or 1.0) * missing if abs(angle) > 0.5 else -16 * angle - 4 * speed
        return np.clip([wanted / (self.gain * TORQUE)], -1.0, 1.0).astype(np.float32)


class SignedPendulums(SyncVectorEnv):
    """Many at once; they know what should be done, which is what `noisy-expert` needs."""

    def optimal_actions(self) -> Any:
        """Return the expert's action of each slot, [N, 1]."""
        return np.stack([env.optimal_action() for env in self.envs])


@dataclass(frozen=True)
class PendulumSuite:
    """Sixteen gains, four of them unseen."""

    name: str = "pendulum-sign"
    train_tasks: tuple[int, ...] = tuple(t for t in range(len(GAINS)) if t not in UNSEEN)
    eval_tasks: tuple[int, ...] = UNSEEN
    trials: int = 12
    target_return: tuple[float, float] = (-150.0, 0.0)  # mean and deviation
    spaces: TaskSpaces = SPACES
    source: str = "sb3"
    recipes: tuple[Recipe, ...] = (
        Recipe({"collect": {"tasks": 8, "episodes": 30}}),
        Recipe({"collect": SAC}, source="sb3"),
        Recipe({"options": {"context_len": 20, "memory": {"context_len": 20}, "window_step": 10}}),
        Recipe({"options": {"memory": {"retrieve_every": 10}, "episode_gap": 10}}),
        Recipe({"learn": {"updates": 2000, "evaluate_every": 0}}, budgets=("laptop",)),
        Recipe({"options": {"top_fraction": 0.4}}, budgets=("laptop",)),
        Recipe({"options": {"training": SAMPLED, "model": BINS}}, budgets=("laptop",)),
        Recipe({"learn": {"updates": 1000, "batch_size": 8}}, ("laptop",), methods=("ad",)),
        Recipe({"embedder": {"updates": 150}}, budgets=("laptop",)),
        Recipe({"collect": {"tasks": 5, "episodes": 4}}, budgets=("smoke",)),
        Recipe({"collect": {"settings": {"learning_starts": 512}}}, ("smoke",), source="sb3"),
    )

    def make(self, task: int, render_mode: str | None = None) -> SignedPendulum:
        """Build one environment."""
        return SignedPendulum(task)

    def make_vec(self, tasks: Sequence[int]) -> SignedPendulums:
        """Build a vector environment, one task per slot."""
        return SignedPendulums([partial(SignedPendulum, task) for task in tasks])

    def optimal_return(self, task: int) -> None:
        """Return None: it is not known."""

    def describe(self, task: int) -> str:
        """Name the gain."""
        return f"torque times {GAINS[task]:+.1f}"


SUITES.register("pendulum-sign", PendulumSuite())
EXPERIMENTS.register(
    "pendulum-sign",
    Experiment(
        name="pendulum-sign",
        paper="Not in the paper: continuous actions whose sign and gain are hidden.",
        studies=(Study("pendulum-sign", ("dt", "ad", "ra-dt"), 1, rules=(), controls=("erased",)),),
    ),
)
