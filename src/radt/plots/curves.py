"""Curves: return and tasks solved by trial (in context), and return by update (over training)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.metrics import (
    LATE,
    crossed_interval,
    decimals,
    late_score,
    solved_by,
    stratified_interval,
)
from radt.plots.records import (
    Outcome,
    Record,
    RecordError,
    by_method,
    digits_of,
    kind_of_tasks,
    outcomes,
    titled,
    variants,
)
from radt.plots.style import (
    FAINT,
    INK,
    OPTIMUM,
    End,
    Picture,
    colour_of,
    draw_line,
    look_of,
    name_ends,
    plain_axes,
)

LEARNING = "learning.png"
RESAMPLES = 1000
CROWD = 6  # more methods than this get a taller picture and paler bands

LearningCurve = dict[int, float]  # the return of the last validation trial by update


def icl_picture(records: Sequence[Record], variant: str | None = None) -> Picture:
    """Draw the curves of one or more results, on their environment or on a variant of it."""
    shown = outcomes(records, variant)
    if not shown:
        raise RecordError(f"no result was evaluated on {variant}; add it to evaluate.also_on")
    title, note = icl_title(shown, records), icl_note(shown)
    returns, found = partial(draw_returns, shown=shown), partial(draw_found, shown=shown)
    if len(shown) == 1:
        return Picture([returns], title, note, (6.2, 3.9))
    size = (10.4, 4.8 if len(shown) > CROWD else 3.9)
    return Picture([returns, found], title, note, size, widths=(1.35, 1.0))


def icl_pictures(records: Sequence[Record], name: str) -> dict[str, Picture]:
    """Draw all there is, by file: `<name>.png`, and `<name>-<variant>.png` for each variant."""
    others = {f"{name}-{env}.png": icl_picture(records, env) for env in variants(records)}
    return {f"{name}.png": icl_picture(records), **others}


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
        if not look_of(outcome.method).is_reference or len(shown) == 1:
            alpha = 0.10 if len(shown) > CROWD else 0.15
            axes.fill_between(trial, low, high, color=colour, alpha=alpha, linewidth=0, zorder=2)
        draw_line(axes, trial.tolist(), mean.tolist(), outcome.method, colour)
        score = float(late_score(outcome.returns).mean())
        label = f"{outcome.method}  {score:.{decimals(outcome.optimum)}f}"
        ends.append(End(label, trials, float(mean[-1]), colour, rank=score))
    if (optimum := shown[0].optimum) is not None:
        axes.axhline(optimum, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=2)
        ends.append(End(f"optimum  {optimum:.{decimals(optimum)}f}", trials, optimum, INK))
    plain_axes(axes, "return", "trial")
    _trials_across(axes, trials)
    if min(outcome.returns.min() for outcome in shown) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


def draw_found(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw how many tasks are solved by each trial, mean over seeds."""
    tasks, trials = shown[0].tasks, shown[0].trials
    names = [outcome.method for outcome in shown]
    for outcome in shown:
        found = np.mean([solved_by(seed, outcome.solved_above) for seed in outcome.returns], axis=0)
        colour = colour_of(outcome.method, names)
        draw_line(axes, range(1, trials + 1), found.tolist(), outcome.method, colour)
    axes.axhline(tasks, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=1)
    plain_axes(axes, f"tasks solved, of {tasks}", "trial")
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
    elif any(look_of(outcome.method).is_reference for outcome in shown):
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


def has_learning(records: Sequence[Record]) -> bool:
    """Tell whether any record has looked at validation tasks during training."""
    return any(record.get("learning") for record in records)


def learning_picture(records: Sequence[Record]) -> Picture:
    """Draw the return of the last validation trial by update, a line per method."""
    title = titled(f"{records[0]['env']}: learning over training", records)
    draw = partial(draw_learning, shown=learning_of(records), digits=digits_of(records))
    return Picture([draw], title, learning_note(records), (7.2, 3.9))


def learning_of(records: Sequence[Record]) -> dict[str, list[LearningCurve]]:
    """Collect the curves of each method's seeds, of those methods that have any."""
    shown = {
        method: [last_trials(record["learning"]) for record in same if record.get("learning")]
        for method, same in by_method(records).items()
    }
    return {method: curves for method, curves in shown.items() if curves}


def last_trials(looks: Sequence[dict[str, Any]]) -> LearningCurve:
    """Take the last trial of every look at validation tasks."""
    return {int(look["update"]): float(look[last_trial(look)]) for look in looks}


def last_trial(look: dict[str, Any]) -> str:
    """Name the last trial of a look, such as `trial_10`."""
    return max((n for n in look if n.startswith("trial_")), key=lambda name: int(name[6:]))


def draw_learning(axes: Axes, shown: dict[str, list[LearningCurve]], digits: int) -> None:
    """Draw seeds thin and their mean, as far as all of them have looked, thick."""
    ends = []
    for method, curves in shown.items():
        colour = colour_of(method, list(shown))
        for seed in curves if len(curves) > 1 else []:
            axes.plot(list(seed), list(seed.values()), color=colour, linewidth=0.7, alpha=0.45)
        thick = mean_curve(curves)
        axes.plot(*thick, color=colour, linewidth=1.9, marker="o", markersize=3.5)
        if thick[0]:
            end = (thick[0][-1], thick[1][-1])
            ends.append(End(f"{method}  {end[1]:.{digits}f}", *end, colour))
    plain_axes(axes, "return on validation tasks", "update")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(0, max(update for curves in shown.values() for c in curves for update in c))
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
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
