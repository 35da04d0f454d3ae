"""How trials look: cells and walls, robots as they are sketched, or the first numbers of a state.

A suite says by what it offers which of these it is: `view` (`DrawnSuite`) or `sketch`
(`SketchedSuite`). A grid that offers neither is shown from its coordinates, and any other state as
a point in a plane. So a new suite needs no change here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from radt.envs.render import GridView
from radt.envs.suite import DrawnSuite, SketchedSuite, TaskSuite, sketch_of

MARKED_REWARDS = 8  # of a trial, after which what is marked is looked at again
DIGITS = 3  # of places


class Scene(Protocol):
    """How the trials of one task are drawn."""

    def ground(self, first_state: NDArray[Any]) -> dict[str, Any]:
        """Describe what never changes in a trial that begins with a state."""

    def frames(self, states: NDArray[Any], rewards: NDArray[Any], start: int) -> dict[str, Any]:
        """Describe a trial so far, step by step from `start` on.

        `cells` say where the agent is (row, column), or (y, x); `marks` say where goals and keys
        lie at step `start`, and at later steps where that changes.
        """


def scene_of(suite: TaskSuite, task: int) -> Scene:
    """Choose how a task is drawn; one whose package is not installed is a point."""
    if isinstance(suite, DrawnSuite):
        return GridScene(suite, task)
    if isinstance(suite, SketchedSuite) and sketch_of(suite, task) is not None:
        return SketchScene(suite, task)
    return PointScene(suite)


@dataclass(frozen=True)
class GridScene:
    """A grid with its walls, goals and keys."""

    suite: DrawnSuite
    task: int

    def ground(self, first_state: NDArray[Any]) -> dict[str, Any]:
        view = self.suite.view(self.task, first_state[None], np.zeros(0))
        walls = sorted(map(list, view.walls))
        return {"kind": "grid", "width": view.width, "height": view.height, "walls": walls}

    def frames(self, states: NDArray[Any], rewards: NDArray[Any], start: int) -> dict[str, Any]:
        """Say in which cell the agent was, and what was marked."""
        trail = self.suite.view(self.task, states, rewards[: len(states) - 1]).trail
        cells = [list(cell) for cell in trail[start:]]
        return {"cells": cells, "marks": self._marks(states, rewards, start)}

    def _marks(
        self, states: NDArray[Any], rewards: NDArray[Any], start: int
    ) -> list[dict[str, Any]]:
        """Look again after each reward: a key is taken, the next goal becomes the active one."""
        paid = np.flatnonzero(rewards[: len(states) - 1] > 0)[:MARKED_REWARDS] + 1
        marks: list[dict[str, Any]] = []
        for step in (start, *paid[paid > start].tolist()):
            view = self.suite.view(self.task, states[: step + 1], rewards[:step])
            mark = _mark(view)
            if not marks or marks[-1]["marks"] != mark:
                marks.append({"step": step, "marks": mark})
        return marks


def _mark(view: GridView) -> dict[str, Any]:
    return {
        "goal": list(view.goal),
        "others": [list(cell) for cell in view.other_goals],
        "key": None if view.key is None else list(view.key),
    }


@dataclass(frozen=True)
class SketchScene:
    """Bodies in a plane."""

    suite: SketchedSuite
    task: int

    def ground(self, first_state: NDArray[Any]) -> dict[str, Any]:
        """Describe the bodies; `sparse` says whether a reward means success."""
        sketch = self.suite.sketch(self.task, first_state[None])
        named = {name: getattr(sketch, name) for name in ("size", "radii", "kinds", "floor")}
        return {"kind": "plane", **named, "sparse": self.suite.spaces.solved_above is not None}

    def frames(self, states: NDArray[Any], rewards: NDArray[Any], start: int) -> dict[str, Any]:
        """Say where the traced point, the bodies and the camera were."""
        sketch = self.suite.sketch(self.task, states)
        places = {"cells": sketch.path[:, ::-1], "bodies": sketch.bodies, "centres": sketch.centre}
        told = {name: _plain(values[start:]) for name, values in places.items()}
        return {**told, "marks": []}


@dataclass(frozen=True)
class PointScene:
    """A point: the first two numbers of a state, if it has numbers."""

    suite: TaskSuite

    def ground(self, first_state: NDArray[Any]) -> dict[str, Any]:
        """Describe a grid without walls, a plane, or nothing."""
        space = self.suite.spaces.state
        if space.kind == "discrete" and len(space.bins) == 2:
            height, width = space.bins
            return {"kind": "grid", "width": width, "height": height, "walls": []}
        return {"kind": "plane" if first_state.ndim == 1 else "none"}

    def frames(self, states: NDArray[Any], rewards: NDArray[Any], start: int) -> dict[str, Any]:
        if states.ndim != 2:
            states = np.zeros((len(states), 2))
        elif states.shape[1] == 1:
            states = np.column_stack([states, np.arange(len(states))])
        return {"cells": _plain(states[start:, :2]), "marks": []}


def _plain(values: NDArray[Any]) -> list[Any]:
    return list(np.round(values.astype(float), DIGITS).tolist())


def action_names(suite: TaskSuite, task: int) -> list[str]:
    """Return what the actions of a task, or the dimensions of one, are called, or their numbers."""
    size, names = suite.spaces.action.size, getattr(suite, "action_names", ())
    if suite.spaces.action.kind == "continuous":
        size = suite.spaces.valid_action_dims(task)
        numbers = [f"dim {number}" for number in range(1, size + 1)]
    else:
        world = getattr(suite.make(task).unwrapped, "room", None)
        names, numbers = getattr(world, "actions", names), [str(number) for number in range(size)]
    return list(names) if len(names) == size else numbers
