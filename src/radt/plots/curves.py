"""In-context learning curves: return by trial and, beside it, goals found by trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from radt.files import atomic_write
from radt.metrics import LATE, found_by, late_score, nested_interval, stratified_interval
from radt.plots.records import Outcome, Record, RecordError, outcomes

# Okabe and Ito's palette, which colour-blind readers can tell apart; a method keeps its colour.
COLOURS = {
    "dt": "#D55E00",
    "ra-dt": "#56B4E9",
    "ra-dt+": "#0072B2",
    "replay": "#009E73",
    "retrace": "#CC79A7",
    "sweep": "#7A7A7A",
}
SPARE_COLOURS = ("#E69F00", "#A6761D", "#332288", "#882255")
REFERENCES = ("replay", "retrace", "sweep")  # learn nothing: drawn thinner
INK, PALE, FAINT = "#30343F", "#777B86", "#E3E5EA"
RESAMPLES = 1000
DOTS_PER_INCH = 150


def icl_curve(records: Sequence[Record], path: Path, variant: str | None = None) -> Path:
    """Draw the curves of one or more results, on their environment or on a variant of it."""
    shown = outcomes(records, variant)
    if not shown:
        raise RecordError(f"no result was evaluated on {variant}; add it to evaluate.also_on")
    several = len(shown) > 1
    figure = Figure(figsize=(9.6, 3.9) if several else (6.2, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    widths = [1.25, 1.0] if several else [1.0]
    panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    draw_returns(panels[0], shown)
    if several:
        draw_found(panels[1], shown)
    figure.suptitle(
        _title(shown, str(records[0]["split"])), x=0.01, ha="left", fontsize=11, color=INK
    )
    figure.supxlabel(_note(shown), x=0.01, ha="left", fontsize=7.5, color=PALE)
    atomic_write(path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH))
    return path


def draw_returns(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw the mean return of each trial with its band, and name each line at its end."""
    rng = np.random.default_rng(0)  # the same records give the same picture
    trials = shown[0].trials
    trial = np.arange(1, trials + 1)
    ends: list[tuple[str, float, str]] = []  # label, height, colour
    if len(shown) == 1:
        axes.plot(trial, shown[0].returns.mean(axis=0).T, color=FAINT, linewidth=0.7, zorder=1)
    for outcome in shown:
        colour = colour_of(outcome.method, shown)
        mean, low, high = band(outcome, rng)
        axes.fill_between(trial, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)
        _line(axes, outcome.method, mean, colour)
        score = float(late_score(outcome.returns).mean())
        ends.append((f"{outcome.method}  {score:.1f}", float(mean[-1]), colour))
    if (optimum := shown[0].optimum) is not None:
        axes.axhline(optimum, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=2)
        ends.append((f"optimum  {optimum:.1f}", optimum, INK))
    _plain(axes, trials, "return")
    if min(outcome.returns.min() for outcome in shown) >= 0:
        axes.set_ylim(bottom=0.0)
    _name_ends(axes, trials, ends)


def draw_found(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw in how many tasks something was rewarded by each trial, mean over seeds."""
    tasks, trials = shown[0].tasks, shown[0].trials
    for outcome in shown:
        found = np.mean([found_by(seed) for seed in outcome.returns], axis=0)  # [trial]
        _line(axes, outcome.method, found, colour_of(outcome.method, shown))
    axes.axhline(tasks, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    _plain(axes, trials, f"goals found, of {tasks}")
    axes.set_ylim(0.0, tasks * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def band(
    outcome: Outcome, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each trial's mean and 95 % interval: over seeds, or over tasks with one seed only."""
    interval = stratified_interval if len(outcome.seeds) > 1 else nested_interval
    found = [interval(outcome.returns[:, :, t], rng, RESAMPLES) for t in range(outcome.trials)]
    mean, low, high = np.array([(i.mean, i.low, i.high) for i in found]).T
    return mean, low, high


def colour_of(method: str, shown: Sequence[Outcome]) -> str:
    """Return a method's own colour, or a spare one in the order of the picture."""
    if method in COLOURS:
        return COLOURS[method]
    others = [outcome.method for outcome in shown if outcome.method not in COLOURS]
    return SPARE_COLOURS[others.index(method) % len(SPARE_COLOURS)]


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as needed so that they lie at least `gap` apart, order kept."""
    order = np.argsort(heights, kind="stable")
    moved = np.asarray(heights, dtype=np.float64)[order]
    for _ in range(200):
        overlap = gap - np.diff(moved)
        if not (overlap > 1e-9 * gap).any():
            break
        push = np.maximum(overlap, 0.0) / 2.0
        moved[:-1] -= push
        moved[1:] += push
    placed = np.empty_like(moved)
    placed[order] = moved
    return [float(height) for height in placed]


def _line(axes: Axes, method: str, values: NDArray[np.float64], colour: str) -> None:
    """Draw one value a trial; what learns lies above what does not."""
    width, height = (1.2, 3) if method in REFERENCES else (2.0, 4)
    axes.plot(np.arange(1, len(values) + 1), values, color=colour, linewidth=width, zorder=height)


def _name_ends(axes: Axes, trials: int, ends: Sequence[tuple[str, float, str]]) -> None:
    """Write each line's name where it ends, with a short leader where names had to move."""
    bottom, top = axes.get_ylim()
    places = spread([height for _, height, _ in ends], gap=0.062 * (top - bottom))
    for (label, height, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            label,
            xy=(trials, height),
            xytext=(trials * 1.04, place),
            color=colour,
            fontsize=8.5,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 1,
                "relpos": (0, 0.5),
            },
        )


def _plain(axes: Axes, trials: int, quantity: str) -> None:
    """Take away what is no data, and say what is drawn."""
    axes.set_title(quantity, loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel("trial", fontsize=9, color=INK)
    axes.set_xlim(1, trials if trials > 1 else 2)
    axes.set_xticks([1, *range(10, trials + 1, 10)] if trials >= 10 else range(1, trials + 1))
    axes.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9A9EAA")


def _note(shown: Sequence[Outcome]) -> str:
    trials = shown[0].trials
    over = "seeds" if min(len(outcome.seeds) for outcome in shown) > 1 else "tasks"
    if {len(outcome.seeds) > 1 for outcome in shown} == {True, False}:
        over = "seeds (tasks where there is one seed)"
    late = f"{max(1, trials - LATE + 1)}-{trials}"
    thin = "thin lines: tasks; " if len(shown) == 1 else ""
    return (
        f"{thin}lines: mean over tasks and seeds; bands: 95 % over {over}; numbers: trials {late}"
    )


def _title(shown: Sequence[Outcome], split: str) -> str:
    kind = "unseen" if split == "final" else "validation"
    seeds = sorted({len(outcome.seeds) for outcome in shown})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
    runs = f"{count} seed{'s' if count != '1' else ''}"
    head = f"{shown[0].method} on " if len(shown) == 1 else ""
    return f"{head}{shown[0].env}: {shown[0].tasks} {kind} tasks, {runs}"
