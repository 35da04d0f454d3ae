"""Sketches of robots as pictures, in the colours of the grids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from radt.envs import render
from radt.envs.render import BodyKind, Floats, Sketch

Place = Callable[[Floats], NDArray[np.float64]]  # where a point of the plane is on the canvas

FINER = 3  # pixels are drawn so much smaller and averaged
MARK = 0.5  # between two marks of a floor
INKS: dict[BodyKind, render.Colour] = {
    "ground": render.WALL,
    "goal": (212, 164, 54),  # darker than on grids, because it can be large
    "object": render.KEY,
    "robot": render.AGENT,
}


def draw_sketch(sketch: Sketch, step: int, pixels: int, paid: bool = False) -> Image.Image:
    """Paint a state with the path that led to it; a robot that was just paid is green."""
    side = FINER * pixels
    scale = side / sketch.size
    corner = sketch.centre[step] + np.array([-0.5, 0.5]) * sketch.size  # upper left
    picture = Image.new("RGB", (side, side), render.FLOOR)
    pen = ImageDraw.Draw(picture)

    def at(places: Floats) -> NDArray[np.float64]:
        return np.asarray((places - corner) * (scale, -scale))

    def draw(*kinds: BodyKind) -> None:
        for body, radius, kind in zip(sketch.bodies[step], sketch.radii, sketch.kinds, strict=True):
            if kind in kinds:
                ink = render.REWARDED if paid and kind == "robot" else INKS[kind]
                _capsule(pen, at(body.reshape(2, 2)), radius * scale, ink, kind != "ground")

    if sketch.floor is not None:
        _floor(pen, at, sketch.floor, sketch.centre[step, 0], sketch.size / 2)
    draw("ground", "goal")
    way = at(sketch.path[: step + 1])
    pen.line([*way.ravel()], fill=render.TRAIL, width=2 * FINER, joint="curve")
    x, y = way[0]
    pen.ellipse(_box(x, y, 5 * FINER), outline=render.START, width=FINER)
    draw("object", "robot")
    pen.rectangle((0, 0, side - 1, side - 1), outline=render.LINE, width=FINER)
    return picture.resize((pixels, pixels), Image.Resampling.BOX)


def _floor(pen: ImageDraw.ImageDraw, at: Place, height: float, middle: float, half: float) -> None:
    """Draw a floor with marks, so that it can be seen to pass by."""
    low, high = middle - half, middle + half
    marks = np.arange(np.ceil(low / MARK), np.floor(high / MARK) + 1) * MARK
    ends = [(low, height, high, height), *((x, height, x, height - 0.05) for x in marks)]
    for line in np.array(ends).reshape(-1, 2, 2):
        pen.line([*at(line).ravel()], fill=render.WALL, width=FINER)


def _capsule(
    pen: ImageDraw.ImageDraw,
    ends: NDArray[np.float64],
    radius: float,
    ink: render.Colour,
    edged: bool,
) -> None:
    """Fill a body; a dark edge tells limbs apart."""
    radius = max(radius, 2.0 * FINER if edged else 0.5 * FINER)
    layers = [(radius + FINER, render.FLOOR), (radius, ink)] if edged else [(radius, ink)]
    for thick, colour in layers:
        pen.line([*ends.ravel()], fill=colour, width=round(2 * thick))
        for x, y in ends:
            pen.ellipse(_box(x, y, thick), fill=colour)


def _box(x: float, y: float, radius: float) -> tuple[float, float, float, float]:
    return x - radius, y - radius, x + radius, y + radius
