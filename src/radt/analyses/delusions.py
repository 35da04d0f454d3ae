"""When an agent gets stuck: trials that end in a few states which they never leave, unpaid.

The paper shows two trials in which RA-DT goes back and forth between some cells until the end, and
calls them delusions (after Ortega et al., 2021). Here a trial is deluded if its last quarter stays
in at most four states without a reward. As actions are sampled, the order of the states may vary;
those that stand still, and those that go round in exactly the same way, are counted, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.analyses.finding import mean_by, over_tasks, percent, plain
from radt.analyses.relive import Lives, cells, drawable
from radt.metrics import Interval
from radt.trajectory import Trajectory

TAIL = 0.25  # of the longest trial: for so long at least it is stuck
FEW = 4  # states
ROUNDS = 3  # a cycle comes round so often at least
LISTED = 20  # delusions of a method that are described one by one


@dataclass(frozen=True)
class Loop:
    """A few states that a trial never leaves."""

    start: int  # the step from which on it is there
    states: tuple[int, ...]  # places in the trial at which each state is first seen from there on
    period: int | None  # steps of a round, where all rounds are the same; 1: it stands still


@dataclass(frozen=True)
class Delusion:
    """A trial that ends in a loop."""

    lives: Lives
    slot: int
    trial: int  # from 0
    loop: Loop

    @property
    def episode(self) -> Trajectory:
        """The trial."""
        return self.lives.episodes[self.slot][self.trial]


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


def find_delusions(lives: Lives) -> Iterator[Delusion]:
    """Find all trials that end in a loop, by trial and task."""
    horizon = lives.trials.suite.spaces.horizon
    for trial in range(lives.trials.count):
        for slot, episodes in enumerate(lives.episodes):
            loop = find_loop(episodes[trial].states, episodes[trial].rewards, horizon)
            if loop is not None:
                yield Delusion(lives, slot, trial, loop)


@dataclass(frozen=True)
class Count:
    """How often the trials of one method end in a loop, all its runs together."""

    method: str
    deluded: NDArray[np.bool_]  # [run, task, trial]
    unpaid: NDArray[np.bool_]  # [run, task, trial] trials without any reward
    found: tuple[Delusion, ...]

    @property
    def still(self) -> int:
        """How many stand still."""
        return sum(one.loop.period == 1 for one in self.found)

    @property
    def cycles(self) -> int:
        """How many go round, always in the same way."""
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


def count_delusions(lives: Sequence[Lives]) -> list[Count]:
    """Count the delusions of each method over its runs, which share their tasks and trials."""
    methods = dict.fromkeys(one.method for one in lives)
    return [_count([one for one in lives if one.method == method]) for method in methods]


def _count(lives: Sequence[Lives]) -> Count:
    found = [list(find_delusions(one)) for one in lives]
    deluded = np.zeros((len(lives), *lives[0].returns.shape), dtype=bool)
    for run, delusions in enumerate(found):
        for one in delusions:
            deluded[run, one.slot, one.trial] = True
    every = tuple(one for delusions in found for one in delusions)
    return Count(lives[0].method, deluded, np.stack([_unpaid(one) for one in lives]), every)


def _unpaid(lives: Lives) -> NDArray[np.bool_]:
    return np.array([[not (t.rewards > 0).any() for t in task] for task in lives.episodes])


def verdict(counts: Sequence[Count]) -> str:
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


def numbers(counts: Sequence[Count]) -> dict[str, Any]:
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
                "share": plain(count.share),
                "unpaid_trials": int(count.unpaid.sum()),
                "share_of_unpaid": plain(count.share_of_unpaid),
                "by_trial": count.by_trial.tolist(),
                "examples": [describe(one) for one in count.spread(LISTED)],
            }
            for count in counts
        },
    }


def describe(one: Delusion) -> dict[str, Any]:
    """Say where and when a trial gets stuck."""
    way = cells(drawable(one.lives.trials), one.episode)
    return {
        "task": one.lives.trials.tasks[one.slot],
        "seed": one.lives.trials.seed,
        "trial": one.trial + 1,
        "from_step": one.loop.start,
        "cells": way[list(one.loop.states)].tolist(),
        "period": one.loop.period,
    }
