"""Curves: return by trial, what memory buys, tasks solved, and validation over training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.metrics import (
    Interval,
    crossed_interval,
    late_score,
    late_trials,
    solved_by,
    stratified_interval,
)
from radt.plots.records import (
    Outcome,
    Record,
    RecordError,
    by_label,
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
    dashes_of,
    draw_line,
    name_ends,
    plain_axes,
)

RESAMPLES = 1000
LEARNING = "learning.png"
CROWD = 6  # more rows than this get a taller picture and paler bands

LearningCurve = dict[int, float]  # the return of the last validation trial by update


def icl_picture(records: Sequence[Record], variant: str | None = None) -> Picture:
    """Draw the curves of one or more results, on their environment or on a variant of it."""
    shown = outcomes(records, variant)
    if not shown:
        raise RecordError(f"no result was evaluated on {variant}; add it to evaluate.also_on")
    title, note = icl_title(shown, records), icl_note(shown)
    returns, found = partial(draw_returns, shown=shown), partial(draw_found, shown=shown)
    height = 4.8 if len(shown) > CROWD else 3.9
    if len(shown) == 1 or shown[0].solved_above is None:
        return Picture([returns], title, note, (6.2 if len(shown) == 1 else 7.2, height))
    return Picture([returns, found], title, note, (10.4, height), widths=(1.35, 1.0))


def icl_pictures(records: Sequence[Record], name: str) -> dict[str, Picture]:
    """Draw all there is, by file: `<name>.png`, what memory buys, and a picture per variant."""
    memory = memory_picture(records)
    bought = {} if memory is None else {f"{name}-memory.png": memory}
    others = {f"{name}-{env}.png": icl_picture(records, env) for env in variants(records)}
    return {f"{name}.png": icl_picture(records), **bought, **others}


def memory_picture(records: Sequence[Record]) -> Picture | None:
    """Draw rows beside their erased control, and what memory buys; None: not measured."""
    shown = [outcome for outcome in outcomes(records) if "erased" in outcome.controls]
    if not shown:
        return None
    title = icl_title(shown, records).replace(": ", ", what memory buys: ", 1)
    note = (
        "solid: with memory, dotted: with one that is erased before each trial; bought: the "
        "difference, paired by task and seed, with 95 % over tasks and seeds together; "
        f"numbers: {_late(shown[0].trials)}"
    )
    panels = [partial(draw_erased, shown=shown), partial(draw_bought, shown=shown)]
    height = 4.8 if len(shown) > CROWD else 3.9
    return Picture(panels, title, note, (11.2, height), widths=(1.0, 1.0))


def draw_returns(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw the mean return of each trial with its band, and name each line at its end."""
    rng = np.random.default_rng(0)  # the same records give the same picture
    trials, names = shown[0].trials, [outcome.label for outcome in shown]
    trial = np.arange(1, trials + 1)
    ends: list[End] = []
    if len(shown) == 1:
        axes.plot(trial, shown[0].returns.mean(axis=0).T, color=FAINT, linewidth=0.7, zorder=1)
    for outcome in shown:
        colour = colour_of(outcome.label, names)
        mean, low, high = band(outcome, rng)
        if not dashes_of(outcome.label) or len(shown) == 1:
            alpha = 0.10 if len(shown) > CROWD else 0.15
            axes.fill_between(trial, low, high, color=colour, alpha=alpha, linewidth=0, zorder=2)
        draw_line(axes, trial.tolist(), mean.tolist(), outcome.label, colour)
        score = float(late_score(outcome.returns).mean())
        label = f"{outcome.label}  {score:.{outcome.digits}f}"
        ends.append(End(label, trials, float(mean[-1]), colour, rank=score))
    if (optimum := shown[0].optimum) is not None:
        axes.axhline(optimum, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=2)
        ends.append(End(f"optimum  {optimum:.{shown[0].digits}f}", trials, optimum, INK))
    trial_axes(axes, "return", trials)
    if min(outcome.returns.min() for outcome in shown) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


