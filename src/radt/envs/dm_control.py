"""DMControl: sixteen tasks of eight and more robots, eleven to learn from (section 4.4, DMC11).

Robots see different things. Each kind of observation has its own place in the state, with zeros
where a robot has less of it or none; a linear layer reads nothing from these. Of an action only the
first dimensions count, as many as the robot has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs import dm_poses, recipes
from radt.envs.pools import DM_CONTROL, PoolSuite, PoolVec, pool_name
from radt.envs.render import Sketch
from radt.envs.suite import Recipe
from radt.envs.vector import Floats, check_tasks
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON = 1000
DMC5 = {  # action dimensions
    "cartpole-balance": 1,
    "finger-turn_hard": 2,
    "pendulum-swingup": 1,
    "reacher-hard": 2,
    "walker-walk": 6,
}
DMC11 = {
    "ball_in_cup-catch": 2,
    "cartpole-swingup": 1,
    "cheetah-run": 6,
    "finger-spin": 2,
    "finger-turn_easy": 2,
    "fish-upright": 5,
    "hopper-stand": 4,
    "point_mass-easy": 2,
    "reacher-easy": 2,
    "walker-run": 6,
    "walker-stand": 6,
}
NAMES = (*DMC11, *DMC5)  # a task is a place here
POOLS = tuple(f"{pool_name(name)}-v1" for name in NAMES)
WIDTHS = {  # of each kind of observation, the most that a robot has
    "orientations": 14,
    "velocity": 13,
    "position": 8,
    "touch": 2,
    "target_position": 2,
    "dist_to_target": 1,
    "joint_angles": 7,
    "upright": 1,
    "target": 3,
    "orientation": 2,
    "to_target": 2,
    "height": 1,
}
PLACES = dict(zip(WIDTHS, np.cumsum([0, *WIDTHS.values()]).tolist(), strict=False))
SPACES = TaskSpaces(
    state=StateSpace("vector", (sum(WIDTHS.values()),)),
    action=ActionSpace("continuous", max(DMC11.values())),
    horizon=HORIZON,
    return_scale=100.0,  # the authors'
    reward_scale=100.0,
    action_dims=tuple(enumerate((*DMC11.values(), *DMC5.values()))),
)


class DMControlVec(PoolVec):
    """Many tasks at once, one slot each; every episode begins by new random numbers."""

    def __init__(
        self,
        tasks: Sequence[int],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        check_tasks(tasks, len(NAMES), "dm-control")
        super().__init__(tasks, POOLS, SPACES, autoreset_mode, same_start=False)

    def _read(self, slot: int, observed: Any) -> Floats:
        state = np.zeros(SPACES.state.shape, np.float32)
        for kind, values in observed.items():
            own = np.ravel(values)
            state[PLACES[kind] : PLACES[kind] + len(own)] = own
        return state


@dataclass(frozen=True)
class DMControlSuite(PoolSuite):
    """DMC11 to learn from, DMC5 to be tested on."""

    names, pools, reference = NAMES, POOLS, DM_CONTROL

    name: str = "dm-control"
    train_tasks: tuple[int, ...] = tuple(range(len(DMC11)))
    eval_tasks: tuple[int, ...] = tuple(range(len(DMC11), len(NAMES)))
    trials: int = 30
    target_return: tuple[float, float] = (800.0, 0.0)  # where there are no data to take it from
    task_targets: str = "data"
    spaces: TaskSpaces = SPACES
    source: str = "sb3"
    recipes: tuple[Recipe, ...] = field(default=recipes.DM_CONTROL, compare=False)

    @property
    def splits(self) -> dict[str, tuple[int, ...]]:
        """All training tasks, to be evaluated on as the unseen ones are."""
        return {"dmc11": self.train_tasks}

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> DMControlVec:
        return DMControlVec(tasks, autoreset_mode)

    def sketch(self, task: int, states: Floats) -> Sketch:
        return dm_poses.drawn(*_observed(task, states))

    def photographs(
        self, task: int, states: Floats, steps: Sequence[int], pixels: int
    ) -> NDArray[np.uint8] | None:
        """Let `mujoco` show the robot after some steps."""
        return dm_poses.photographed(*_observed(task, states), steps, pixels)


def _observed(task: int, states: Floats) -> tuple[str, dict[str, Floats]]:
    """Name the robot of a task, and take its states apart, [T, width] each."""
    robot, _, _ = NAMES[task].partition("-")
    return robot, {kind: states[:, at : at + WIDTHS[kind]] for kind, at in PLACES.items()}
