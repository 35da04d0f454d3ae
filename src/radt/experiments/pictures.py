"""Pictures of experiments that tables and curves leave out: arms side by side, and dials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from radt.experiments.experiment import Row
from radt.plots.style import FAINT, INK, PALE, SPARE_COLOURS, Picture, plain_axes

Point = tuple[float, float, float]  # mean, and how far its interval goes below and above


def arms_picture(rows: Sequence[Row], file: Path) -> Path:
    """Draw the score of each row with its interval, rule by rule; the first is what changed."""
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    labels = list(dict.fromkeys(row["label"] for row in rows))
    shown = {rule: [row for row in rows if row["rule"] == rule] for rule in rules}

    def panel(rule: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            for row in shown[rule]:
                place, first = -labels.index(row["label"]), row["label"] == labels[0]
                low, high = row["ci95"]
                axes.plot([low, high], [place, place], color=INK if first else PALE, linewidth=1.4)
                axes.plot(row["score"], place, "o", color=INK if first else SPARE_COLOURS[4])
                if first:
                    axes.axvline(row["score"], color=FAINT, linewidth=1.2, zorder=0)
            plain_axes(axes, f"rule {rule}" if rule else "no rule", "score")
            axes.set_yticks([-n for n, _ in enumerate(labels)], labels)
            axes.set_ylim(-len(labels) + 0.4, 0.6)
            axes.grid(axis="x", color=FAINT, linewidth=0.7)

        return draw

    env, tasks = rows[0]["env"], rows[0]["tasks"]
    note = "mean return of late trials; lines: 95 % over seeds within tasks, or over tasks"
    size = (3.6 * len(rules) + 1.0, 1.4 + 0.28 * len(labels))
    panels = [panel(rule) for rule in rules]
    title = f"{env}, {tasks} tasks"
    return Picture(panels, title, note, size, (1.0,) * len(panels)).save(file)


def draw_series(
    axes: Axes, ticks: Sequence[str], series: Mapping[str, Sequence[Point | None]]
) -> None:
    """Draw lines over named places, with intervals; a point that is not measured is left out."""
    for (name, points), colour in zip(series.items(), SPARE_COLOURS, strict=False):
        known = [(place, *point) for place, point in enumerate(points) if point is not None]
        if not known:
            continue
        at, mean, below, above = zip(*known, strict=True)
        axes.errorbar(
            at,
            mean,
            [below, above],
            color=colour,
            marker="o",
            markersize=4,
            linewidth=1.6,
            elinewidth=1.0,
            label=name,
        )
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlim(-0.4, len(ticks) - 0.6)
    if len(series) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)
