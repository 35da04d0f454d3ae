"""Toy families of tasks, one per kind of state, for the contract tests of methods.

Each has 4 training tasks, 2 unseen ones and a horizon of 12: `TOY_GRID` (discrete), `TOY_REACH`
(continuous, 1 to 3 action dimensions), `TOY_IMAGE` (3x64x64) and `TOY_ENCODED` (its images after a
frozen encoder). `histories` rolls a random policy in any suite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from radt.envs.dark_room import DarkRoomSuite, Room
from radt.envs.suite import TaskSuite
from radt.spaces import ActionSpace, StateSpace, TaskSpaces
from radt.trajectory import Trajectory

HORIZON = 12
TASKS = 6


class Reach(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Move a point of `dims` dimensions towards a hidden corner; observe it and its last move."""

    def __init__(self, task: int) -> None:
        self.dims = 1 + task % 3
        self.goal = np.where(np.arange(self.dims) < task // 3 + 1, 0.8, -0.8)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2 * self.dims,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (self.dims,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed = 0
        self.point = self.np_random.uniform(-0.1, 0.1, self.dims)
        return self._state(np.zeros(self.dims)), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.elapsed += 1
        self.point = np.clip(self.point + 0.3 * action, -1.0, 1.0)
        reward = float(1.0 - abs(self.point - self.goal).mean() / 2.0)
        return self._state(action), reward, False, self.elapsed == HORIZON, {}

    def _state(self, move: NDArray[Any]) -> NDArray[np.float32]:
        return np.concatenate([self.point, move]).astype(np.float32)  # [2 * dims]


class Padded(gym.Wrapper[Any, Any, Any, Any]):
    """Pad states with zeros to the widest task and drop the action dimensions a task lacks."""

    def __init__(self, env: gym.Env[Any, Any], spaces: TaskSpaces) -> None:
        super().__init__(env)
        assert env.action_space.shape is not None
        self.valid, self.width = env.action_space.shape[0], spaces.state.shape[0]
        self.observation_space = gym.spaces.Box(-1.0, 1.0, spaces.state.shape, np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, spaces.action.shape, np.float32)

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        state, info = self.env.reset(**kwargs)
        return self._pad(state), info

    def step(self, action: NDArray[np.float32]) -> Any:
        state, *rest = self.env.step(action[: self.valid])
        return self._pad(state), *rest

    def _pad(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.pad(state, (0, self.width - len(state)))


class Strip(gym.Env[NDArray[np.uint8], np.int64]):
    """Walk left, stay or right on a strip of 8 cells, seen as an image; one hidden cell pays."""

    def __init__(self, task: int) -> None:
        self.goal = (0, 2, 5, 7, 1, 6)[task]
        self.observation_space = gym.spaces.Box(0, 255, (3, 64, 64), np.uint8)
        self.action_space = gym.spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.elapsed, self.cell = 0, 4
        return self._image(), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.elapsed += 1
        self.cell = min(max(self.cell + int(action) - 1, 0), 7)
        reward = float(self.cell == self.goal)
        return self._image(), reward, False, self.elapsed == HORIZON, {}

    def _image(self) -> NDArray[np.uint8]:
        image = np.zeros((3, 64, 64), np.uint8)
        image[:, :, 8 * self.cell : 8 * self.cell + 8] = 255
        return image


class Encoded(gym.ObservationWrapper[Any, Any, Any]):
    """Replace an image by the 8 outputs of a frozen encoder."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (8,), np.float32)

    def observation(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        columns = image.reshape(3, 64, 8, 8).mean(axis=(0, 1, 3))  # [8]
        return np.asarray(columns / 255.0, np.float32)


@dataclass(frozen=True)
class ToySuite:
    """Six tasks that `build` knows how to make."""

    name: str
    spaces: TaskSpaces
    build: Callable[[int], gym.Env[Any, Any]]
    target_return: tuple[float, float]
    train_tasks: tuple[int, ...] = (0, 1, 2, 3)
    eval_tasks: tuple[int, ...] = (4, 5)
    trials: int = 3

    def make(self, task: int, render_mode: str | None = None) -> gym.Env[Any, Any]:
        if not 0 <= task < TASKS:
            raise ValueError(f"{self.name} has tasks 0 to {TASKS - 1}, got task {task}")
        return self.build(task)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> SyncVectorEnv[Any, Any]:
        makers = [partial(self.make, task) for task in tasks]
        return SyncVectorEnv(makers, autoreset_mode=autoreset_mode)

    def optimal_return(self, task: int) -> float | None:
        return None

    def describe(self, task: int) -> str:
        return f"task {task} of {self.name}"


REACH_SPACES = TaskSpaces(
    state=StateSpace("vector", (6,)),
    action=ActionSpace("continuous", 3),
    horizon=HORIZON,
    return_scale=float(HORIZON),
    action_dims=tuple((task, 1 + task % 3) for task in range(TASKS)),
)
STRIP_ACTIONS = ActionSpace("discrete", 3)
IMAGE_SPACES = TaskSpaces(StateSpace("image", (3, 64, 64)), STRIP_ACTIONS, HORIZON, float(HORIZON))
ENCODED_SPACES = TaskSpaces(StateSpace("encoded", (8,)), STRIP_ACTIONS, HORIZON, float(HORIZON))

TOY_GRID = DarkRoomSuite(
    "toy-grid", Room(4, 3), (9.0, 1.0), trials=3, train_tasks=(0, 1, 2, 3), eval_tasks=(4, 5)
)
TOY_REACH = ToySuite(
    "toy-reach", REACH_SPACES, lambda task: Padded(Reach(task), REACH_SPACES), (10.0, 1.0)
)
TOY_IMAGE = ToySuite("toy-image", IMAGE_SPACES, Strip, (9.0, 1.0))
TOY_ENCODED = ToySuite("toy-encoded", ENCODED_SPACES, lambda task: Encoded(Strip(task)), (9.0, 1.0))
TOYS: tuple[TaskSuite, ...] = (TOY_GRID, TOY_REACH, TOY_IMAGE, TOY_ENCODED)


class Plain:
    """A toy that can be sent to workers and written down: it holds no function."""

    def __init__(self, toy: TaskSuite) -> None:
        self.name = toy.name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(next(toy for toy in TOYS if toy.name == self.name), name)


def histories(
    suite: TaskSuite, episodes: int, seed: int = 0, tasks: Sequence[int] | None = None
) -> dict[int, list[Trajectory]]:
    """Roll a random policy and return the episodes of each task, by default the training ones."""
    chosen = suite.train_tasks if tasks is None else tasks
    return {
        task: [roll(suite, task, episode, seed) for episode in range(episodes)] for task in chosen
    }


def roll(suite: TaskSuite, task: int, episode: int, seed: int) -> Trajectory:
    """Play one episode with random actions."""
    rng = np.random.default_rng([seed, task, episode])
    env = suite.make(task)
    steps: list[tuple[Any, Any, float]] = []
    state, _ = env.reset(seed=int(rng.integers(2**31)))
    over = False
    while not over:
        action = suite.spaces.action.sample(1, rng)[0]
        next_state, reward, terminated, truncated, _ = env.step(action)
        steps.append((state, action, float(reward)))
        state, over = next_state, terminated or truncated
    states, actions, rewards = zip(*steps, strict=True)
    return Trajectory(
        states=np.stack(states).astype(suite.spaces.state.dtype),
        actions=np.stack(actions).astype(suite.spaces.action.dtype),
        rewards=np.array(rewards, np.float32),
        task=task,
        episode=episode,
    )
