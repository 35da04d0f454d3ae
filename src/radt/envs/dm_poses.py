"""How the robots of DMControl stand, read off their observations.

EnvPool hands out no joint angles. What a robot observes says them, in its own way; `mujoco` then
says where its bodies are. How far a runner has come is the sum of its speed. Of a fish only its
tilt is known, which is drawn as its pitch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.envs.photographs import photographs
from radt.envs.pools import module
from radt.envs.render import BodyKind, Floats, Sketch, discs

Seen = dict[str, Floats]  # kinds of observation, [T, width] each
FREE = ("ball", "cap1", "cap2")  # geoms that a robot moves but does not consist of
PLANE, SPHERE, ROUND = 0, 2, (3, 5)  # types of geoms in MuJoCo; capsules and cylinders are round
GOAL_RADIUS = 0.02
STEP = {"cheetah": 0.01, "hopper": 0.02, "walker": 0.025}  # seconds of a step, of those who run


@dataclass(frozen=True)
class Look:
    """What is shown of a robot."""

    pose: Callable[[Seen], Floats]  # joint positions, [T, nq]
    traced: str  # the geom whose way is traced
    size: float  # of what the camera sees
    middle: tuple[float, float]
    axes: tuple[int, int] = (0, 2)  # of the world: from the side, or (0, 1) from above
    speed: int | None = None  # the velocity along x: the camera follows
    camera: int = 0  # of the model, for photographs


def _angle(sine: Floats, cosine: Floats) -> Floats:
    return np.asarray(np.arctan2(sine, cosine))


def _cartpole(seen: Seen) -> Floats:
    place, cosine, sine = seen["position"].T[:3]
    return np.stack([place, _angle(sine, cosine)], axis=1)


def _finger(seen: Seen) -> Floats:
    proximal, distal, across, up = seen["position"].T[:4]
    return np.stack([proximal, distal, _angle(-across, up)], axis=1)


def _fish(seen: Seen) -> Floats:
    half = np.arccos(np.clip(seen["upright"][:, 0], -1.0, 1.0)) / 2
    free = np.zeros((len(half), 7))
    free[:, 2], free[:, 3], free[:, 4] = 0.1, np.cos(half), np.sin(half)
    return np.hstack([free, seen["joint_angles"]])


def _walker(seen: Seen) -> Floats:
    cosine, sine = seen["orientations"].reshape(-1, 7, 2).transpose(2, 1, 0)  # [7, T] each
    torso, *limbs = _angle(sine, cosine)
    legs = [limbs[:3], limbs[3:]]
    joints = [a - b for leg in legs for a, b in zip([torso, *leg[:2]], leg, strict=True)]
    height = seen["height"][:, 0] - 1.3
    return np.stack([height, np.zeros_like(height), torso, *joints], axis=1)


def _first(kind: str, count: int) -> Callable[[Seen], Floats]:
    return lambda seen: seen[kind][:, :count]


def _behind_x(count: int) -> Callable[[Seen], Floats]:
    return lambda seen: np.pad(seen["position"][:, :count], ((0, 0), (1, 0)))


LOOKS = {
    "ball_in_cup": Look(_first("position", 4), "ball", 0.8, (0.0, 0.4)),
    "cartpole": Look(_cartpole, "pole_1", 4.2, (0.0, 1.0)),
    "cheetah": Look(_behind_x(8), "torso", 2.4, (0.0, 0.8), speed=0),
    "finger": Look(_finger, "fingertip", 0.9, (0.0, 0.3)),
    "fish": Look(_fish, "torso", 0.4, (0.0, 0.1), (1, 2), camera=1),
    "hopper": Look(_behind_x(6), "torso", 2.2, (0.0, 0.9), speed=0),
    "pendulum": Look(
        lambda seen: _angle(seen["orientation"][:, 1:], seen["orientation"][:, :1]),
        *("mass", 1.4, (0.0, 0.6)),
    ),
    "point_mass": Look(_first("position", 2), "pointmass", 0.64, (0.0, 0.0), (0, 1)),
    "reacher": Look(_first("position", 2), "finger", 0.6, (0.0, 0.0), (0, 1)),
    "walker": Look(_walker, "torso", 2.4, (0.0, 0.95), speed=1),
}


def model_file(robot: str) -> Path:
    """Say where the model is that EnvPool simulates."""
    assets = Path(str(module("envpool_assets").__file__)).parent / "mujoco" / "assets_dmc"
    return assets / f"{robot}.xml"


@cache
def model_of(robot: str) -> Any:
    """Load the model of a robot."""
    return module("mujoco").MjModel.from_xml_path(str(model_file(robot)))


def positions(robot: str, seen: Seen) -> Floats:
    """Return joint positions, [T, nq], with what the observation leaves out."""
    look = LOOKS[robot]
    found = look.pose(seen).astype(np.float64)
    if look.speed is not None:
        along = model_of(robot).joint("rootx").qposadr[0]
        found[:, along] = np.cumsum(seen["velocity"][:, look.speed]) * STEP[robot]
    return found


def drawn(robot: str, seen: Seen) -> Sketch:
    """Put the bodies of a robot into the plane that it moves in."""
    look, model, poses = LOOKS[robot], model_of(robot), positions(robot, seen)
    middles, turns = kinematics(model, poses)  # [T, geoms, 3], [T, geoms, 3, 3]
    shown = [geom for geom in range(model.ngeom) if _is_shown(model, geom)]
    radii, reaches = zip(*(_extent(model, geom, turns[:, geom]) for geom in shown), strict=True)
    ends = np.stack([middles[:, shown] + sign * np.stack(reaches, 1) for sign in (-1, 1)], axis=2)
    bodies = ends[..., look.axes].reshape(len(poses), len(shown), 4)  # [T, n, 4]
    kinds = tuple(_kind(model, geom) for geom in shown)
    if (goal := goals(robot, seen, middles)) is not None:
        bodies = np.concatenate([discs(goal[:, look.axes])[:, None], bodies], axis=1)
        radii, kinds = (GOAL_RADIUS, *radii), ("goal", *kinds)
    centre = np.tile(look.middle, (len(poses), 1))
    if runs := look.speed is not None:
        centre[:, 0] = poses[:, model.joint("rootx").qposadr[0]]
    path = middles[:, model.geom(look.traced).id][:, look.axes]
    return Sketch(path, bodies, radii, kinds, centre, look.size, 0.0 if runs else None)


def photographed(
    robot: str, seen: Seen, steps: Sequence[int], pixels: int
) -> NDArray[np.uint8] | None:
    """Let a renderer show a robot after some steps; None where there is none."""
    chosen = list(steps)
    poses = positions(robot, seen)[chosen]
    middles, _ = kinematics(model_of(robot), poses)
    goal = goals(robot, {kind: values[chosen] for kind, values in seen.items()}, middles)
    return photographs(model_file(robot), LOOKS[robot].camera, poses, goal, pixels)


def kinematics(model: Any, poses: Floats) -> tuple[Floats, Floats]:
    """Return where the geoms of a model are and how they are turned, [T, g, 3], [T, g, 3, 3]."""
    mujoco = module("mujoco")
    data, places, turns = mujoco.MjData(model), [], []
    for pose in poses:
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        places.append(data.geom_xpos.copy())
        turns.append(data.geom_xmat.reshape(-1, 3, 3).copy())
    return np.stack(places), np.stack(turns)


def goals(robot: str, seen: Seen, middles: Floats) -> Floats | None:
    """Return where the target of a robot lies, [T, 3]; None where it has none."""
    model = model_of(robot)
    if robot == "point_mass":
        return middles[:, model.geom("target").id]
    if robot == "reacher":
        return middles[:, model.geom("finger").id] + np.pad(seen["to_target"], ((0, 0), (0, 1)))
    if robot == "finger" and seen["target_position"].any():
        across, up = seen["target_position"].T
        return np.asarray(model.body("spinner").pos + np.stack([across, 0 * up, up], axis=1))
    return None


def _is_shown(model: Any, geom: int) -> bool:
    plane, hidden = model.geom_type[geom] == PLANE, model.geom_group[geom] != 0
    return not plane and not hidden and model.geom(geom).name != "target"


def _kind(model: Any, geom: int) -> BodyKind:
    if model.geom(geom).name in FREE:
        return "object"
    return "ground" if model.geom_bodyid[geom] == 0 else "robot"


def _extent(model: Any, geom: int, turns: Floats) -> tuple[float, Floats]:
    """Return how thick a geom is, and from its middle to where it becomes round, [T, 3]."""
    size, kind = model.geom_size[geom], model.geom_type[geom]
    axis, radius, half = 2, float(size[0]), float(size[1])
    if kind == SPHERE:
        half = 0.0
    elif kind not in ROUND:  # a box or an ellipsoid
        axis, radius = int(size.argmax()), float(np.median(size))
        half = float(size[axis]) - radius
    return radius, half * turns[:, :, axis]
