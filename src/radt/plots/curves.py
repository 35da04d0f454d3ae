"""In-context learning curves: return by trial and, beside it, goals found by trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.metrics import (
    LATE,
    crossed_interval,
    decimals,
    found_by,
    late_score,
    stratified_interval,
)
from radt.plots.records import (
    REFERENCES,
    Outcome,
    Record,
    RecordError,
    kind_of_tasks,
    outcomes,
    titled,
)
from radt.plots.style import (
    FAINT,
    INK,
    OPTIMUM,
    End,
    canvas,
    colour_of,
    draw_line,
    name_ends,
    plain,
    save,
)

RESAMPLES = 1000
CROWD = 6  # more methods than this get a taller picture and paler bands


def icl_curve(records: Sequence[Record], path: Path, variant: str | None = None) -> Path:
    """Draw the curves of one or more results, on their environment or on a variant of it."""
    shown = outcomes(records, variant)
    if not shown:
        raise RecordError(f"no result was evaluated on {variant}; add it to evaluate.also_on")
    several, crowded = len(shown) > 1, len(shown) > CROWD
    figure = canvas(10.4 if several else 6.2, 4.8 if crowded else 3.9)
    widths = [1.35, 1.0] if several else [1.0]
    panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    draw_returns(panels[0], shown)
    if several:
        draw_found(panels[1], shown)
    return save(figure, path, icl_title(shown, records), icl_note(shown))


def draw_returns(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw the mean return of each trial with its band, and name each line at its end."""
    rng = np.random.default_rng(0)  # the same records give the same picture
    trials, names = shown[0].trials, [outcome.method for outcome in shown]
    trial = np.arange(1, trials + 1)
    ends: list[End] = []
    if len(shown) == 1:
        axes.plot(trial, shown[0].returns.mean(axis=0).T, color=FAINT, linewidth=0.7, zorder=1)
    for outcome in shown:
        colour = colour_of(outcome.method, names)
        mean, low, high = band(outcome, rng)
        if outcome.method not in REFERENCES or len(shown) == 1:
            alpha = 0.10 if len(shown) > CROWD else 0.15
            axes.fill_between(trial, low, high, color=colour, alpha=alpha, linewidth=0, zorder=2)
        draw_line(axes, trial.tolist(), mean.tolist(), outcome.method, colour)
        score = float(late_score(outcome.returns).mean())
        label = f"{outcome.method}  {score:.{decimals(outcome.optimum)}f}"
        ends.append(End(label, trials, float(mean[-1]), colour, rank=score))
    if (optimum := shown[0].optimum) is not None:
        axes.axhline(optimum, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=2)
        ends.append(End(f"optimum  {optimum:.{decimals(optimum)}f}", trials, optimum, INK))
    plain(axes, "return", "trial")
    _trials_across(axes, trials)
    if min(outcome.returns.min() for outcome in shown) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


def draw_found(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw in how many tasks the goal was found by each trial, mean over seeds."""
    tasks, trials = shown[0].tasks, shown[0].trials
    names = [outcome.method for outcome in shown]
    for outcome in shown:
        found = np.mean([found_by(seed, outcome.solved_above) for seed in outcome.returns], axis=0)
        colour = colour_of(outcome.method, names)
        draw_line(axes, range(1, trials + 1), found.tolist(), outcome.method, colour)
    axes.axhline(tasks, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=1)
    plain(axes, f"tasks whose goal was found, of {tasks}", "trial")
    _trials_across(axes, trials)
    axes.set_ylim(0.0, tasks * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def band(
    outcome: Outcome, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each trial's mean and 95 % interval: over seeds, or over tasks with one seed only."""
    interval = stratified_interval if len(outcome.seeds) > 1 else crossed_interval
    found = [interval(outcome.returns[:, :, t], rng, RESAMPLES) for t in range(outcome.trials)]
    mean, low, high = np.array([(i.mean, i.low, i.high) for i in found]).T
    return mean, low, high


def _trials_across(axes: Axes, trials: int) -> None:
    axes.set_xlim(1, trials if trials > 1 else 2)
    axes.set_xticks([1, *range(10, trials + 1, 10)] if trials >= 10 else range(1, trials + 1))


def icl_note(shown: Sequence[Outcome]) -> str:
    """Say what the lines and bands mean."""
    trials = shown[0].trials
    over = "seeds" if min(len(outcome.seeds) for outcome in shown) > 1 else "tasks"
    if {len(outcome.seeds) > 1 for outcome in shown} == {True, False}:
        over = "seeds (tasks where there is one seed)"
    late = f"{max(1, trials - LATE + 1)}-{trials}"
    lines = "lines: mean over tasks and seeds"
    if len(shown) == 1:
        lines = "thin lines: tasks; line: their mean"
    elif any(outcome.method in REFERENCES for outcome in shown):
        lines += ", dashed: references that learn nothing"
    return f"{lines}; bands: 95 % over {over}; numbers: trials {late}"


def icl_title(shown: Sequence[Outcome], records: Sequence[Record]) -> str:
    """Say whose curves these are, where, and over how many tasks and seeds."""
    place = shown[0].env
    kind = kind_of_tasks(records[0]["split"], place)
    where = records[0]["env"] if place == TRAINING_TASKS else place
    seeds = sorted({len(outcome.seeds) for outcome in shown})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
    runs = f"{count} seed{'s' if count != '1' else ''}"
    head = f"{shown[0].method} on " if len(shown) == 1 else ""
    return titled(f"{head}{where}: {shown[0].tasks} {kind}, {runs}", records)
