"""How trials look from above: cells and walls where a suite can be drawn, else the first numbers.

A suite that draws itself (`DrawnSuite`) is shown with all it has; a grid that does not is shown
from its coordinates, and any other state as a point in a plane. So a new suite needs no change
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.envs.render import GridView
from radt.envs.suite import DrawnSuite, TaskSuite

MARKED_REWARDS = 8  # of a trial, after which what is marked is looked at again


@dataclass(frozen=True)
class Scene:
    """How the trials of one task are drawn."""

    suite: TaskSuite
    task: int

    def ground(self, first_state: NDArray[Any]) -> dict[str, Any]:
        """Describe what never changes in a trial that begins with a state."""
        space = self.suite.spaces.state
        if isinstance(self.suite, DrawnSuite):
            view = self.suite.view(self.task, first_state[None], np.zeros(0))
            walls = sorted(map(list, view.walls))
            return {"kind": "grid", "width": view.width, "height": view.height, "walls": walls}
        if space.kind == "discrete" and len(space.bins) == 2:
            height, width = space.bins
            return {"kind": "grid", "width": width, "height": height, "walls": []}
        return {"kind": "plane" if first_state.ndim == 1 else "none"}

    def cells(self, states: NDArray[Any], rewards: NDArray[Any]) -> list[list[float]]:
        """Return where each state of a trial lies: (row, column), or two numbers; [T] -> [T][2]."""
        if isinstance(self.suite, DrawnSuite):
            trail = self.suite.view(self.task, states, rewards[: len(states) - 1]).trail
            return [list(cell) for cell in trail]
        if states.ndim != 2:
            return [[0, 0] for _ in states]
        if states.shape[1] == 1:
            states = np.column_stack([states, np.arange(len(states))])
        return [[round(float(value), 4) for value in state[:2]] for state in states]

    def marks(
        self, states: NDArray[Any], rewards: NDArray[Any], start: int
    ) -> list[dict[str, Any]]:
        """Say where goals and keys lie at step `start`, and at later steps where that changes.

        What changes does so with a reward: a key is taken, the next goal becomes the active one.
        """
        if not isinstance(self.suite, DrawnSuite):
            return []
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


def action_names(suite: TaskSuite, task: int) -> list[str]:
    """Return what the actions of a suite are called, or their numbers."""
    if suite.spaces.action.kind == "continuous":
        return []
    world = getattr(suite.make(task).unwrapped, "room", None)
    names = getattr(world, "actions", ())
    known = len(names) == suite.spaces.action.size
    return list(names) if known else [str(action) for action in range(suite.spaces.action.size)]
