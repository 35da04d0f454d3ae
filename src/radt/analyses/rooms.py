"""Rooms on a figure: an empty room, how often its cells were visited, and ways through it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from radt.envs.render import Cell, GridView
from radt.plots.style import FAINT, INK, PALE

FLOOR, WALL, GOAL = "#F8F9FB", "#9A9EAA", "#E0A100"
HEAT = "Blues"


def draw_room(axes: Axes, view: GridView, title: str) -> None:
    """Draw the floor, the walls, the start and the goals of a room."""
    axes.set_title(title, loc="left", fontsize=8.5, color=INK)
    axes.set_xlim(-0.5, view.width - 0.5)
    axes.set_ylim(view.height - 0.5, -0.5)  # row 0 is on top
    axes.set_aspect("equal")
    axes.set_facecolor(FLOOR)
    axes.set_xticks(np.arange(0.5, view.width - 1), minor=True)
    axes.set_yticks(np.arange(0.5, view.height - 1), minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.6)
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_color("#9A9EAA")
        side.set_linewidth(0.8)
    for row, column in view.walls:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=WALL, linewidth=0))
    _mark(axes, view.start, "o", PALE, hollow=True)
    _mark(axes, view.goal, "D", GOAL)
    for goal in view.other_goals:
        _mark(axes, goal, "D", GOAL, hollow=True)
    if view.key is not None:
        _mark(axes, view.key, "s", GOAL, hollow=True)


def draw_heat(axes: Axes, amount: NDArray[np.float64], top: float) -> None:
    """Colour the cells by amount [height, width]; what is 0 stays as the floor is."""
    shown = np.ma.masked_less_equal(amount, 0.0)
    axes.imshow(shown, cmap=HEAT, norm=Normalize(-0.25 * top, top), zorder=1)


def draw_way(
    axes: Axes, way: NDArray[np.int64] | Sequence[Cell], colour: str, width: float = 1.4
) -> None:
    """Draw the cells (row, column) that were passed, in order, and where they end."""
    rows, columns = np.asarray(way).T
    axes.plot(columns, rows, color=colour, linewidth=width, solid_joinstyle="round", zorder=3)
    axes.plot(columns[-1], rows[-1], marker="o", color=colour, markersize=3 * width, zorder=4)


def count_cells(way: NDArray[np.int64], view: GridView) -> NDArray[np.float64]:
    """Count how often each cell of a room is in a way [T, 2]: [height, width]."""
    counts = np.zeros((view.height, view.width))
    np.add.at(counts, (way[:, 0], way[:, 1]), 1.0)
    return counts


def _mark(axes: Axes, cell: Cell, sign: str, colour: str, hollow: bool = False) -> None:
    face = "none" if hollow else colour
    axes.plot(
        cell[1],
        cell[0],
        marker=sign,
        markersize=5,
        markerfacecolor=face,
        markeredgecolor=colour,
        markeredgewidth=1.2,
        linestyle="none",
        zorder=5,
    )
