"""A dot among marks, seen as an image: one of the marks pays, and nothing shows which.

States are images of 3 x 64 x 64: a white dot that moves in four directions or stays, and sixteen
marks around it. Each step on the mark that pays gives 1; which one it is differs between tasks.
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

HORIZON, SIDE, PIXELS = 24, 7, 9  # 7 x 7 places of 9 x 9 pixels
CENTRE = np.array([SIDE // 2, SIDE // 2])
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1], [0, 0]])  # up, right, down, left, stay
MARKS = np.array([at for at in np.ndindex(SIDE, SIDE) if np.abs(at - CENTRE).max() == 2])  # 16
UNSEEN = (1, 6, 9, 14)  # one on each side
SPACES = TaskSpaces(
    state=StateSpace("image", (3, 64, 64)),
    action=ActionSpace("discrete", len(MOVES)),
    horizon=HORIZON,
    return_scale=float(HORIZON),
    solved_above=0.0,  # any reward: the mark was reached
)


class DotAndMarks(gym.Env):
    """Move a dot to the mark whose number is the task."""

    observation_space = gym.spaces.Box(0, 255, SPACES.state.shape, np.uint8)
    action_space = gym.spaces.Discrete(len(MOVES))

    def __init__(self, task: int) -> None:
        if not 0 <= task < len(MARKS):
            raise ValueError(f"there are marks 0 to {len(MARKS) - 1}, got task {task}")
        self.target = MARKS[task]
        self.backdrop = np.zeros(SPACES.state.shape, np.uint8)
        for place in MARKS:
            self.backdrop[2][pixels(place)] = 160  # blue

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin in the centre."""
        super().reset(seed=seed)
        self.place, self.steps = CENTRE, 0
        return self._image(), {}

    def step(self, action: Any) -> Any:
        """Move; the mark that pays gives 1."""
        self.place = np.clip(self.place + MOVES[int(action)], 0, SIDE - 1)
        self.steps += 1
        paid = float((self.place == self.target).all())
        return self._image(), paid, False, self.steps == HORIZON, {}

    def optimal_action(self) -> int:
        """Return the move that leads nearest to the target."""
        return int(np.abs(self.place + MOVES - self.target).sum(axis=1).argmin())

    def _image(self) -> Any:
        image = self.backdrop.copy()
        image[:, *pixels(self.place)] = 255
        return image  # [3, 64, 64]


def pixels(place: Any) -> tuple[slice, slice]:
    """Return rows and columns of a place."""
    row, column = (int(at) * PIXELS + 1 for at in place)
    return slice(row, row + PIXELS - 1), slice(column, column + PIXELS - 1)


class DotsAndMarks(SyncVectorEnv):
    """Many at once; they know what should be done, which is what `noisy-expert` needs."""

    def optimal_actions(self) -> Any:
        """Return the expert's action of each slot, [N]."""
        return np.array([env.optimal_action() for env in self.envs])


@dataclass(frozen=True)
class ImageTargetSuite:
    """Sixteen marks, four of them unseen."""

    name: str = "image-target"
    train_tasks: tuple[int, ...] = tuple(t for t in range(len(MARKS)) if t not in UNSEEN)
    eval_tasks: tuple[int, ...] = UNSEEN
    trials: int = 20
    target_return: tuple[float, float] = (22.0, 0.0)  # mean and deviation
    spaces: TaskSpaces = SPACES
    source: str = "noisy-expert"
    recipes: tuple[Recipe, ...] = (
        Recipe({"evaluate": {"controls": ("erased", "best-trial", "oracle")}}),
        Recipe({"evaluate": {"controls": ("erased",)}}, budgets=("smoke",)),
        Recipe({"collect": {"tasks": 12, "episodes": 40}}),
        Recipe({"options": {"context_len": 12, "memory": {"context_len": 12}}}),
        Recipe({"options": {"memory": {"retrieve_every": 6}, "episode_gap": 15}}),
        Recipe(
            {"learn": {"updates": 200, "batch_size": 16, "evaluate_every": 0}}, budgets=("laptop",)
        ),
        Recipe({"embedder": {"updates": 60}}, budgets=("laptop",)),
        Recipe({"collect": {"tasks": 5, "episodes": 4}}, budgets=("smoke",)),
    )

    def make(self, task: int, render_mode: str | None = None) -> DotAndMarks:
        """Build one environment."""
        return DotAndMarks(task)

    def make_vec(self, tasks: Sequence[int]) -> DotsAndMarks:
        """Build a vector environment, one task per slot."""
        return DotsAndMarks([partial(DotAndMarks, task) for task in tasks])

    def optimal_return(self, task: int) -> float:
        """Return the steps that are left after the shortest path."""
        return float(HORIZON + 1 - np.abs(MARKS[task] - CENTRE).sum())

    def describe(self, task: int) -> str:
        """Say where the mark is."""
        row, column = MARKS[task]
        return f"the mark in row {row}, column {column}"


SUITES.register("image-target", ImageTargetSuite())
EXPERIMENTS.register(
    "image-target",
    Experiment(
        name="image-target",
        paper="Not in the paper: images in which nothing shows which mark pays.",
        studies=(Study("image-target", ("dt", "ad", "ra-dt"), seeds=1),),
    ),
)