def draw_erased(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw the mean return of each trial with a memory, and with one that is erased."""
    trial = np.arange(1, shown[0].trials + 1)
    names = [outcome.label for outcome in shown]
    ends: list[End] = []
    for outcome in shown:
        colour, erased = colour_of(outcome.label, names), outcome.controls["erased"]
        with_memory = outcome.returns.mean(axis=(0, 1))  # [trial]
        without = erased.returns.mean(axis=(0, 1))
        axes.plot(trial, with_memory, color=colour, linewidth=1.9, zorder=4)
        axes.plot(trial, without, color=colour, linewidth=1.4, linestyle=(0, (1, 1.2)), zorder=3)
        for of, name, line in (
            (outcome, outcome.label, with_memory),
            (erased, f"{outcome.label} erased", without),
        ):
            score = float(late_score(of.returns).mean())
            told = f"{name}  {score:.{outcome.digits}f}"
            ends.append(End(told, shown[0].trials, float(line[-1]), colour, rank=score))
    trial_axes(axes, "return", shown[0].trials)
    if min(min(o.returns.min(), o.controls["erased"].returns.min()) for o in shown) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


def draw_bought(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw the causal curve of each row: what memory buys, trial by trial."""
    rng = np.random.default_rng(0)
    trial = np.arange(1, shown[0].trials + 1)
    names = [outcome.label for outcome in shown]
    ends: list[End] = []
    for outcome in shown:
        colour, erased = colour_of(outcome.label, names), outcome.controls["erased"]
        both = [seed for seed in outcome.seeds if seed in erased.seeds]
        apart = outcome.of_seeds(both) - erased.of_seeds(both)  # [seed, task, trial]
        mean, low, high = by_trial(apart, crossed_interval, rng)
        axes.fill_between(trial, low, high, color=colour, alpha=0.12, linewidth=0, zorder=2)
        axes.plot(trial, mean, color=colour, linewidth=1.9, zorder=4)
        bought = float(late_score(apart).mean())
        label = f"{outcome.label}  {bought:+.{outcome.digits}f}"
        ends.append(End(label, shown[0].trials, float(mean[-1]), colour, rank=bought))
    axes.axhline(0.0, color=INK, linewidth=0.9, zorder=1)
    trial_axes(axes, "return bought by memory", shown[0].trials)
    name_ends(axes, ends)


def draw_found(axes: Axes, shown: Sequence[Outcome]) -> None:
    """Draw how many tasks are solved by each trial, mean over seeds."""
    tasks, trials = shown[0].tasks, shown[0].trials
    names = [outcome.label for outcome in shown]
    for outcome in shown:
        above = outcome.solved_above or 0.0
        found = np.mean([solved_by(seed, above) for seed in outcome.returns], axis=0)
        colour = colour_of(outcome.label, names)
        draw_line(axes, range(1, trials + 1), found.tolist(), outcome.label, colour)
    axes.axhline(tasks, color=INK, linewidth=0.9, linestyle=OPTIMUM, zorder=1)
    trial_axes(axes, f"tasks solved, of {tasks}", trials)
    axes.set_ylim(0.0, tasks * 1.05)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def band(
    outcome: Outcome, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each trial's mean and 95 % interval: over seeds, or over tasks with one seed only."""
    interval = stratified_interval if len(outcome.seeds) > 1 else crossed_interval
    return by_trial(outcome.returns, interval, rng)


def by_trial(
    values: NDArray[np.float64],
    interval: Callable[[NDArray[np.float64], np.random.Generator, int], Interval],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the interval of each trial; values are [seed, task, trial]."""
    found = [interval(values[:, :, trial], rng, RESAMPLES) for trial in range(values.shape[2])]
    mean, low, high = np.array([(i.mean, i.low, i.high) for i in found]).T
    return mean, low, high


def _late(trials: int) -> str:
    first = trials - late_trials(trials) + 1
    return f"trial {trials}" if first == trials else f"trials {first}-{trials}"


def trial_axes(axes: Axes, title: str, trials: int) -> None:
    """Say what is drawn by trial."""
    plain_axes(axes, title, "trial")
    axes.set_xlim(1, trials if trials > 1 else 2)
    axes.set_xticks([1, *range(10, trials + 1, 10)] if trials >= 10 else range(1, trials + 1))


def icl_note(shown: Sequence[Outcome]) -> str:
    """Say what the lines and bands mean."""
    trials = shown[0].trials
    over = "seeds" if min(len(outcome.seeds) for outcome in shown) > 1 else "tasks"
    if {len(outcome.seeds) > 1 for outcome in shown} == {True, False}:
        over = "seeds (tasks where there is one seed)"
    lines = "lines: mean over tasks and seeds"
    if len(shown) == 1:
        lines = "thin lines: tasks; line: their mean"
    elif any(dashes_of(outcome.label) for outcome in shown):
        lines += ", dashed: references that learn nothing"
    return f"{lines}; bands: 95 % over {over}; numbers: {_late(trials)}"


def icl_title(shown: Sequence[Outcome], records: Sequence[Record]) -> str:
    """Say whose curves these are, where, and over how many tasks and seeds."""
    place = shown[0].env
    kind = kind_of_tasks(records[0]["split"], place)
    where = records[0]["env"] if place == TRAINING_TASKS else place
    seeds = sorted({len(outcome.seeds) for outcome in shown})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
    runs = f"{count} seed{'s' if count != '1' else ''}"
    head = f"{shown[0].label} on " if len(shown) == 1 else ""
    return titled(f"{head}{where}: {shown[0].tasks} {kind}, {runs}", records)


def has_learning(records: Sequence[Record]) -> bool:
    """Tell whether any record has looked at validation tasks during training."""
    return any(record.get("learning") for record in records)


def learning_picture(records: Sequence[Record]) -> Picture:
    """Draw the return of the last validation trial by update, a line per row."""
    title = titled(f"{records[0]['env']}: learning over training", records)
    looked = [record for record in records if record.get("learning")]
    curves = {
        label: [last_trials(record["learning"]) for record in same]
        for label, same in by_label(looked).items()
    }
    trials = sorted({last_trial(look)[6:] for record in looked for look in record["learning"]})
    final = records[0]["split"] == "final"
    seen = "; these tasks are among those trained on" if final else ""
    note = f"trial {'/'.join(trials)}; thick: mean over seeds, thin: seeds{seen}"
    draw = partial(draw_learning, shown=curves, digits=digits_of(records))
    return Picture([draw], title, note, (7.2, 3.9))


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
