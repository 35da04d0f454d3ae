"""Delusions on a figure: how often by trial and method, and examples of trials that are stuck."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from radt.analyses.delusions import Count, Delusion, count_delusions, numbers, verdict
from radt.analyses.finding import Finding
from radt.analyses.relive import Lives, cells, drawable
from radt.analyses.rooms import draw_room, draw_way
from radt.analyses.visits import room_of
from radt.experiments.run import RunError
from radt.plots import style

EXAMPLES = 4
STUCK = "#C0392B"


def analyse_delusions(lives: Sequence[Lives], path: Path) -> Finding:
    """Count and draw the delusions of one or more runs."""
    check_together(lives)
    counts = count_delusions(lives)
    draw(counts, path)
    return Finding("delusions", verdict(counts), numbers(counts), lives[0].trials, path)


def check_together(lives: Sequence[Lives]) -> None:
    """Refuse runs that were not lived on the same tasks."""
    first = lives[0].trials
    for one in lives:
        drawable(one.trials)
        if (one.trials.suite.name, one.trials.tasks) != (first.suite.name, first.tasks):
            raise RunError(
                f"runs on {first.suite.name} and {one.trials.suite.name} have other tasks; count "
                "the delusions of runs on the same ones"
            )


def draw(counts: Sequence[Count], path: Path) -> Path:
    """Draw the shares by trial on the left and examples on the right."""
    shown = examples(counts)
    figure = style.canvas(6.2 + (4.6 if shown else 0.0), 3.9)
    if shown:
        grid = figure.add_gridspec(2, 4, width_ratios=[1.5, 1.5, 1, 1])
        draw_shares(figure.add_subplot(grid[:, :2]), counts)
        for number, one in enumerate(shown):
            draw_example(figure.add_subplot(grid[number // 2, 2 + number % 2]), one)
    else:
        draw_shares(figure.subplots(), counts)
    where = f" on {shown[0].lives.trials.suite.name}" if shown else ""
    note = (
        "deluded: the last quarter of a trial stays in at most four states and earns nothing; red: "
        "from there on; numbers: all trials"
    )
    return style.save(figure, path, f"Trials that end in a loop{where}", note)


def examples(counts: Sequence[Count]) -> list[Delusion]:
    """Choose a few examples: the methods in turn, each one's spread over its tasks and trials."""
    picked = [count.spread(EXAMPLES) for count in counts]
    turns = [one for turn in zip_longest(*picked) for one in turn if one is not None]
    return turns[:EXAMPLES]


def draw_shares(axes: Axes, counts: Sequence[Count]) -> None:
    """Draw the share of tasks whose trial ends in a loop, a line per method."""
    names, ends = [count.method for count in counts], []
    for count in counts:
        share, colour = count.by_trial, style.colour_of(count.method, names)
        trial = np.arange(1, len(share) + 1)
        style.draw_line(axes, trial.tolist(), share.tolist(), count.method, colour)
        overall = count.deluded.mean()
        label = f"{count.method}  {overall:.0%}"
        ends.append(style.End(label, len(share), float(share[-1]), colour, rank=float(overall)))
    style.plain_axes(axes, "share of tasks whose trial ends in a loop", "trial")
    axes.set_xlim(1, max(2, len(counts[0].by_trial)))
    axes.set_ylim(0.0, max(0.1, 1.1 * max(float(count.by_trial.max()) for count in counts)))
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    style.name_ends(axes, ends)


def draw_example(axes: Axes, one: Delusion) -> None:
    """Draw one trial: how it got to its loop, and the loop."""
    way = cells(drawable(one.lives.trials), one.episode)
    task, trial = one.lives.trials.tasks[one.slot], one.trial + 1
    draw_room(axes, room_of(one.lives, one.slot), f"{one.lives.method}, task {task}, trial {trial}")
    if one.loop.start > 0:
        draw_way(axes, way[: one.loop.start + 1], style.PALE, 0.9)
    draw_way(axes, way[one.loop.start :], STUCK, 2.2)
    axes.set_xlabel(f"stuck from step {one.loop.start + 1} on", fontsize=7.5, color=style.INK)
