"""Scores of in-context learning and how sure they are.

The score of a run is, per task, the mean return of the last ten trials. Intervals are percentile
bootstraps: *stratified* resamples seeds within each task (as rliable does; the tasks are the
population), *crossed* resamples tasks and whole runs together (the tasks are a sample, and what a
seed did well or badly it did on all of them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LATE = 10  # trials 31-40 of 40
EARLY = 5  # trials 1-5
RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval."""

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


def decimals(optimum: float | None) -> int:
    """Return how many decimals returns are told with: two where they are small, else one."""
    return 2 if optimum is not None and optimum < 10 else 1


def late_score(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average the last ten trials: [..., trial] -> [...]."""
    return np.asarray(returns[..., -LATE:].mean(axis=-1))


def improvement(returns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract the mean of the first five trials from the score: [..., trial] -> [...]."""
    return np.asarray(late_score(returns) - returns[..., :EARLY].mean(axis=-1))


def estimate(scores: NDArray[np.float64], rng: np.random.Generator) -> Estimate:
    """Average scores [seed, task] and say how sure that is."""
    seeds = len(scores)
    over_seeds = stratified_interval(scores, rng) if seeds > 1 else None
    return Estimate(float(scores.mean()), over_seeds, crossed_interval(scores, rng), seeds)


def stratified_interval(
    scores: NDArray[np.float64], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval:
    """Resample seeds within tasks; scores are [seed, task]."""
    seeds, tasks = scores.shape
    drawn = rng.integers(seeds, size=(resamples, seeds, tasks))
    means = scores[drawn, np.arange(tasks)].mean(axis=(1, 2))  # [resamples]
    return _percentiles(scores, means)


def crossed_interval(
    scores: NDArray[np.float64], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval:
    """Resample tasks, and seeds as whole runs; scores are [seed, task]."""
    seeds, tasks = scores.shape
    task = rng.integers(tasks, size=(resamples, 1, tasks))
    seed = rng.integers(seeds, size=(resamples, seeds, 1))
    return _percentiles(scores, scores[seed, task].mean(axis=(1, 2)))


def _percentiles(scores: NDArray[np.float64], means: NDArray[np.float64]) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(scores.mean()), float(low), float(high))


def solved_by(returns: NDArray[np.float64], solved_above: float = 0.0) -> NDArray[np.int64]:
    """Count the tasks that some trial so far has solved: [task, trial] -> [trial]."""
    return np.asarray((np.cumsum(returns > solved_above, axis=1) > 0).sum(axis=0))


def return_after_success(returns: NDArray[np.float64], solved_above: float = 0.0) -> float:
    """Average the trials after the first one that solves each task; nan if there are none."""
    found = np.cumsum(returns > solved_above, axis=1) > 0  # [task, trial]
    later = np.zeros_like(found)
    later[:, 1:] = found[:, :-1]
    return float(returns[later].mean()) if later.any() else float("nan")
