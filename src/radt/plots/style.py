"""How every picture looks: colours that a method keeps, plain axes, names where lines end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from radt.files import atomic_write
from radt.plots.records import REFERENCES

# Related methods have related colours; light and dark tell them apart for colour-blind readers, and
# every line carries its name. References, which learn nothing, are grey, thin and dashed.
COLOURS = {
    "dt": "#D55E00",
    "dt-2ep": "#F0A04B",
    "ad": "#009E73",
    "dpt": "#CC79A7",
    "dpt-oracle": "#7B2D5B",
    "ra-dt": "#56B4E9",
    "ra-dt-lm": "#3B2F8F",
    "ra-dt+": "#0067B0",
    "replay": "#6F7480",
    "retrace": "#8B909B",
    "sweep": "#A4A8B2",
}
SPARE_COLOURS = ("#A6761D", "#117733", "#882255", "#444444")
DASHES = {"replay": (0, (5, 1.5)), "retrace": (0, (3, 1.5, 1, 1.5)), "sweep": (0, (1, 1.2))}
INK, PALE, FAINT = "#30343F", "#777B86", "#E3E5EA"
OPTIMUM = (0, (6, 4))  # dashes of the best that is possible
DOTS_PER_INCH = 150
TITLE_LETTERS, NOTE_LETTERS = 12, 17  # that fit an inch
LINE_HEIGHT = 0.058  # of a name at a line's end, as a share of the axes


@dataclass(frozen=True)
class End:
    """The end of a line and what stands there."""

    label: str
    at: float
    height: float
    colour: str
    rank: float | None = None  # names are stacked by this; None: by height

    @property
    def order(self) -> float:
        """What decides which name stands higher."""
        return self.height if self.rank is None else self.rank


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


def colour_of(method: str, shown: Sequence[str]) -> str:
    """Return a method's own colour, or a spare one in the order of the picture."""
    if method in COLOURS:
        return COLOURS[method]
    others = [name for name in shown if name not in COLOURS]
    return SPARE_COLOURS[others.index(method) % len(SPARE_COLOURS)]


def draw_line(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], method: str, colour: str
) -> None:
    """Draw a method's line; what learns lies above what does not."""
    thin = method in REFERENCES
    axes.plot(
        xs,
        ys,
        color=colour,
        linewidth=1.1 if thin else 1.9,
        linestyle=DASHES.get(method, "-"),
        zorder=3 if thin else 4,
        solid_capstyle="round",
    )


def plain(axes: Axes, title: str, across: str) -> None:
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
    places = spread([end.order for end in ends], gap)
    places = _inside(places, bottom, top + gap)
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
    placed = np.empty_like(moved)
    placed[order] = moved
    return [float(height) for height in placed]


def _inside(places: Sequence[float], bottom: float, top: float) -> list[float]:
    """Shift all places so that the crowd does not leave the axes, as far as it fits."""
    shift = min(0.0, top - max(places)) if max(places) > top else max(0.0, bottom - min(places))
    return [place + shift for place in places]
