"""The dial from sampling to retrieval: cause, ceiling and score of each arm, paired over folds.

Made of tries: one row for each arm and fold, whatever folds are there. What is paired with the arm
that samples is the difference on the same fold, or on the same held-out task of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from radt.experiments.experiment import Row
from radt.experiments.pictures import Point, draw_series
from radt.metrics import crossed_interval
from radt.plots.style import Picture, plain_axes

SAMPLED = "ra-dt@pool-1"
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # 97.5 % of Student's t for so many folds
Values = Mapping[tuple[int, str], float]  # by fold and task, or by fold alone

MEASURES: dict[str, Callable[[Row], Mapping[str, float]]] = {  # of one fold, by task
    "correlation": lambda row: _known("", (row["prepared"] or {}).get("return_correlation")),
    "failing, %": lambda row: _known("", _percent(row["prepared"] or {})),
    "ceiling": lambda row: _known("", (row["controls"] or {}).get("oracle")),
    "score": lambda row: row["per_task"] or _known("", row["score"]),
    "rewarded only": lambda row: _known("", (row["controls"] or {}).get("rewarded-only")),
    "erased": lambda row: _known("", (row["controls"] or {}).get("erased")),
}
PAIRED = ("score", "rewarded only", "ceiling")
PANELS = {  # of the picture: title, and which measures by what a legend calls them
    "correlation of returns": {"": "correlation"},
    "failing chunks beside good windows, %": {"": "failing, %"},
    "reading ceiling": {"": "ceiling"},
    "score": {"storing all": "score", "storing rewarded trials only": "rewarded only"},
}


def _percent(prepared: Mapping[str, float]) -> float | None:
    share = prepared.get("failures_beside_good")
    return None if share is None else 100 * share


def _known(task: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {task: value}


def values_of(rows: Sequence[Row], label: str, measure: str) -> Values:
    """Collect a measure of one arm over folds and held-out tasks."""
    own = [row for row in rows if (row["label"], row["tasks"]) == (label, "tune")]
    return {
        (row["fold"], task): value for row in own for task, value in MEASURES[measure](row).items()
    }


def against(one: Values, other: Values) -> tuple[float, float | None] | None:
    """Return the paired difference and half of its interval, as far as that is known."""
    apart = np.array([one[key] - other[key] for key in one if key in other])
    if not len(apart):
        return None
    if len(apart) > len(STUDENT) + 1:  # tasks
        found = crossed_interval(apart[None], np.random.default_rng(0))
        return found.mean, (found.high - found.low) / 2
    half = STUDENT[len(apart)] * apart.std(ddof=1) / sqrt(len(apart)) if len(apart) > 1 else None
    return float(apart.mean()), half


def labels_of(rows: Sequence[Row]) -> list[str]:
    """Name the arms in their order."""
    return list(dict.fromkeys(row["label"] for row in rows))


def dial_summary(rows: Sequence[Row]) -> list[Row]:
    """Make a line of each arm: its measures, and how they differ from those of sampling."""
    return [_line(rows, label) for label in labels_of(rows)]


def _line(rows: Sequence[Row], label: str) -> Row:
    folds = {row["fold"] for row in rows if row["label"] == label}
    line: Row = {"arm": f"`{label}`", "folds": len(folds)}
    for measure in MEASURES:
        own = values_of(rows, label, measure)
        line[measure] = float(np.mean(list(own.values()))) if own else None
        if measure in PAIRED:
            apart = against(own, values_of(rows, SAMPLED, measure))
            line[f"{measure} against pool-1"] = None if label == SAMPLED else _signed(apart)
    return line


def _signed(apart: tuple[float, float | None] | None) -> str | None:
    if apart is None:
        return None
    mean, half = apart
    return f"{mean:+.1f}" + ("" if half is None else f" ± {half:.1f}")


def dial_picture(ticks: Mapping[str, str]) -> Callable[[Sequence[Row], Path], Path]:
    """Say how the dial is drawn: some arms in their order, by what they search."""

    def point(rows: Sequence[Row], label: str, measure: str) -> Point | None:
        own = values_of(rows, label, measure)
        if not own:
            return None
        apart = against(own, values_of(rows, SAMPLED, measure))
        half = 0.0 if apart is None or label == SAMPLED else apart[1] or 0.0
        return float(np.mean(list(own.values()))), half, half

    def panel(axes: Axes, rows: Sequence[Row], title: str, measures: Mapping[str, str]) -> None:
        plain_axes(axes, title, "episodes that are searched")
        series = {
            name: [point(rows, label, measure) for label in ticks]
            for name, measure in measures.items()
        }
        draw_series(axes, list(ticks.values()), series)

    def draw(rows: Sequence[Row], file: Path) -> Path:
        panels = [partial(panel, rows=rows, title=t, measures=m) for t, m in PANELS.items()]
        folds = len({row["fold"] for row in rows})
        title = f"{rows[0]['env']}: from sampling a chunk of the own task to retrieving it"
        note = (
            f"held-out training tasks, {folds} {'fold' if folds == 1 else 'folds'}, rule paper; "
            "bars: half of the 95 % interval of the paired difference to a pool of 1, over tasks "
            "where each is known, else over folds"
        )
        return Picture(panels, title, note, (15.0, 3.8), (1.0,) * len(panels)).save(file)

    return draw
