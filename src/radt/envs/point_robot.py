"""Point robot: find a hidden goal on a plane, the sparse navigation of meta-RL.

Not in the paper. The state is where the point is; see `hidden_goal` for what makes it hard. The
goals of one quadrant are never trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.hidden_goal import HORIZON, NOISE, HiddenGoalSuite, hidden_spaces, split_goals
from radt.envs.render import Sketch, discs
from radt.envs.vector import ControlVec, Floats, Infos, Slots, check_tasks
from radt.spaces import TaskSpaces

STEP = 0.1  # the longest step along each axis, on a plane from -1 to 1
RADIUS = 0.15  # up to which a point is near its goal
START = 0.4  # episodes start up to here along each axis
NEAREST_GOAL = 0.5  # along one axis: outside of where episodes start


@cache
def goals() -> Floats:
    """Draw where the goals are, [tasks, 2]: first those among trained ones, then the quadrant's."""
    drawn = np.random.default_rng(0).uniform(-0.9, 0.9, (4000, 2))
    drawn = drawn[np.abs(drawn).max(axis=1) > NEAREST_GOAL]
    return split_goals(drawn, (drawn > 0).all(axis=1))


def best_actions(states: Floats, goal: Floats) -> Floats:
    """Go straight to the goal from states whose first two numbers are the place, [..., 2]."""
    return np.clip((goal - states[..., :2]) / STEP, -1.0, 1.0).astype(np.float32)


class PointRobotVec(ControlVec):
    """Many goals at once, one slot each."""

    def __init__(
        self,
        tasks: Sequence[int],
        autoreset_mode: AutoresetMode | str,
        visible: bool,
        random_start: bool,
    ) -> None:
        check_tasks(tasks, len(goals()), "point-robot")
        super().__init__(tasks, hidden_spaces(4 if visible else 2, 2), autoreset_mode, bound=1.0)
        self.goals = goals()[list(tasks)]  # [N, 2]
        self._visible, self._random_start = visible, random_start
        self._places = np.zeros((self.num_envs, 2))  # [N, 2]
        self._noise = np.zeros((self.num_envs, HORIZON, 2))  # of the running episodes

    def _begin(self, slots: Slots) -> Floats:
        for slot in slots.tolist():  # once an episode: each slot has its own stream
            drawn = self._streams[slot].uniform(-START, START, 2)
            self._places[slot] = drawn if self._random_start else 0.0
            self._noise[slot] = NOISE * self._streams[slot].standard_normal((HORIZON, 2))
        return self._observed(slots)

    def _act(self, slots: Slots, actions: Floats) -> tuple[Floats, Floats, Infos]:
        moved = STEP * (actions + self._noise[slots, self._elapsed[slots]])  # [n, 2]
        self._places[slots] = np.clip(self._places[slots] + moved, -1.0, 1.0)
        apart = np.linalg.norm(self._places[slots] - self.goals[slots], axis=1)
        return self._observed(slots), (apart <= RADIUS).astype(np.float64), {}

    def _observed(self, slots: Slots) -> Floats:
        seen = self._places[slots].astype(np.float32)
        return np.hstack([seen, self.goals[slots].astype(np.float32)]) if self._visible else seen

    def optimal_actions(self) -> Floats:
        return best_actions(self._places, self.goals)


@dataclass(frozen=True)
class PointRobotSuite(HiddenGoalSuite):
    """A plane with goals."""

    action_names: ClassVar = ("x", "y")

    @cached_property
    def spaces(self) -> TaskSpaces:
        return hidden_spaces(4 if self.visible else 2, 2)

    def goal(self, task: int) -> Floats:
        return np.asarray(goals()[task])

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> PointRobotVec:
        return PointRobotVec(tasks, autoreset_mode, self.visible, self.random_start)

    def optimal_return(self, task: int) -> float:
        """Return what the straight way earns without noise, over a lattice of starts."""
        side = np.linspace(-START, START, 21) if self.random_start else np.zeros(1)
        starts = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 1, 2)
        steps = np.arange(1, HORIZON + 1)[:, None]
        missing = np.maximum(np.abs(goals()[task] - starts) - STEP * steps, 0.0)  # [S, steps, 2]
        return float((np.linalg.norm(missing, axis=-1) <= RADIUS).sum(axis=1).mean())

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[np.float32]:
        """Go straight to the goal from each state of an episode, [T, 2]."""
        return np.asarray(best_actions(states, goals()[task]))

    def sketch(self, task: int, states: NDArray[Any]) -> Sketch:
        places = states[:, :2].astype(np.float64)
        goal = np.broadcast_to(goals()[task], places.shape)
        bodies = discs(np.stack([goal, places], axis=1))
        return Sketch(
            places, bodies, (RADIUS, 0.035), ("goal", "robot"), np.zeros_like(places), size=2.1
        )
