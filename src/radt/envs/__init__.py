"""Families of tasks: `SUITES["dark-room-10x10"]`, or `gymnasium.make("radt/DarkRoom-10x10-v0")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from radt.envs import dm_control, grid_recipes, meta_world, procgen
from radt.envs.dark_room import FRESH_TASKS, DarkRoomSuite, Room, without_quadrant
from radt.envs.hidden_robots import HiddenRobotSuite
from radt.envs.key_door import KeyDoorSuite, KeyRoom
from radt.envs.maze_runner import MazeRunnerSuite
from radt.envs.point_robot import PointRobotSuite
from radt.envs.suite import SUITES, TaskSuite

TARGETS = {(10, 10): (90.0, 5.0), (20, 20): (370.0, 10.0), (40, 20): (500.0, 10.0)}  # the paper's

DARK_ROOMS = (
    *(
        DarkRoomSuite(
            f"dark-room-{width}x{height}",
            Room(width, height),
            target,
            recipes=grid_recipes.dark_room(width),
            splits={"fresh": FRESH_TASKS} if width > 10 else {},
        )
        for (width, height), target in TARGETS.items()
    ),
    DarkRoomSuite("dark-room-10x10-random-start", Room(10, 10, random_start=True), (90.0, 5.0)),
    DarkRoomSuite("dark-room-10x10-slip", Room(10, 10, random_start=True, slip=0.1), (90.0, 5.0)),
)
QUADRANTS = (without_quadrant(DARK_ROOMS[0]),)
KEY_DOORS = tuple(
    KeyDoorSuite(
        f"dark-key-door-{width}x{height}{'-persist' if persist else ''}",
        KeyRoom(width, height, persist_key=persist),
        target,
        recipes=grid_recipes.key_door(width, persist),
    )
    for persist in (False, True)
    for (width, height), target in TARGETS.items()
)

MAZES = (MazeRunnerSuite(),)
HIDDEN_GOALS: tuple[TaskSuite, ...] = (
    *PointRobotSuite.twins("point-robot"),
    *HiddenRobotSuite.twins("reach-hidden", robot="reach"),
    *HiddenRobotSuite.twins("reacher-hidden", robot="reacher", target_return=(85.0, 0.0)),
)
ROBOTS = (meta_world.MetaWorldSuite(), dm_control.DMControlSuite())
GAMES = (procgen.ProcgenSuite(),)


def register_envs() -> None:
    """Make the suites and the Gymnasium ids known; calling it again changes nothing."""
    suites: tuple[TaskSuite, ...] = (
        *DARK_ROOMS,
        *QUADRANTS,
        *KEY_DOORS,
        *MAZES,
        *HIDDEN_GOALS,
        *ROBOTS,
        *GAMES,
    )
    for suite in suites:
        SUITES.register(suite.name, suite)
    for width, height in TARGETS:
        size = {"width": width, "height": height}
        _register(f"radt/DarkRoom-{width}x{height}-v0", "dark_room:DarkRoom", size)
        _register(f"radt/DarkKeyDoor-{width}x{height}-v0", "key_door:KeyDoor", size)
    _register("radt/MazeRunner-15x15-v0", "maze_runner:MazeRunner", {})
    _register("radt/PointRobot-v0", "point_robot:PointRobot", {})
    _register("radt/ReachHidden-v0", "hidden_robots:HiddenGoal", {"robot": "reach"})
    _register("radt/ReacherHidden-v0", "hidden_robots:HiddenGoal", {"robot": "reacher"})
    for task, name in enumerate(meta_world.NAMES):
        _register(f"radt/MetaWorld-{name}-v0", "meta_world:MetaWorld", {"task": task})
    for task, name in enumerate(dm_control.NAMES):
        _register(f"radt/DMControl-{name}-v0", "dm_control:DMControl", {"task": task})
    for task, name in enumerate(procgen.NAMES):
        _register(f"radt/Procgen-{name}-v0", "procgen:Procgen", {"task": task})


def _register(name: str, single: str, size: Mapping[str, Any]) -> None:
    """Register an id unless it is known; `single` is module:class of one environment."""
    if name not in gym.registry:
        entry = f"radt.envs.{single}"
        gym.register(name, entry_point=entry, vector_entry_point=f"{entry}Vec", kwargs=dict(size))


register_envs()

__all__ = [
    "DARK_ROOMS",
    "GAMES",
    "HIDDEN_GOALS",
    "KEY_DOORS",
    "MAZES",
    "QUADRANTS",
    "ROBOTS",
    "SUITES",
    "DarkRoomSuite",
    "HiddenRobotSuite",
    "KeyDoorSuite",
    "KeyRoom",
    "MazeRunnerSuite",
    "PointRobotSuite",
    "Room",
    "TaskSuite",
    "register_envs",
]
