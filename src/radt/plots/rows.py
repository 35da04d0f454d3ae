"""The numbers behind the curves: one row per method and environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from radt.metrics import (
    LATE,
    Estimate,
    after_finding,
    decimals,
    estimate,
    found_by,
    improvement,
    late_score,
)
from radt.plots.expense import Expense
from radt.plots.records import Outcome, Record, outcomes, variants

BASE = "ra-dt"  # every method is held against the paper's
SHOWN_TRIALS = (1, 10, 20, 40)
FOUND_TRIALS = (1, 5, 10, 20, 40)


@dataclass(frozen=True)
class Row:
    """How well one method learns in context on one environment, and at what cost."""

    method: str
    env: str
    tasks: int
    trials: int
    optimum: float | None
    score: Estimate  # return over the last ten trials
    gain: Estimate  # the score minus trials 1-5
    at_trial: dict[int, Estimate]
    against: dict[str, Estimate]  # the score minus that of each other method, paired
    found_by: dict[int, float]  # tasks solved by a trial, mean over seeds
    after_finding: float | None  # return of the trials after the first that solved a task
    expense: Expense
    source: str | None = None  # who acted while its data were recorded; None: nobody did
    trained_on: str = ""  # the same in words, where it is not the environment's usual source

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return self.score.seeds

    @property
    def against_base(self) -> Estimate | None:
        """The score minus that of RA-DT, where it is in the table."""
        return self.against.get(BASE)

    @property
    def digits(self) -> int:
        """How many decimals its returns are told with."""
        return decimals(self.optimum)

    @property
    def improves(self) -> bool:
        """Whether the improvement is above 0 by every interval there is."""
        return all(interval.low > 0 for interval in self.gain.known)

    @property
    def late(self) -> str:
        """The trials that make the score."""
        return f"{max(1, self.trials - LATE + 1)}-{self.trials}"


def method_table(records: Sequence[Record]) -> list[Row]:
    """Make a row per method, first on the records' own environment, then on each variant."""
    rows = []
    for variant in (None, *variants(records)):
        shown = outcomes(records, variant)
        # Every row by the same resamples.
        rows += [make_row(outcome, np.random.default_rng(0), shown) for outcome in shown]
    return rows


def make_row(outcome: Outcome, rng: np.random.Generator, others: Sequence[Outcome] = ()) -> Row:
    """Score one outcome."""
    returns = outcome.returns  # [seed, task, trial]
    found = np.mean([found_by(seed, outcome.solved_above) for seed in returns], axis=0)  # [trial]
    return Row(
        method=outcome.method,
        env=outcome.env,
        tasks=outcome.tasks,
        trials=outcome.trials,
        optimum=outcome.optimum,
        score=estimate(late_score(returns), rng),
        gain=estimate(improvement(returns), rng),
        at_trial={
            trial: estimate(returns[:, :, trial - 1], rng)
            for trial in shown_trials(SHOWN_TRIALS, outcome.trials)
        },
        against=paired_differences(outcome, others),
        found_by={
            trial: float(found[trial - 1]) for trial in shown_trials(FOUND_TRIALS, outcome.trials)
        },
        after_finding=_mean_after_finding(outcome),
        expense=outcome.expense,
        source=outcome.source,
        trained_on=outcome.trained_on,
    )


def paired_differences(one: Outcome, others: Sequence[Outcome]) -> dict[str, Estimate]:
    """Subtract the score of each other method, task by task and seed by seed, where both have such.

    Both met the same environments and drew the same random numbers, so that much of the chance is
    in both and falls out of the difference. All pairs are resampled alike: a minus b is b minus a,
    turned around.
    """
    found = {}
    for other in others:
        common = [seed for seed in one.seeds if seed in other.seeds]
        if one.method != other.method and common:
            apart = late_score(one.of_seeds(common)) - late_score(other.of_seeds(common))
            found[other.method] = estimate(apart, np.random.default_rng(0))
    return found


def shown_trials(wanted: Sequence[int], trials: int) -> list[int]:
    """Choose the trials wanted, as far as there are so many, and the last one."""
    return sorted({trial for trial in wanted if trial <= trials} | {trials})


def _mean_after_finding(outcome: Outcome) -> float | None:
    """Average over the seeds in which anything was found before the last trial."""
    each = [after_finding(seed, outcome.solved_above) for seed in outcome.returns]
    known = [value for value in each if not np.isnan(value)]
    return float(np.mean(known)) if known else None
