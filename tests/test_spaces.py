"""Spaces that do not exist are refused, and values that cannot be are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radt.spaces import ActionSpace, StateSpace, TaskSpaces, value_problem

GRID = TaskSpaces(StateSpace("discrete", (2,), (3, 4)), ActionSpace("discrete", 2), 5, 1.0)
REACH = TaskSpaces(StateSpace("vector", (2,)), ActionSpace("continuous", 2), 5, 1.0)


@pytest.mark.parametrize("kind", ["box", "Discrete", "continuous", ""])
def test_kinds_that_do_not_exist_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="choose among discrete, vector, image, encoded"):
        StateSpace(kind, (2,))
    if kind != "continuous":
        with pytest.raises(ValueError, match="choose among discrete, continuous"):
            ActionSpace(kind, 2)


@pytest.mark.parametrize(
    ("spaces", "name", "rows", "said"),
    [
        (GRID, "states", [[0, 0], [2, 4]], r"0\.\.\[2, 3\], first at step 1: \[2, 4\]"),
        (GRID, "actions", [0, 1, 2], "first at step 2: 2"),
        (REACH, "actions", [[0, 0], [0, -1.1]], r"leave \[-1, 1\], first at step 1"),
        (REACH, "states", [[0, np.inf]], "not finite numbers, first at step 0"),
        (REACH, "rewards", [0, 1, np.nan], "first at step 2: nan"),
        (REACH, "actions", [[1.0, -1.0]], None),
        (REACH, "states", [[1e9, -5]], None),
    ],
)
def test_the_first_wrong_value_is_named(
    spaces: TaskSpaces, name: str, rows: Any, said: str | None
) -> None:
    problem = value_problem(name, np.array(rows), spaces)
    if said is None:
        assert problem is None
    else:
        with pytest.raises(ValueError, match=said):
            raise ValueError(problem)
