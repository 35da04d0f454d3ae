"""Families of tasks: `SUITES["dark-room-10x10"]`, or `gymnasium.make("radt/DarkRoom-10x10-v0")`."""

from __future__ import annotations

import gymnasium as gym

from radt.envs.dark_room import DarkRoomSuite
from radt.envs.suite import SUITES, TaskSuite
from radt.envs.tasks import Room

DARK_ROOMS = (
    DarkRoomSuite("dark-room-10x10", Room(10, 10), (90.0, 5.0)),
    DarkRoomSuite("dark-room-20x20", Room(20, 20), (370.0, 10.0)),
    DarkRoomSuite("dark-room-40x20", Room(40, 20), (500.0, 10.0)),
    DarkRoomSuite("dark-room-10x10-random-start", Room(10, 10, random_start=True), (90.0, 5.0)),
    DarkRoomSuite("dark-room-10x10-slip", Room(10, 10, random_start=True, slip=0.1), (90.0, 5.0)),
)


def register_envs() -> None:
    """Make the suites and the Gymnasium ids known; calling it again changes nothing."""
    for suite in DARK_ROOMS:
        SUITES.register(suite.name, suite)
    for width, height in ((10, 10), (20, 20), (40, 20)):
        name = f"radt/DarkRoom-{width}x{height}-v0"
        if name not in gym.registry:
            gym.register(
                name,
                entry_point="radt.envs.dark_room:DarkRoom",
                vector_entry_point="radt.envs.dark_room:make_dark_rooms",
                kwargs={"width": width, "height": height},
            )


register_envs()

__all__ = ["DARK_ROOMS", "SUITES", "DarkRoomSuite", "Room", "TaskSuite", "register_envs"]
