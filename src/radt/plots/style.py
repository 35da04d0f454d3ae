"""How everything looks: the place and colour of each row, plain axes, names at lines' ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from radt.files import atomic_write
from radt.variants import ORDER, registered_row

SPARE_COLOURS = (  # of rows that have none of their own, and of datasets
    *("#A6761D", "#117733", "#D0021B", "#9455E0", "#1B8A99"),
    *("#7A7A00", "#D81B9A", "#6B3410", "#6FA010", "#E8788A"),
)
INK, PALE, FAINT = "#30343F", "#777B86", "#E3E5EA"
OPTIMUM = (0, (6, 4))  # dashes of the best that is possible
DOTS_PER_INCH = 150
TITLE_LETTERS, NOTE_LETTERS = 12, 17  # that fit an inch
LINE_HEIGHT = 0.058  # of a name at a line's end, as a share of the axes


def dashes_of(label: str) -> tuple[float, ...]:
    """Return the dashes of a reference, which learns nothing; of all others none."""
    look = registered_row(label)
    return () if look is None else look.dashes


def in_order(labels: Iterable[str]) -> list[str]:
    """Sort rows as tables show them: learners, others as they come, references."""
    given = list(dict.fromkeys(labels))
    return sorted(given, key=lambda name: (bool(dashes_of(name)), ORDER.get(name, len(ORDER))))


def colour_of(label: str, shown: Sequence[str] = ()) -> str:
    """Return a row's own colour, or a spare one in the order of the picture."""
    looks = {name: registered_row(name) for name in (*shown, label)}
    own = {name: look.colour for name, look in looks.items() if look is not None and look.colour}
    spare = [name for name in looks if name not in own]
    return own.get(label) or SPARE_COLOURS[spare.index(label) % len(SPARE_COLOURS)]


def notes_on(labels: Iterable[str]) -> dict[str, str]:
    """Return what stands under a table about its rows."""
    looks = {label: registered_row(label) for label in labels}
    return {label: look.note for label, look in looks.items() if look is not None and look.note}


@dataclass(frozen=True)
class End:
    """The end of a line and what stands there."""

    label: str
    at: float
    height: float
    colour: str
    rank: float | None = None  # names are stacked by this; None: by height


def canvas(width: float, height: float) -> Figure:
    """Make a figure that no global state knows of."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, title: str, note: str) -> Path:
    """Write a figure as PNG, with a title above and a note below."""
    heading = fill(title, int(TITLE_LETTERS * figure.get_figwidth()))
    figure.suptitle(heading, x=0.01, ha="left", fontsize=11, color=INK)
    lines = fill(note, int(NOTE_LETTERS * figure.get_figwidth()))
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=7.5, color=PALE)
    atomic_write(path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH))
    return path


@dataclass(frozen=True)
class Picture:
    """Panels side by side with a title and a note: as a file, or drawn one by one into a page."""

    panels: Sequence[Callable[[Axes], None]]
    title: str
    note: str
    size: tuple[float, float]  # inches, of all panels together
    widths: Sequence[float] = (1.0,)  # of the panels, relative to each other

    def save(self, path: Path) -> Path:
        figure = canvas(*self.size)
        axes = figure.subplots(1, len(self.panels), squeeze=False, width_ratios=self.widths)[0]
        for draw, place in zip(self.panels, axes, strict=True):
            draw(place)
        return save(figure, path, self.title, self.note)


def draw_line(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], label: str, colour: str
) -> None:
    """Draw a row's line; what learns lies above what does not."""
    dashes = dashes_of(label)
    width, above = (1.1, 3) if dashes else (1.9, 4)
    line: dict[str, Any] = {"linestyle": (0, dashes) if dashes else "-", "solid_capstyle": "round"}
    axes.plot(xs, ys, color=colour, linewidth=width, zorder=above, **line)


def plain_axes(axes: Axes, title: str, across: str) -> None:
    """Take away what is no data, and say what is drawn."""
    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel(across, fontsize=9, color=INK)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9A9EAA")


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Write each line's name beside its end, with a short leader where names had to move."""
    bottom, top = axes.get_ylim()
    left, right = axes.get_xlim()
    gap = LINE_HEIGHT * (top - bottom)
    ranks = [end.height if end.rank is None else end.rank for end in ends]
    places = _inside(spread(ranks, gap), bottom, top + gap)
    for end, place in zip(ends, places, strict=True):
        axes.annotate(
            end.label,
            xy=(end.at, end.height),
            xytext=(right + 0.045 * (right - left), place),
            color=end.colour,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": end.colour,
                "linewidth": 0.6,
                "alpha": 0.7,
                "shrinkA": 0,
                "shrinkB": 1,
                "relpos": (0, 0.5),
            },
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as needed so that they lie at least `gap` apart, order kept."""
    order = np.argsort(heights, kind="stable")
    moved = np.asarray(heights, dtype=np.float64)[order]
    for _ in range(500):
        overlap = gap - np.diff(moved)
        if not (overlap > 1e-9 * gap).any():
            break
        push = np.maximum(overlap, 0.0) / 2.0
        moved[:-1] -= push
        moved[1:] += push
    return [float(height) for height in moved[np.argsort(order)]]


def _inside(places: Sequence[float], bottom: float, top: float) -> list[float]:
    """Shift all places so that the crowd does not leave the axes, as far as it fits."""
    shift = min(0.0, top - max(places)) if max(places) > top else max(0.0, bottom - min(places))
    return [place + shift for place in places]
