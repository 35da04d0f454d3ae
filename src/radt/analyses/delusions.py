"""When an agent gets stuck: trials that end in a few states which they never leave, unpaid.

The paper shows two trials in which RA-DT goes back and forth between some cells until the end, and
calls them delusions (after Ortega et al., 2021). Here a trial is deluded if its last quarter stays
in at most four states without a reward. As actions are sampled, the order of the states may vary;
those that stand still, and those that go round in exactly the same path, are counted, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from radt.analyses.shared import (
    Finding,
    RolledOut,
    draw_path,
    draw_room,
    drawable,
    mean_by,
    over_tasks,
    percent,
)
from radt.metrics import Interval
from radt.plots import style
from radt.runs.run import RunError
from radt.trajectory import Trajectory

TAIL = 0.25  # of the longest trial: for so long at least it is stuck
FEW = 4  # states
ROUNDS = 3  # a cycle comes round so often at least
LISTED = 20  # delusions of a method that are described one by one
EXAMPLES, STUCK = 4, "#C0392B"  # trials that are drawn, and the colour of their loops


@dataclass(frozen=True)
class Loop:
    """A few states that a trial never leaves."""

    start: int  # the step from which on it is there
    states: tuple[int, ...]  # places in the trial at which each state is first seen from there on
    period: int | None  # steps of a round, where all rounds are the same; 1: it stands still


@dataclass(frozen=True)
class Delusion:
    """A trial that ends in a loop."""

    run: RolledOut
    slot: int
    trial: int  # from 0
    loop: Loop

    @property
    def episode(self) -> Trajectory:
        return self.run.episodes[self.slot][self.trial]


def find_loop(states: NDArray[Any], rewards: NDArray[Any], horizon: int) -> Loop | None:
    """Find the few states that a trial [T] ends in, None where it ends otherwise or is paid."""
    tail = max(2 * FEW, round(TAIL * horizon))  # long enough to come back to each of them
    if len(states) < tail or (rewards[-tail:] > 0).any():
        return None
    number = numbered(states)  # [T]
    kept = np.unique(number[-tail:])
    if len(kept) > FEW:
        return None
    outside = np.flatnonzero(~np.isin(number, kept) | (rewards > 0))
    start = int(outside[-1]) + 1 if len(outside) else 0
    first = [start + int(np.argmax(number[start:] == state)) for state in kept]
    return Loop(start, tuple(sorted(first)), exact_period(number[-tail:]))


def numbered(states: NDArray[Any]) -> NDArray[np.int64]:
    """Give equal states equal numbers, [T, ...] -> [T]."""
    flat = states.reshape(len(states), -1)
    return np.asarray(np.unique(flat, axis=0, return_inverse=True)[1]).reshape(-1)


def exact_period(number: NDArray[np.int64]) -> int | None:
    """Return after how many steps a whole sequence [T] repeats, `ROUNDS` times at least."""
    periods = range(1, len(number) // ROUNDS + 1)
    return next((p for p in periods if (number[p:] == number[:-p]).all()), None)


def find_delusions(run: RolledOut) -> Iterator[Delusion]:
    """Find all trials that end in a loop, by trial and task."""
    horizon = run.trials.suite.spaces.horizon
    for trial in range(run.trials.count):
        for slot, episodes in enumerate(run.episodes):
            loop = find_loop(episodes[trial].states, episodes[trial].rewards, horizon)
            if loop is not None:
                yield Delusion(run, slot, trial, loop)


@dataclass(frozen=True)
class DelusionCount:
    """How often the trials of one method end in a loop, all its runs together."""

    method: str
    deluded: NDArray[np.bool_]  # [run, task, trial]
    unpaid: NDArray[np.bool_]  # [run, task, trial] trials without any reward
    found: tuple[Delusion, ...]

    @property
    def still(self) -> int:
        return sum(one.loop.period == 1 for one in self.found)

    @property
    def cycles(self) -> int:
        """How many go round, always in the same path."""
        return sum(one.loop.period is not None for one in self.found) - self.still

    @property
    def share(self) -> Interval | None:
        """The share of trials that end in a loop, with 95 % over tasks."""
        return over_tasks(self.deluded.mean(axis=(0, 2)))

    @property
    def share_of_unpaid(self) -> Interval | None:
        """The share among the trials that earn nothing, with 95 % over the tasks that have such."""
        task = np.broadcast_to(np.arange(self.deluded.shape[1])[None, :, None], self.deluded.shape)
        return over_tasks(mean_by(task[self.unpaid], self.deluded[self.unpaid].astype(np.float64)))

    def spread(self, most: int) -> list[Delusion]:
        """Choose a few examples, spread over trials and tasks."""
        places = np.linspace(0, len(self.found) - 1, most).round().astype(int)
        return [self.found[place] for place in np.unique(places)] if self.found else []

    @property
    def by_trial(self) -> NDArray[np.float64]:
        """The share of runs and tasks whose trial ends in a loop, [trial]."""
        return np.asarray(self.deluded.mean(axis=(0, 1)))


def count_delusions(runs: Sequence[RolledOut]) -> list[DelusionCount]:
    """Count the delusions of each method over its runs, which share their tasks and trials."""
    methods = dict.fromkeys(run.method for run in runs)
    return [_count([run for run in runs if run.method == method]) for method in methods]


def _count(runs: Sequence[RolledOut]) -> DelusionCount:
    found = [(number, one) for number, run in enumerate(runs) for one in find_delusions(run)]
    deluded = np.zeros((len(runs), *runs[0].returns.shape), dtype=bool)
    for number, one in found:
        deluded[number, one.slot, one.trial] = True
    unpaid = [[[not (t.rewards > 0).any() for t in task] for task in run.episodes] for run in runs]
    every = tuple(one for _, one in found)
    return DelusionCount(runs[0].method, deluded, np.array(unpaid), every)


def say_delusions(counts: Sequence[DelusionCount]) -> str:
    """Say how often each method gets stuck."""
    lines = []
    for count in counts:
        trials = count.deluded.size
        line = (
            f"`{count.method}`: {int(count.deluded.sum())} of {trials} trials, "
            f"{percent(count.share)}, end in at most {FEW} states that they never leave"
        )
        if count.unpaid.any():
            line += f"; of the trials that earn nothing {percent(count.share_of_unpaid)}"
        lines.append(f"{line}. {count.still} stand still, {count.cycles} go round exactly.")
    return " ".join(lines)


def delusion_numbers(counts: Sequence[DelusionCount]) -> dict[str, Any]:
    """Put counts into plain values."""
    return {
        "few_states": FEW,
        "tail_share": TAIL,
        "methods": {
            count.method: {
                "runs": len(count.deluded),
                "trials": count.deluded.size,
                "deluded": int(count.deluded.sum()),
                "stand_still": count.still,
                "go_round_exactly": count.cycles,
                "share": count.share,
                "unpaid_trials": int(count.unpaid.sum()),
                "share_of_unpaid": count.share_of_unpaid,
                "by_trial": count.by_trial.tolist(),
                "examples": [example_json(one) for one in count.spread(LISTED)],
            }
            for count in counts
        },
    }


def example_json(one: Delusion) -> dict[str, Any]:
    """Say where and when a trial gets stuck."""
    return {
        "task": one.run.trials.tasks[one.slot],
        "seed": one.run.trials.seed,
        "trial": one.trial + 1,
        "from_step": one.loop.start,
        "cells": one.run.cells(one.episode)[list(one.loop.states)].tolist(),
        "period": one.loop.period,
    }


def analyse_delusions(runs: Sequence[RolledOut], path: Path) -> Finding:
    """Count and draw the delusions of one or more runs on the same tasks."""
    first = runs[0].trials
    for run in runs:
        drawable(run.trials)
        if (run.trials.suite.name, run.trials.tasks) != (first.suite.name, first.tasks):
            raise RunError(
                f"runs on {first.suite.name} and {run.trials.suite.name} have other tasks; count "
                "the delusions of runs on the same ones"
            )
    counts = count_delusions(runs)
    draw_delusions(counts, path)
    return Finding("delusions", say_delusions(counts), delusion_numbers(counts), first, path)


def draw_delusions(counts: Sequence[DelusionCount], path: Path) -> Path:
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
    where = f" on {shown[0].run.trials.suite.name}" if shown else ""
    note = (
        "deluded: the last quarter of a trial stays in at most four states and earns nothing; red: "
        "from there on; numbers: all trials"
    )
    return style.save(figure, path, f"Trials that end in a loop{where}", note)


def examples(counts: Sequence[DelusionCount]) -> list[Delusion]:
    """Choose a few examples: the methods in turn, each one's spread over its tasks and trials."""
    picked = [count.spread(EXAMPLES) for count in counts]
    turns = [one for turn in zip_longest(*picked) for one in turn if one is not None]
    return turns[:EXAMPLES]


def draw_shares(axes: Axes, counts: Sequence[DelusionCount]) -> None:
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
    path = one.run.cells(one.episode)
    task, trial = one.run.trials.tasks[one.slot], one.trial + 1
    draw_room(axes, one.run.room(one.slot), f"{one.run.method}, task {task}, trial {trial}")
    if one.loop.start > 0:
        draw_path(axes, path[: one.loop.start + 1], style.PALE, 0.9)
    draw_path(axes, path[one.loop.start :], STUCK, 2.2)
    axes.set_xlabel(f"stuck from step {one.loop.start + 1} on", fontsize=7.5, color=style.INK)
