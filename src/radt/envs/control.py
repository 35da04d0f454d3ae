"""What tasks of simulations share: their spaces, and actions that are checked and clipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.vector import Floats, TaskVec
from radt.spaces import TaskSpaces, value_problem


class ControlVec(TaskVec):
    """Many tasks at once, one slot each."""

    def __init__(
        self,
        tasks: Sequence[int],
        spaces: TaskSpaces,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        bound: float = np.inf,  # of the numbers of a state
    ) -> None:
        self.spaces = spaces
        own = spaces.state.in_gymnasium(bound), spaces.action.in_gymnasium()
        super().__init__(tasks, *own, spaces.horizon, autoreset_mode)

    def checked(self, actions: Any, slots: tuple[int, ...]) -> Floats:
        """Refuse actions of another shape or type, outside of their range or not finite."""
        given: NDArray[Any] = np.asarray(actions)
        shape = (*slots, *self.spaces.action.shape)
        discrete = self.spaces.action.kind == "discrete"
        words, kinds, usual = (
            ("integers", "iu", "int64") if discrete else ("floats", "f", "float32")
        )
        if given.shape != shape or given.dtype.kind not in kinds:
            raise ValueError(
                f"expected actions as {words} of shape {shape}, got {given.dtype} of shape "
                f"{given.shape}; build them as np.zeros({shape}, np.{usual})"
            )
        rows = given.reshape(-1, *self.spaces.action.shape)
        if problem := value_problem("actions", rows, self.spaces, "slot"):
            mend = "" if discrete else "; clip actions to [-1, 1] and find out where NaN comes from"
            raise ValueError(f"{problem}{mend}")
        return given if discrete else np.asarray(np.clip(given, -1.0, 1.0))


def check_tasks(tasks: Sequence[int], known: int, name: str) -> None:
    """Refuse numbers that are no task."""
    for task in tasks:
        if not 0 <= task < known:
            raise ValueError(f"{name} has tasks 0 to {known - 1}, not {task}")
