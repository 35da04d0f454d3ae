"""How a robot looks: bodies in a plane, seen by a camera that may follow them.

A suite whose states are no cells of a grid may say with one method, `sketch`, where its bodies are
(`SketchedSuite`). Films of reports, the viewer and the analyses draw that in their own ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
BodyKind = Literal["ground", "goal", "object", "robot"]


@dataclass(frozen=True)
class Sketch:
    """The states of a trial, drawn; x goes to the right and y up."""

    path: Floats  # [T, 2] the point whose way is traced: a hand, a torso, the robot itself
    bodies: Floats  # [T, n, 4] from (x, y) to (x, y), round at both ends
    radii: tuple[float, ...]  # [n]
    kinds: tuple[BodyKind, ...]  # [n]
    centre: Floats  # [T, 2] the middle of what the camera sees
    size: float  # the width and the height of it
    floor: float | None = None  # the height of a floor, where there is one


def discs(places: Floats) -> Floats:
    """Make bodies without length of places, [..., 2] -> [..., 4]."""
    return np.concatenate([places, places], axis=-1)
