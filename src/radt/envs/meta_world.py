"""Meta-World: fifty tasks of a robot arm, 45 to learn from and five unseen (section 4.4, ML45).

The state is the hand, the gripper and up to two objects, now and one step before. The goal is
masked, as in the paper. All trials of a task begin with its objects and goal in one place; in
training data every episode has its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode

from radt.envs import recipes
from radt.envs.pools import META_WORLD, PoolSuite, PoolVec, module, pool_name
from radt.envs.render import BodyKind, Sketch
from radt.envs.suite import Recipe
from radt.envs.vector import Floats, check_tasks
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

HORIZON, WIDTH = 200, 39
HAND, GRIP, OBJECTS = slice(0, 3), 3, (slice(4, 7), slice(11, 14))  # of an observation
GOAL = slice(36, 39)  # masked
ML5 = ("bin-picking", "box-close", "hand-insert", "door-lock", "door-unlock")
ML45 = tuple(name for name in sorted(META_WORLD) if name not in ML5)
NAMES = (*ML45, *ML5)  # a task is a place here
POOLS = tuple(f"MetaWorld/{pool_name(name)}-v3" for name in NAMES)
SPACES = TaskSpaces(
    state=StateSpace("vector", (WIDTH,)),
    action=ActionSpace("continuous", 4),
    horizon=HORIZON,
    return_scale=200.0,  # the authors'
    reward_scale=200.0,
)

Part = tuple[BodyKind, float, Floats, Floats]  # a body: how thick, from where to where, [T, 3]
SIDE, UP = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
TABLE = ((-0.5, 0.35), (0.5, 0.35), (0.5, 0.95), (-0.5, 0.95))  # corners that are drawn


class MetaWorldVec(PoolVec):
    """Many tasks at once, one slot each."""

    def __init__(
        self,
        tasks: Sequence[int],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        same_start: bool = True,
    ) -> None:
        check_tasks(tasks, len(NAMES), "meta-world")
        super().__init__(
            tasks, POOLS, SPACES, autoreset_mode, same_start, partially_observable=False
        )
        self._unmasked = np.zeros((self.num_envs, WIDTH))  # [N, WIDTH] as experts see it
        self._experts: list[Any] = []

    def _read(self, slot: int, observed: Any) -> Floats:
        self._unmasked[slot] = observed[0]
        state = observed[0].astype(np.float32)
        state[GOAL] = 0.0
        return np.asarray(state)

    def _known(self, info: dict[str, Any]) -> dict[str, float]:
        return {"success": float(info["success"][0])}

    def optimal_actions(self) -> Floats:
        """Ask the scripted policies of `metaworld`, which see the goal, [N, 4]."""
        if not self._experts:
            policies = module("metaworld.policies").ENV_POLICY_MAP
            self._experts = [policies[f"{NAMES[task]}-v3"]() for task in self.tasks]
        pairs = zip(self._experts, self._unmasked, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that actions are to be clipped, as they are below
            actions = [expert.get_action(seen) for expert, seen in pairs]
        return np.asarray(np.clip(np.stack(actions), -1.0, 1.0), np.float32)


@dataclass(frozen=True)
class MetaWorldSuite(PoolSuite):
    """ML45 to learn from, ML5 to be tested on."""

    names, pools, reference = NAMES, POOLS, META_WORLD
    action_names: ClassVar = ("x", "y", "z", "grip")

    name: str = "meta-world"
    same_start: bool = True  # every trial of a task begins alike
    train_tasks: tuple[int, ...] = tuple(range(len(ML45)))
    eval_tasks: tuple[int, ...] = tuple(range(len(ML45), len(NAMES)))
    trials: int = 30
    target_return: tuple[float, float] = (1500.0, 0.0)  # where there are no data to take it from
    task_targets: str = "data"
    spaces: TaskSpaces = SPACES
    source: str = "expert"
    recipes: tuple[Recipe, ...] = field(default=recipes.META_WORLD, compare=False)

    @property
    def for_data(self) -> MetaWorldSuite:
        """The same tasks, every episode with objects and goal in places of its own."""
        return replace(self, same_start=False)

    @property
    def splits(self) -> dict[str, tuple[int, ...]]:
        """All training tasks, to be evaluated on as the unseen ones are."""
        return {"ml45": self.train_tasks}

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> MetaWorldVec:
        return MetaWorldVec(tasks, autoreset_mode, self.same_start)

    def sketch(self, task: int, states: Floats) -> Sketch:
        hand, grip = states[:, HAND].astype(np.float64), states[:, GRIP]  # [T, 3], [T]
        objects = [states[:, own] for own in OBJECTS if states[:, own].any()]
        corners = [np.broadcast_to((*corner, 0.0), hand.shape) for corner in TABLE]
        parts: list[Part] = [
            *(("ground", 0.003, corners[n - 1], corners[n]) for n in range(len(corners))),
            *(("ground", 0.004, place, place * (1.0 - UP)) for place in (hand, *objects)),
            *(("object", 0.025, place, place) for place in objects),
            ("robot", 0.025, hand + 0.09 * UP, hand + 0.17 * UP),
            ("robot", 0.015, hand + 0.09 * UP - 0.05 * SIDE, hand + 0.09 * UP + 0.05 * SIDE),
        ]
        for side in (-1.0, 1.0):
            finger = hand + np.outer(side * (0.012 + 0.04 * grip), SIDE)
            parts.append(("robot", 0.012, finger, finger + 0.09 * UP))
        kinds, radii, starts, ends = zip(*parts, strict=True)
        bodies = [_seen_aslant(np.stack(at, axis=1)) for at in (starts, ends)]  # [T, n, 2] each
        centre = np.tile((0.0, 0.17), (len(states), 1))
        path = _seen_aslant(hand)
        return Sketch(path, np.concatenate(bodies, axis=2), radii, kinds, centre, size=1.2)


def _seen_aslant(places: Floats) -> Floats:
    """Look at the table from the front and above, [..., 3] -> [..., 2]."""
    right, away, up = np.moveaxis(np.asarray(places, np.float64), -1, 0)
    return np.stack([right + 0.25 * (away - 0.65), up + 0.5 * (away - 0.65)], axis=-1)
