"""Curves of training: return on validation tasks by update."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from radt.plots.records import Record, by_label, digits_of, titled
from radt.plots.style import End, Picture, colour_of, name_ends, plain_axes

LEARNING = "learning.png"

LearningCurve = dict[int, float]  # the return of the last validation trial by update


def has_learning(records: Sequence[Record]) -> bool:
    """Tell whether any record has looked at validation tasks during training."""
    return any(record.get("learning") for record in records)


def learning_picture(records: Sequence[Record]) -> Picture:
    """Draw the return of the last validation trial by update, a line per row."""
    title = titled(f"{records[0]['env']}: learning over training", records)
    draw = partial(draw_learning, shown=learning_of(records), digits=digits_of(records))
    return Picture([draw], title, learning_note(records), (7.2, 3.9))


def learning_of(records: Sequence[Record]) -> dict[str, list[LearningCurve]]:
    """Collect the curves of each row's seeds, of those rows that have any."""
    shown = {
        label: [last_trials(record["learning"]) for record in same if record.get("learning")]
        for label, same in by_label(records).items()
    }
    return {label: curves for label, curves in shown.items() if curves}


def last_trials(looks: Sequence[dict[str, Any]]) -> LearningCurve:
    """Take the last trial of every look at validation tasks."""
    return {int(look["update"]): float(look[last_trial(look)]) for look in looks}


def last_trial(look: dict[str, Any]) -> str:
    """Name the last trial of a look, such as `trial_10`."""
    return max((n for n in look if n.startswith("trial_")), key=lambda name: int(name[6:]))


def draw_learning(axes: Axes, shown: dict[str, list[LearningCurve]], digits: int) -> None:
    """Draw seeds thin and their mean, as far as all of them have looked, thick."""
    ends = []
    for label, curves in shown.items():
        colour = colour_of(label, list(shown))
        for seed in curves if len(curves) > 1 else []:
            axes.plot(list(seed), list(seed.values()), color=colour, linewidth=0.7, alpha=0.45)
        thick = mean_curve(curves)
        axes.plot(*thick, color=colour, linewidth=1.9, marker="o", markersize=3.5)
        if thick[0]:
            end = (thick[0][-1], thick[1][-1])
            ends.append(End(f"{label}  {end[1]:.{digits}f}", *end, colour))
    plain_axes(axes, "return on validation tasks", "update")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(0, max(update for curves in shown.values() for c in curves for update in c))
    if min(value for curves in shown.values() for c in curves for value in c.values()) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


def mean_curve(curves: Sequence[LearningCurve]) -> tuple[list[int], list[float]]:
    """Average seeds between the first and the last update that all have looked at.

    Seeds may have looked at other updates; in between a line is straight.
    """
    first, last = max(map(min, curves)), min(map(max, curves))
    looked = sorted({update for seed in curves for update in seed if first <= update <= last})
    each = [np.interp(looked, sorted(seed), [seed[at] for at in sorted(seed)]) for seed in curves]
    return looked, np.mean(each, axis=0).tolist()


def learning_note(records: Sequence[Record]) -> str:
    """Say which trial is shown and what the lines are."""
    trials = {last_trial(look)[6:] for r in records for look in r.get("learning") or []}
    final = records[0]["split"] == "final"
    seen = "; these tasks are among those trained on" if final else ""
    return f"trial {'/'.join(sorted(trials))}; thick: mean over seeds, thin: seeds{seen}"
