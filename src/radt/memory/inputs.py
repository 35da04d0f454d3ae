"""What may enter a memory: trajectories of its spaces, whole and finite, checked before a write."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from radt.data.manifest import array_specs
from radt.data.store import as_stored
from radt.memory.identity import StoreError
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory

MOST_TASKS = 100_000  # an index keeps a list for each
MOST_EPISODES = 2**31  # of one task
ROUNDING = 1e-6  # of an action at the end of its range


class BadTrajectoryError(StoreError):
    """A trajectory that does not belong into a memory of these spaces."""


def check_trajectories(trajectories: Sequence[Trajectory], spaces: TaskSpaces) -> None:
    """Refuse all of them if one is not what a memory of these spaces holds."""
    for number, trajectory in enumerate(trajectories):
        if problem := problem_of(trajectory, spaces):
            raise BadTrajectoryError(
                f"trajectory {number} of {len(trajectories)} is refused and nothing was written: "
                f"{problem}. Expected is {expected(spaces)}"
            )


def problem_of(trajectory: Any, spaces: TaskSpaces) -> str | None:
    """Say what is wrong with a trajectory, if anything."""
    if not isinstance(trajectory, Trajectory):
        return f"it is no Trajectory but {type(trajectory).__name__}"
    for name, most in (("task", MOST_TASKS), ("episode", MOST_EPISODES)):
        value = getattr(trajectory, name)
        if not is_number(value) or not 0 <= value < most:
            return f"its {name} is {value!r}, no whole number from 0 to {most - 1}"
    if not 1 <= len(trajectory) <= spaces.horizon:
        return f"it has {len(trajectory)} steps"
    try:
        arrays = {
            spec.name: as_stored(getattr(trajectory, spec.name), spec, spaces)
            for spec in array_specs(spaces, len(trajectory), 1)[:-1]  # all but the lengths
        }
    except ValueError as error:
        return str(error)
    actions = arrays["actions"]
    if spaces.action.kind == "continuous" and (abs(actions) > 1 + ROUNDING).any():
        return f"its actions from {actions.min()} to {actions.max()} leave [-1, 1]"
    if abs(trajectory.total_return) > float(np.finfo(np.float32).max):
        return f"its return of {trajectory.total_return} is more than a float32 holds"
    return None


def is_number(value: Any) -> bool:
    """Tell whether a value is a whole number, of Python or of NumPy."""
    try:
        return operator.index(value) == value and not isinstance(value, (bool, np.bool_))
    except TypeError:
        return False


def expected(spaces: TaskSpaces) -> str:
    """Describe in one line the trajectories that a memory of these spaces holds."""
    state, action = spaces.state, spaces.action
    finite = "finite numbers (no NaN)"
    values = {"discrete": f"whole numbers below {list(state.bins)}", "image": "bytes 0..255"}
    acted = f"whole numbers below {action.size}" if action.kind == "discrete" else "[-1, 1]"
    return (
        f"T = 1..{spaces.horizon} steps: states [T, {', '.join(map(str, state.shape))}] of "
        f"{values.get(state.kind, finite)}, actions {['T', *action.shape]} in {acted}, rewards [T] "
        f"of {finite}".replace("'", "")
    )
