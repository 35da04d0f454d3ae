"""Tables in Markdown: returns, what is gained in context and over RA-DT, goals, and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from radt.config import TRAINING_TASKS
from radt.metrics import (
    EARLY,
    LATE,
    Estimate,
    decimals,
    estimate,
    improvement,
    late_score,
    return_after_success,
    solved_by,
)
from radt.plots.html import fill_markdown, table_head
from radt.plots.records import (
    LEARNED_TASKS,
    Outcome,
    Record,
    kind_of_tasks,
    outcomes,
    variants,
)

BASE = "ra-dt"  # every method is held against the paper's
SHOWN_TRIALS = (1, 10, 20, 40)
FOUND_TRIALS = (1, 5, 10, 20, 40)


@dataclass(frozen=True, kw_only=True)
class MethodRow(Outcome):
    """How well one method learns in context on one environment."""

    score: Estimate  # return over the last ten trials
    gain: Estimate  # the score minus trials 1-5
    at_trial: dict[int, Estimate]
    against: dict[str, Estimate]  # the score minus that of each other method, paired
    solved_by: dict[int, float]  # tasks solved by a trial, mean over seeds
    return_after_success: float | None  # return of the trials after the first that solved a task

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

    @property
    def shown(self) -> list[Estimate]:
        """The score and the returns of some trials."""
        return [self.score, *self.at_trial.values()]

    def minus(self, other: str) -> str:
        """Write how far its score is from another's; bold where no interval holds 0."""
        if (found := self.against.get(other)) is None:
            return "-"
        text = f"{found.mean:+.{self.digits}f}"
        sure = all(interval.low > 0 or interval.high < 0 for interval in found.known)
        return f"**{text}**" if sure else text


def method_table(records: Sequence[Record]) -> list[MethodRow]:
    """Make a row per method, first on the records' own environment, then on each variant."""
    rows = []
    for variant in (None, *variants(records)):
        shown = outcomes(records, variant)
        rows += [make_row(outcome, shown) for outcome in shown]
    return rows


def make_row(outcome: Outcome, others: Sequence[Outcome]) -> MethodRow:
    """Score one outcome."""
    returns, last = outcome.returns, outcome.trials  # [seed, task, trial]
    found = np.mean([solved_by(seed, outcome.solved_above) for seed in returns], axis=0)  # [trial]
    later = [return_after_success(seed, outcome.solved_above) for seed in returns]
    known = [value for value in later if not np.isnan(value)]  # found before the last trial
    rng = np.random.default_rng(0)  # every row by the same resamples
    return MethodRow(
        **vars(outcome),
        score=estimate(late_score(returns), rng),
        gain=estimate(improvement(returns), rng),
        at_trial={n: estimate(returns[:, :, n - 1], rng) for n in shown_trials(SHOWN_TRIALS, last)},
        against=paired_differences(outcome, others),
        solved_by={n: float(found[n - 1]) for n in shown_trials(FOUND_TRIALS, last)},
        return_after_success=float(np.mean(known)) if known else None,
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


def markdown(rows: Sequence[MethodRow]) -> str:
    """Write rows as Markdown, some tables per environment, the cost once."""
    by_env = {env: list(same) for env, same in groupby(rows, key=lambda row: row.env)}
    first = next(iter(by_env.values()))
    sections = [
        fill_markdown(
            "scores.md",
            about="" if same is first else f" ({_about(env)})",
            base=BASE,
            early=EARLY,
            method_names=[f"`{row.method}`" for row in same],
            **_returns(same),
        )
        for env, same in by_env.items()
    ]
    return "\n\n".join([*sections, fill_markdown("cost.md", rows=first)])


def _about(place: str) -> str:
    """Say what the other tasks of a run are."""
    if place == TRAINING_TASKS:
        return f"{LEARNED_TASKS}, begun anew with an empty memory"
    return "a variant: the same weights, not trained on it"


def returns_tables(rows: Sequence[MethodRow]) -> str:
    """Write the score and some trials, with intervals over seeds and then over tasks and seeds."""
    return fill_markdown("returns.md", **_returns(rows))


def _returns(rows: Sequence[MethodRow]) -> dict[str, Any]:
    return {
        "rows": rows,
        "trial_names": [f"trial {trial}" for trial in rows[0].at_trial],
        "one_seed": all(len(row.seeds) == 1 for row in rows),
    }


def row_in_words(row: MethodRow, split: str) -> str:
    """Say in a paragraph what a run has shown."""
    kind = kind_of_tasks(split)
    return " ".join(fill_markdown("words.md", row=row, kind=kind, early=EARLY).split())


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table whose first column is text and whose others are numbers."""
    return "\n".join([table_head(head), *(f"| {' | '.join(line)} |" for line in rows)])
