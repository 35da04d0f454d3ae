"""Families of tasks: `SUITES["dark-room-10x10"]`, or `gymnasium.make("radt/DarkRoom-10x10-v0")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from radt.envs import dm_control, meta_world, procgen, recipes
from radt.envs.dark_room import FRESH_TASKS, without_quadrant
from radt.envs.dark_room import DarkRoomSuite as DarkRoomSuite
from radt.envs.dark_room import Room as Room
from radt.envs.hidden_robots import HiddenRobotSuite as HiddenRobotSuite
from radt.envs.key_door import KeyDoorSuite as KeyDoorSuite
from radt.envs.key_door import KeyRoom as KeyRoom
from radt.envs.maze_runner import MazeRunnerSuite as MazeRunnerSuite
from radt.envs.point_robot import PointRobotSuite as PointRobotSuite
from radt.envs.suite import SUITES as SUITES
from radt.envs.suite import TaskSuite as TaskSuite

TARGETS = {(10, 10): (90.0, 5.0), (20, 20): (370.0, 10.0), (40, 20): (500.0, 10.0)}  # the paper's

DARK_ROOMS = (
    *(
        DarkRoomSuite(
            f"dark-room-{width}x{height}",
            Room(width, height),
            target,
            recipes=recipes.dark_room(width),
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
        recipes=recipes.key_door(width, persist),
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
        _register_grid(f"DarkRoom-{width}x{height}", "dark_room:DarkRoom", size)
        _register_grid(f"DarkKeyDoor-{width}x{height}", "key_door:KeyDoor", size)
    _register_grid("MazeRunner-15x15", "maze_runner:MazeRunner", {})
    _register_suite("PointRobot", "point-robot")
    _register_suite("ReachHidden", "reach-hidden")
    _register_suite("ReacherHidden", "reacher-hidden")
    for kind, suite in (("MetaWorld", ROBOTS[0]), ("DMControl", ROBOTS[1]), ("Procgen", GAMES[0])):
        for task, name in enumerate(suite.names):
            _register_suite(f"{kind}-{name}", suite.name, task=task)


def _register_grid(name: str, place: str, rules: Mapping[str, Any]) -> None:
    """Register a grid, whose environments are the class in a module and the one for many tasks."""
    _register(name, f"radt.envs.{place}", f"radt.envs.{place}Vec", rules)


def _register_suite(name: str, suite: str, **rules: Any) -> None:
    """Register a suite whose environments its own methods build."""
    _register(name, "radt.envs:single", "radt.envs:many", {"suite": suite, **rules})


def _register(name: str, single: str, many: str, rules: Mapping[str, Any]) -> None:
    """Register an id unless it is known."""
    if (own := f"radt/{name}-v0") not in gym.registry:
        gym.register(own, entry_point=single, vector_entry_point=many, kwargs=dict(rules))


def single(
    suite: str, task: int = 0, render_mode: str | None = None, **changes: Any
) -> gym.Env[Any, Any]:
    """Build one task of a suite, some of whose fields are changed, e.g. `visible=True`."""
    return changed(suite, changes).make(task, render_mode)


def many(
    suite: str,
    tasks: Sequence[int] | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    num_envs: int = 1,
    task: int | None = None,
    **changes: Any,
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Build `tasks`, or else one task `num_envs` times, or else so many of the first tasks."""
    usual = range(num_envs) if task is None else [task] * num_envs
    chosen: Any = changed(suite, changes)
    made: gym.vector.VectorEnv[Any, Any, Any] = chosen.make_vec(tasks or usual, autoreset_mode)
    return made


def changed(suite: str, changes: Mapping[str, Any]) -> TaskSuite:
    """Return a suite with other values in some fields."""
    other: TaskSuite = replace(SUITES[suite], **changes)  # type: ignore[type-var]
    return other


register_envs()
