"""How everything looks: the place and colour of each method, plain axes, names at lines' ends."""

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

SPARE_COLOURS = ("#A6761D", "#117733", "#882255", "#444444")  # of methods that are not known here
INK, PALE, FAINT = "#30343F", "#777B86", "#E3E5EA"
OPTIMUM = (0, (6, 4))  # dashes of the best that is possible
DOTS_PER_INCH = 150
TITLE_LETTERS, NOTE_LETTERS = 12, 17  # that fit an inch
LINE_HEIGHT = 0.058  # of a name at a line's end, as a share of the axes


@dataclass(frozen=True)
class Look:
    """Where a method stands in tables, and how it is drawn."""

    label: str
    order: int
    colour: str | None  # None: a spare one
    dashes: Any = None  # of a reference: it learns nothing, and its line is thin

    @property
    def is_reference(self) -> bool:
        """Whether it learns nothing and stands below those that do."""
        return self.dashes is not None


# Related methods have related colours; light and dark tell them apart for colour-blind readers, and
# every line carries its name. References are grey.
LOOKS = {
    look.label: look
    for look in (
        Look("dt", 0, "#D55E00"),
        Look("dt-2ep", 1, "#F0A04B"),
        Look("ad", 2, "#009E73"),
        Look("dpt", 3, "#CC79A7"),
        Look("dpt-oracle", 4, "#7B2D5B"),
        Look("ra-dt", 5, "#56B4E9"),
        Look("ra-dt-lm", 6, "#3B2F8F"),
        Look("ra-dt+", 7, "#0067B0"),
        # 8: any other method
        Look("replay", 9, "#6F7480", dashes=(0, (5, 1.5))),
        Look("retrace", 10, "#8B909B", dashes=(0, (3, 1.5, 1, 1.5))),
        Look("sweep", 11, "#A4A8B2", dashes=(0, (1, 1.2))),
    )
}


def look_of(method: str) -> Look:
    """Return how a method is shown; an unknown one stands between learners and references."""
    return LOOKS.get(method, Look(method, 8, None))


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods as tables show them."""
    return sorted(methods, key=lambda name: (look_of(name).order, name))


def colour_of(method: str, shown: Sequence[str] = ()) -> str:
    """Return a method's own colour, or a spare one in the order of the picture."""
    others = [name for name in shown if look_of(name).colour is None]
    return look_of(method).colour or SPARE_COLOURS[others.index(method) % len(SPARE_COLOURS)]


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


@dataclass(frozen=True)
class Picture:
    """Panels side by side with a title and a note: as a file, or drawn one by one into a page."""

    panels: Sequence[Callable[[Axes], None]]
    title: str
    note: str
    size: tuple[float, float]  # inches, of all panels together
    widths: Sequence[float] = (1.0,)  # of the panels, relative to each other

    def save(self, path: Path) -> Path:
        """Write it as PNG."""
        figure = canvas(*self.size)
        axes = figure.subplots(1, len(self.panels), squeeze=False, width_ratios=self.widths)[0]
        for draw, place in zip(self.panels, axes, strict=True):
            draw(place)
        return save(figure, path, self.title, self.note)


def draw_line(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], method: str, colour: str
) -> None:
    """Draw a method's line; what learns lies above what does not."""
    look = look_of(method)
    width, above = (1.1, 3) if look.is_reference else (1.9, 4)
    line: dict[str, Any] = {"linestyle": look.dashes or "-", "solid_capstyle": "round"}
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
