"""The numbers behind the curves: one row per method and environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from radt.metrics import (
    LATE,
    Interval,
    after_finding,
    found_by,
    improvement,
    late_score,
    nested_interval,
    stratified_interval,
)
from radt.plots.records import Outcome, Record, outcomes, variants

SHOWN_TRIALS = (1, 10, 20, 40)
FOUND_TRIALS = (1, 5, 10, 20, 40)


@dataclass(frozen=True)
class Row:
    """How well one method learns in context on one environment."""

    method: str
    env: str
    seeds: int
    tasks: int
    trials: int
    optimum: float | None
    mean: float  # the score: return over the last ten trials
    over_seeds: Interval | None  # of the score, stratified; None with one seed
    over_tasks: Interval  # of the score, tasks and seeds together
    improvement_over_seeds: Interval | None  # the score minus trials 1-5
    improvement_over_tasks: Interval
    at_trial: dict[int, float]
    found_by: dict[int, float]  # tasks with a reward by a trial, mean over seeds
    after_finding: float | None  # return of the trials after a task's first rewarded one
    parameters: int | None
    minutes: float

    @property
    def improves(self) -> bool:
        """Whether the improvement is above 0 by every interval there is."""
        known = (self.improvement_over_seeds, self.improvement_over_tasks)
        return all(interval is None or interval.low > 0 for interval in known)

    @property
    def late(self) -> str:
        """The trials that make the score."""
        return f"{max(1, self.trials - LATE + 1)}-{self.trials}"


Column = tuple[str, Callable[[Row], str]]  # a title, and how a row fills it


def method_table(records: Sequence[Record]) -> list[Row]:
    """Make a row per method, first on the records' own environment, then on each variant."""
    return [
        make_row(outcome, np.random.default_rng(0))  # every row by the same resamples
        for variant in (None, *variants(records))
        for outcome in outcomes(records, variant)
    ]


def make_row(outcome: Outcome, rng: np.random.Generator) -> Row:
    """Score one outcome."""
    returns = outcome.returns  # [seed, task, trial]
    score, gain = late_score(returns), improvement(returns)  # [seed, task]
    several = len(outcome.seeds) > 1
    by_trial = returns.mean(axis=(0, 1))
    found = np.mean([found_by(seed) for seed in returns], axis=0)  # [trial]
    return Row(
        method=outcome.method,
        env=outcome.env,
        seeds=len(outcome.seeds),
        tasks=outcome.tasks,
        trials=outcome.trials,
        optimum=outcome.optimum,
        mean=float(score.mean()),
        over_seeds=stratified_interval(score, rng) if several else None,
        over_tasks=nested_interval(score, rng),
        improvement_over_seeds=stratified_interval(gain, rng) if several else None,
        improvement_over_tasks=nested_interval(gain, rng),
        at_trial=_pick(by_trial, SHOWN_TRIALS),
        found_by=_pick(found, FOUND_TRIALS),
        after_finding=_mean_after_finding(returns),
        parameters=outcome.parameters,
        minutes=outcome.minutes,
    )


def markdown(rows: Sequence[Row]) -> str:
    """Write rows as Markdown, two tables per environment: returns, then goals and cost."""
    parts = []
    for place, (env, group) in enumerate(groupby(rows, key=lambda row: row.env)):
        same = list(group)
        note = "" if place == 0 else " (a variant: the same weights, not trained on it)"
        best = "" if same[0].optimum is None else f", optimum {same[0].optimum:.1f}"
        parts.append(f"**`{env}`**{note}: {same[0].tasks} tasks{best}.")
        parts.append(_returns_table(same))
        parts.append(_goals_table(same, with_cost=place == 0))
    return "\n\n".join(parts) + "\n"


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table whose first column is text and whose others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def count(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def _returns_table(rows: Sequence[Row]) -> str:
    columns: list[Column] = [
        ("method", lambda row: f"`{row.method}`"),
        ("seeds", lambda row: str(row.seeds)),
        (f"trials {rows[0].late}", lambda row: f"**{row.mean:.1f}**"),
        ("95 % over seeds", lambda row: _range(row.over_seeds)),
        ("95 % over tasks and seeds", lambda row: _range(row.over_tasks)),
    ]
    for trial in rows[0].at_trial:
        columns.append((f"trial {trial}", partial(_at_trial, trial)))
    columns.append(("improves by", _gain))
    return _filled(columns, rows)


def _goals_table(rows: Sequence[Row], with_cost: bool) -> str:
    trials = list(rows[0].found_by)
    columns: list[Column] = [
        ("method", lambda row: f"`{row.method}`"),
        (
            f"goals found by trial {' / '.join(map(str, trials))}",
            lambda row: " / ".join(count(row.found_by[trial]) for trial in trials),
        ),
        ("return after finding", lambda row: _number(row.after_finding, ".1f")),
    ]
    if with_cost:
        columns.append(("parameters", lambda row: _number(row.parameters, ",")))
        columns.append(("minutes a run", lambda row: f"{row.minutes:.1f}"))
    return _filled(columns, rows)


def _filled(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    return plain_table([title for title, _ in columns], ([c(r) for _, c in columns] for r in rows))


def _pick(values: NDArray[np.float64], wanted: Sequence[int]) -> dict[int, float]:
    """Take the values at the trials wanted, as far as there are so many, and at the last one."""
    trials = sorted({t for t in wanted if t <= len(values)} | {len(values)})
    return {trial: float(values[trial - 1]) for trial in trials}


def _mean_after_finding(returns: NDArray[np.float64]) -> float | None:
    """Average over the seeds in which anything was found before the last trial."""
    known = [value for seed in returns if not np.isnan(value := after_finding(seed))]
    return float(np.mean(known)) if known else None


def _at_trial(trial: int, row: Row) -> str:
    return f"{row.at_trial[trial]:.1f}"


def _gain(row: Row) -> str:
    gain = row.improvement_over_seeds or row.improvement_over_tasks
    return f"{'yes' if row.improves else 'no'}: {gain.mean:+.1f} {_range(gain)}"


def _range(interval: Interval | None) -> str:
    return "-" if interval is None else f"[{interval.low:.1f}, {interval.high:.1f}]"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
