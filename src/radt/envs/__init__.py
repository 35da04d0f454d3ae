"""Families of tasks: `SUITES["dark-room-10x10"]`, or `gymnasium.make("radt/DarkRoom-10x10-v0")`."""

from __future__ import annotations

import gymnasium as gym

from radt.envs import dm_control, grid_recipes, meta_world, procgen
from radt.envs.dark_room import DarkRoomSuite, Room
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
        )
        for (width, height), target in TARGETS.items()
    ),
    DarkRoomSuite("dark-room-10x10-random-start", Room(10, 10, random_start=True), (90.0, 5.0)),
    DarkRoomSuite("dark-room-10x10-slip", Room(10, 10, random_start=True, slip=0.1), (90.0, 5.0)),
)
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
POINT_ROBOTS = tuple(
    PointRobotSuite(
        f"point-robot{'-visible' if visible else ''}{'' if random_start else '-fixed-start'}",
        visible,
        random_start,
    )
    for visible in (False, True)
    for random_start in (True, False)
)
ROBOTS = (meta_world.MetaWorldSuite(), dm_control.DMControlSuite())
GAMES = (procgen.ProcgenSuite(),)


def register_envs() -> None:
    """Make the suites and the Gymnasium ids known; calling it again changes nothing."""
    suites: tuple[TaskSuite, ...] = (*DARK_ROOMS, *KEY_DOORS, *MAZES, *POINT_ROBOTS, *ROBOTS)
    for suite in (*suites, *GAMES):
        SUITES.register(suite.name, suite)
    for width, height in TARGETS:
        size = {"width": width, "height": height}
        _register(f"radt/DarkRoom-{width}x{height}-v0", "dark_room:DarkRoom", size)
        _register(f"radt/DarkKeyDoor-{width}x{height}-v0", "key_door:KeyDoor", size)
    _register("radt/MazeRunner-15x15-v0", "maze_runner:MazeRunner", {})
    _register("radt/PointRobot-v0", "point_robot:PointRobot", {})
    for task, name in enumerate(meta_world.NAMES):
        _register(f"radt/MetaWorld-{name}-v0", "meta_world:MetaWorld", {"task": task})
    for task, name in enumerate(dm_control.NAMES):
        _register(f"radt/DMControl-{name}-v0", "dm_control:DMControl", {"task": task})
    for task, name in enumerate(procgen.NAMES):
        _register(f"radt/Procgen-{name}-v0", "procgen:Procgen", {"task": task})


def _register(name: str, single: str, size: dict[str, int]) -> None:
    """Register an id unless it is known; `single` is module:class of one environment."""
    if name not in gym.registry:
        entry = f"radt.envs.{single}"
        gym.register(name, entry_point=entry, vector_entry_point=f"{entry}Vec", kwargs=size)


register_envs()

__all__ = [
    "DARK_ROOMS",
    "GAMES",
    "KEY_DOORS",
    "MAZES",
    "POINT_ROBOTS",
    "ROBOTS",
    "SUITES",
    "DarkRoomSuite",
    "KeyDoorSuite",
    "KeyRoom",
    "MazeRunnerSuite",
    "PointRobotSuite",
    "Room",
    "TaskSuite",
    "register_envs",
]
