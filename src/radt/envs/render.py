"""How a grid world looks, as a picture and as coloured text, and how a robot looks.

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
Cell = tuple[int, int]  # (row, column)
Colour = tuple[int, int, int]

FLOOR: Colour = (24, 28, 43)
WALL: Colour = (98, 106, 138)
LINE: Colour = (42, 48, 70)
TRAIL: Colour = (53, 130, 162)
START: Colour = (148, 156, 187)
GOAL: Colour = (255, 196, 61)
KEY: Colour = (255, 122, 122)
AGENT: Colour = (240, 244, 255)
REWARDED: Colour = (94, 214, 138)  # the agent while it stands on a goal that pays
FADE = 0.94  # how much of its brightness a step of the trail keeps per later step


@dataclass(frozen=True)
class GridView:
    """What there is to see of a grid world at one moment."""

    width: int
    height: int
    agent: Cell
    goal: Cell
    start: Cell
    trail: tuple[Cell, ...] = ()  # cells visited in this episode, oldest first
    caption: str = ""  # a line of text under a terminal view
    key: Cell | None = None  # where a key waits to be taken; without it the goal does not pay
    walls: frozenset[Cell] = frozenset()
    other_goals: tuple[Cell, ...] = ()  # that do not pay now: reached before, or next

    @property
    def is_paid(self) -> bool:
        """Whether the agent stands on a goal that pays."""
        return self.agent == self.goal and self.key is None


def trail_brightness(view: GridView) -> NDArray[np.float64]:
    """Return 1 for the cell just visited, less for older ones, and 0 for cells never visited."""
    brightness = np.zeros((view.height, view.width))
    for age, (row, col) in enumerate(reversed(view.trail)):
        brightness[row, col] = max(brightness[row, col], FADE**age, 0.15)
    return brightness


def draw_grid(view: GridView, pixels: int = 320) -> NDArray[np.uint8]:
    """Paint the grid about `pixels` wide or high, whichever is longer."""
    side = max(6, pixels // max(view.width, view.height))
    canvas = np.empty((view.height * side, view.width * side, 3))
    canvas[:] = FLOOR
    light = trail_brightness(view).repeat(side, axis=0).repeat(side, axis=1)[..., None]
    canvas += 0.75 * light * (np.array(TRAIL) - canvas)
    canvas[::side] = LINE
    canvas[:, ::side] = LINE
    for cell in view.walls:
        _stamp(canvas, cell, np.ones((side, side)), WALL)
    _stamp(canvas, view.start, _disc(side, 0.30) - _disc(side, 0.20), START)
    for cell in view.other_goals:
        _stamp(canvas, cell, _diamond(side, 0.46) - _diamond(side, 0.30), GOAL)
    _stamp(canvas, view.goal, _diamond(side, 0.46), GOAL)
    if view.key is not None:
        _stamp(canvas, view.key, _disc(side, 0.40) - _disc(side, 0.22), KEY)
    _stamp(canvas, view.agent, _disc(side, 0.30), REWARDED if view.is_paid else AGENT)
    return canvas.round().astype(np.uint8)  # [height * side, width * side, 3]


def print_grid(view: GridView, colour: bool = True) -> str:
    """Write the grid as text: ● agent, ◆ goal, ◇ key or other goal, ○ start, • trail, █ wall."""
    light = trail_brightness(view)
    rows = [
        "".join(
            _glyph(view, (row, col), light[row, col], colour) + _gap(view, (row, col))
            for col in range(view.width)
        ).removesuffix(" ")
        for row in range(view.height)
    ]
    edge = "─" * (2 * view.width + 1)
    floor, off = (_ansi(48, FLOOR), "\x1b[0m") if colour else ("", "")
    lines = [f"┌{edge}┐", *(f"│{floor} {row} {off}│" for row in rows), f"└{edge}┘"]
    return "\n".join([*lines, view.caption] if view.caption else lines)


def _glyph(view: GridView, cell: Cell, light: float, colour: bool) -> str:
    """Write one cell, the most important thing on it first."""
    if cell == view.agent:
        sign, ink = "●", REWARDED if view.is_paid else AGENT
    elif cell == view.key:
        sign, ink = "◇", KEY
    elif cell == view.goal:
        sign, ink = "◆", GOAL
    elif cell in view.other_goals:
        sign, ink = "◇", GOAL
    elif cell in view.walls:
        sign, ink = "█", WALL
    elif cell == view.start:
        sign, ink = "○", START
    elif light > 0.0:
        sign, ink = "•", _mix(LINE, TRAIL, 0.3 + 0.7 * light)
    else:
        sign, ink = "·", LINE
    return _ansi(38, ink) + sign if colour else sign


def _gap(view: GridView, cell: Cell) -> str:
    """Write what lies between a cell and the one to its right: walls grow together."""
    right = (cell[0], cell[1] + 1)
    return "█" if {cell, right} <= view.walls else " "


def _ansi(layer: int, ink: Colour) -> str:
    """Return the escape code that sets the colour of the text (38) or of what is behind it (48)."""
    return f"\x1b[{layer};2;{ink[0]};{ink[1]};{ink[2]}m"


def _mix(start: Colour, end: Colour, share: float) -> Colour:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(start, end, strict=True))
    return red, green, blue


def _stamp(
    canvas: NDArray[np.float64], cell: Cell, cover: NDArray[np.float64], ink: Colour
) -> None:
    """Blend a shape of one cell's size into the canvas."""
    side = len(cover)
    top, left = cell[0] * side, cell[1] * side
    patch = canvas[top : top + side, left : left + side]  # [side, side, 3]
    patch += cover[..., None] * (np.array(ink) - patch)


def _offsets(side: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distances of a cell's pixels from its middle, down and across."""
    # The first row and column of a cell are its grid lines, so the middle lies half a pixel on.
    line = np.arange(side, dtype=np.float64) - side / 2.0
    return line[:, None], line[None, :]


def _disc(side: int, radius: float) -> NDArray[np.float64]:
    """Return how much of each pixel a disc covers; `radius` counts in cells."""
    down, across = _offsets(side)
    return np.clip(radius * side + 0.5 - np.hypot(down, across), 0.0, 1.0)


def _diamond(side: int, radius: float) -> NDArray[np.float64]:
    """Return how much of each pixel a diamond covers; `radius` counts in cells."""
    down, across = _offsets(side)
    return np.clip(radius * side + 0.5 - abs(down) - abs(across), 0.0, 1.0)


@dataclass(frozen=True)
class Sketch:
    """Bodies in a plane, seen by a camera that may follow them; x goes to the right and y up."""

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
