"""Suites whose goal is hidden, and their twins: what point robots and simulated arms share.

The paper's robots can read their task off the observation; here nobody can. Being near the goal
pays 1 a step, nothing else tells where it is. Starts vary and motors are noisy, so that repeating
the actions of a success does not lead there again. Goals of one region are never trained on.

Three twins take one difficulty away each, or both: the goal is part of the state (`-visible`), or
every episode of a task starts alike (`-fixed-start`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.suite import Recipe
from radt.envs.vector import ControlVec, Floats, TaskEnv
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON = 100
NOISE = 0.1  # deviation of what motors add to each action
TRAINED, BETWEEN, APART = 200, 20, 20  # goals: trained on, unseen among these, of the region
RECIPES = (
    Recipe({"options": {"model": {"action_head": "bins"}}}),  # can be sampled, so that it explores
    Recipe({"options": {"memory": {"retrieve_every": 25}}}),  # the paper's on robots
    Recipe({"options": {"episode_gap": 10}}),  # a tenth of the history, as the paper's on grids
    Recipe({"collect": {"tasks": TRAINED}}),
    Recipe({"collect": {"tasks": 5}}, budgets=("smoke",)),
    Recipe({"learn": {"batch_size": 16}}, budgets=("laptop",), methods=("ad", "dpt")),
)


def split_goals(drawn: Floats, apart: NDArray[np.bool_]) -> Floats:
    """Choose the goals of all tasks: first those among trained ones, then those of a region."""
    return np.concatenate([drawn[~apart][: TRAINED + BETWEEN], drawn[apart][:APART]])


def hidden_spaces(state_width: int, actions: int) -> TaskSpaces:
    """Say what a model needs to know."""
    return TaskSpaces(
        state=StateSpace("vector", (state_width,)),
        action=ActionSpace("continuous", actions),
        horizon=HORIZON,
        return_scale=float(HORIZON),
        solved_above=0.0,
    )


@dataclass(frozen=True)
class HiddenGoalSuite:
    """200 goals to learn from and 40 unseen ones, half of them in a region that is left out."""

    source: ClassVar[str] = "expert"
    recipes: ClassVar[tuple[Recipe, ...]] = RECIPES

    name: str
    visible: bool = False
    random_start: bool = True
    train_tasks: tuple[int, ...] = tuple(range(TRAINED))
    eval_tasks: tuple[int, ...] = tuple(range(TRAINED, TRAINED + BETWEEN + APART))
    trials: int = 30
    target_return: tuple[float, float] = (90.0, 0.0)

    @classmethod
    def twins(cls, name: str, **more: Any) -> tuple[Self, ...]:
        """Build the suite, and those without some of its difficulties."""
        return tuple(
            cls(f"{name}{'-visible' * seen}{'-fixed-start' * (not varies)}", seen, varies, **more)
            for seen in (False, True)
            for varies in (True, False)
        )

    @property
    def splits(self) -> dict[str, tuple[int, ...]]:
        """The unseen goals among trained ones, and those of the region that is left out."""
        return {"between": self.eval_tasks[:BETWEEN], "apart": self.eval_tasks[BETWEEN:]}

    def goal(self, task: int) -> Floats:
        raise NotImplementedError

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> ControlVec:
        raise NotImplementedError

    def make(self, task: int, render_mode: str | None = None) -> TaskEnv:
        return TaskEnv(self.make_vec([task], AutoresetMode.DISABLED))

    def describe(self, task: int) -> str:
        place = ", ".join(f"{number:+.2f}" for number in self.goal(task))
        return f"stay near the {'' if self.visible else 'hidden '}goal at ({place})"
