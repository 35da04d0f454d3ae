"""Scores of in-context learning and how sure they are.

The score of a run is, per task, the mean return of its late trials. Intervals are percentile
bootstraps: *stratified* resamples seeds within each task (as rliable does; the tasks are the
population), *crossed* resamples tasks and whole runs together (the tasks are a sample, and what a
seed did well or badly it did on all of them). Returns are [seed, task, trial], scores [seed, task].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LIKE_FORTY = range(30, 41)  # trials that are scored as 40 are; records of 30 were published so
RESAMPLES = 2000

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # [..., values] -> [...]


@dataclass(frozen=True)
class Interval:
    """A mean, or another statistic, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and tasks with both of its intervals."""

    mean: float
    over_seeds: Interval | None  # seeds within tasks; None with one seed
    over_tasks: Interval  # tasks and seeds together
    seeds: int

    @property
    def known(self) -> tuple[Interval, ...]:
        """The intervals there are, the one over seeds first."""
        return (self.over_tasks,) if self.over_seeds is None else (self.over_seeds, self.over_tasks)

    @property
    def positive(self) -> bool:
        """Whether it is above 0 by every interval there is."""
        return all(interval.low > 0 for interval in self.known)

    @property
    def negative(self) -> bool:
        """Whether it is below 0 by every interval there is."""
        return all(interval.high < 0 for interval in self.known)


def decimals(*returns: float | None) -> int:
    """Return how many decimals returns are told with: two where all known are small, else one."""
    sizes = [abs(value) for value in returns if value is not None]
    return 2 if sizes and max(sizes) < 10 else 1


def late_trials(trials: int) -> int:
    """Return how many trials are late: the last quarter, at least one."""
    return 10 if trials in LIKE_FORTY else max(1, trials // 4)


def early_trials(trials: int) -> int:
    """Return how many trials are early: the first eighth, at least one."""
    return 5 if trials in LIKE_FORTY else max(1, trials // 8)


def late_score(returns: Array) -> Array:
    """Average the late trials: [..., trial] -> [...]."""
    return np.asarray(returns[..., -late_trials(returns.shape[-1]) :].mean(axis=-1))


def improvement(returns: Array) -> Array:
    """Subtract the mean of the early trials from the score: [..., trial] -> [...]."""
    early = returns[..., : early_trials(returns.shape[-1])]
    return np.asarray(late_score(returns) - early.mean(axis=-1))


def score_difference(returns: Array, other: Array) -> Array:
    """Subtract another score, paired by seed and task: [..., trial] twice -> [...].

    To the same weights and random numbers with a memory that is erased before each trial, this is
    the causal improvement: what earlier trials were good for.
    """
    return np.asarray(late_score(returns) - late_score(other))


def area_under_curve(returns: Array) -> Array:
    """Return the area under the ICL curve by trial, which is its mean: [..., trial] -> [...]."""
    return np.asarray(returns.mean(axis=-1))


def cumulative_regret(returns: Array, optimum: Array) -> Array:
    """Sum what each trial has missed of its task's optimum [task]: [..., task, trial] -> [...]."""
    return np.asarray((optimum[:, None] - returns).sum(axis=-1))


def normalised_score(returns: Array, low: Array, high: Array) -> Array:
    """Put scores on a scale from 0 at a task's `low` to 1 at its `high`, both [task]."""
    return np.asarray((late_score(returns) - low) / (high - low))


def success_rate(returns: Array, solved_above: float) -> Array:
    """Return the share of late trials that solve their task: [..., trial] -> [...]."""
    return late_score((returns > solved_above).astype(np.float64))


def trials_to_solve(returns: Array, solved_above: float) -> Array:
    """Return the first trial that solves its task, from 1, or one more than there are."""
    solved = returns > solved_above  # [..., trial]
    never = np.ones((*solved.shape[:-1], 1), dtype=np.bool_)
    first = np.concatenate([solved, never], axis=-1).argmax(axis=-1)
    return np.asarray(first + 1.0)


def solved_by(returns: Array, solved_above: float = 0.0) -> NDArray[np.int64]:
    """Count the tasks that some trial so far has solved: [task, trial] -> [trial]."""
    return np.asarray((np.cumsum(returns > solved_above, axis=1) > 0).sum(axis=0))


def return_after_success(returns: Array, solved_above: float = 0.0) -> float:
    """Average the trials after the first one that solves each task; nan if there are none."""
    found = np.cumsum(returns > solved_above, axis=1) > 0  # [task, trial]
    later = np.zeros_like(found)
    later[:, 1:] = found[:, :-1]
    return float(returns[later].mean()) if later.any() else float("nan")


def wins(one: Array, other: Array) -> Array:
    """Tell which scores [seed, task] are higher, ties count half: [seed, other seed, task].

    The mean is the probability that `one` improves on `other`, paired by task, as rliable has it.
    """
    apart = one[:, None] - other[None]
    return np.where(apart == 0, 0.5, (apart > 0).astype(np.float64))


def mean(values: Array) -> Array:
    """Average the last axis."""
    return np.asarray(values.mean(axis=-1))


def interquartile_mean(values: Array) -> Array:
    """Average the middle half of the last axis."""
    count = values.shape[-1]
    cut = count // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1))


def estimate(scores: Array, rng: np.random.Generator) -> Estimate:
    """Average scores [seed, task] and say how sure that is."""
    seeds = len(scores)
    over_seeds = stratified_interval(scores, rng) if seeds > 1 else None
    return Estimate(float(scores.mean()), over_seeds, crossed_interval(scores, rng), seeds)


def stratified_interval(
    scores: Array, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval:
    """Resample seeds within tasks; scores are [seed, task]."""
    seeds, tasks = scores.shape
    drawn = rng.integers(seeds, size=(resamples, seeds, tasks))
    return _percentiles(scores, scores[drawn, np.arange(tasks)], mean)


def crossed_interval(
    scores: Array,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    statistic: Statistic = mean,
) -> Interval:
    """Resample tasks, and seeds as whole runs; each axis of [seed, ..., task]."""
    places = []
    for axis in reversed(range(scores.ndim)):
        shape = [resamples] + [1] * scores.ndim
        shape[1 + axis] = scores.shape[axis]
        places.append(rng.integers(scores.shape[axis], size=shape))
    return _percentiles(scores, scores[tuple(reversed(places))], statistic)


def _percentiles(scores: Array, drawn: Array, statistic: Statistic) -> Interval:
    """Take the statistic of the scores, and its percentiles over resamples [resample, ...]."""
    found = statistic(drawn.reshape(len(drawn), -1))
    low, high = np.percentile(found, [2.5, 97.5])
    return Interval(float(statistic(scores.reshape(-1))), float(low), float(high))
