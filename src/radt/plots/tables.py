"""Tables in Markdown: returns, what memory buys, gains over RA-DT, controls, and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.metrics import (
    Estimate,
    Interval,
    area_under_curve,
    crossed_interval,
    cumulative_regret,
    early_trials,
    estimate,
    improvement,
    interquartile_mean,
    late_score,
    late_trials,
    normalised_score,
    return_after_success,
    score_difference,
    solved_by,
    success_rate,
    trials_to_solve,
    wins,
)
from radt.plots.html import fill_markdown, table_head
from radt.plots.records import LEARNED_TASKS, Outcome, Record, kind_of_tasks, outcomes, variants
from radt.plots.style import notes_on

BASE = "ra-dt"  # every row is held against the paper's
ERASED = "erased"
CONTROLS = {  # what the policy reads instead, in the order of tables
    ERASED: "emptied before each trial",
    "other-task": "that of another task",
    "random-own": "any part of the own one",
    "last-trial": "the latest trial, without a search",
    "best-trial": "the best trial so far, without a search",
    "oracle": "an expert's episode from the beginning",
}
SHOWN_TRIALS = (1, 10, 20, 40)
FOUND_TRIALS = (1, 5, 10, 20, 40)
FURTHER = {  # scores beside the first one: what stands above their columns
    "auc": "area under the curve, a trial",
    "iqm": "interquartile mean",
    "regret": "cumulative regret",
    "normalised": "normalised",
    "success_rate": "late trials that succeed",
    "trials_to_solve": "trials to solve",
}
RATES = ("normalised", "success_rate")  # told with two decimals


@dataclass(frozen=True)
class Compared:
    """The same weights otherwise: with another memory, or by another rule."""

    label: str
    name: str  # of the control or the rule
    rule: str
    score: Estimate
    method_minus: Estimate | None  # the row's score minus this one, paired
    causal: Estimate | None  # this score minus that of its own erased control


@dataclass(frozen=True, kw_only=True)
class MethodRow(Outcome):
    """How well one row learns in context on one environment."""

    score: Estimate  # return of the late trials
    causal: Estimate | None  # the score minus that with an erased memory; None: not measured
    gain: Estimate  # the score minus the early trials
    at_trial: dict[int, Estimate]
    against: dict[str, Estimate]  # the score minus that of each other row, paired
    probability: dict[str, Interval]  # of improvement over each other row
    further: dict[str, Interval]  # by the names of FURTHER, over tasks and seeds together
    solved_by: dict[int, float] | None  # tasks solved by a trial, mean over seeds
    return_after_success: float | None  # return of the trials after the first that solved a task
    controlled: list[Compared]
    by_rule: list[Compared]

    @property
    def against_base(self) -> Estimate | None:
        """The score minus that of RA-DT, where it is in the table."""
        return self.against.get(BASE)

    @property
    def improves(self) -> bool | None:
        """Whether memory buys something by every interval there is; None: not measured."""
        return None if self.causal is None else self.causal.positive

    @property
    def gets_better(self) -> bool:
        """Whether late trials are better than early ones by every interval there is."""
        return self.gain.positive

    @property
    def late(self) -> str:
        """The trials that make the score."""
        return _stretch(self.trials - late_trials(self.trials) + 1, self.trials)

    @property
    def early(self) -> str:
        """The trials that the older difference begins with."""
        return _stretch(1, early_trials(self.trials))

    @property
    def single(self) -> dict[int, Estimate]:
        """The returns of some trials, without one that is the score itself."""
        return {n: found for n, found in self.at_trial.items() if str(n) != self.late}

    @property
    def shown(self) -> list[Estimate]:
        """The score and the returns of some trials."""
        return [self.score, *self.single.values()]

    def minus(self, other: str) -> str:
        """Write how far its score is from another's; bold where no interval holds 0."""
        if (found := self.against.get(other)) is None:
            return "-"
        text = f"{found.mean:+.{self.digits}f}"
        return f"**{text}**" if found.positive or found.negative else text

    def told(self, name: str) -> str:
        """Write one of its further scores with its interval."""
        if (found := self.further.get(name)) is None:
            return "-"
        n = 2 if name in RATES else self.digits
        return f"{found.mean:.{n}f} [{found.low:.{n}f}, {found.high:.{n}f}]"


def method_table(records: Sequence[Record]) -> list[MethodRow]:
    """Make a row per label, first on the records' own environment, then on each variant."""
    rows = []
    for variant in (None, *variants(records)):
        shown = outcomes(records, variant)
        rows += [make_row(outcome, shown) for outcome in shown]
    return rows


def make_row(outcome: Outcome, others: Sequence[Outcome]) -> MethodRow:
    """Score one outcome."""
    returns, last = outcome.returns, outcome.trials  # [seed, task, trial]
    rng = np.random.default_rng(0)  # every row by the same resamples
    score, gain = estimate(late_score(returns), rng), estimate(improvement(returns), rng)
    at_trial = {n: estimate(returns[:, :, n - 1], rng) for n in shown_trials(SHOWN_TRIALS, last)}
    strangers = [other for other in others if other.label != outcome.label]
    against = {other.label: paired_difference(outcome, other) for other in strangers}
    ranked = sorted(outcome.controls, key=lambda name: (*CONTROLS, name).index(name))
    return MethodRow(
        **vars(outcome),
        score=score,
        causal=causal_estimate(outcome),
        gain=gain,
        at_trial=at_trial,
        against={name: found for name, found in against.items() if found is not None},
        probability={
            other.label: crossed_interval(
                wins(late_score(returns), late_score(other.returns)), _resamples()
            )
            for other in strangers
        },
        further=further_scores(outcome),
        controlled=[_compared(outcome, name, outcome.controls[name]) for name in ranked],
        by_rule=[_compared(outcome, name, other) for name, other in outcome.rules.items()],
        **success(returns, outcome.solved_above, shown_trials(FOUND_TRIALS, last)),
    )


def success(
    returns: NDArray[np.float64], above: float | None, shown: Sequence[int]
) -> dict[str, Any]:
    """Say which tasks were solved [seed, task, trial], where a suite declares what that is."""
    if above is None:
        return {"solved_by": None, "return_after_success": None}
    found = np.mean([solved_by(seed, above) for seed in returns], axis=0)  # [trial]
    later = [return_after_success(seed, above) for seed in returns]
    known = [value for value in later if not np.isnan(value)]  # found before the last trial
    return {
        "solved_by": {n: float(found[n - 1]) for n in shown},
        "return_after_success": float(np.mean(known)) if known else None,
    }


def further_scores(outcome: Outcome) -> dict[str, Interval]:
    """Score an outcome in every way that is known for it, over tasks and seeds together."""
    returns, above = outcome.returns, outcome.solved_above
    scores = {"auc": area_under_curve(returns)}
    if outcome.optima is not None:
        scores["regret"] = cumulative_regret(returns, outcome.optima)
    if outcome.bounds is not None:
        scores["normalised"] = normalised_score(returns, *outcome.bounds)
    if above is not None:
        scores["success_rate"] = success_rate(returns, above)
        scores["trials_to_solve"] = trials_to_solve(returns, above)
    found = {name: crossed_interval(each, _resamples()) for name, each in scores.items()}
    middle = crossed_interval(late_score(returns), _resamples(), statistic=interquartile_mean)
    return found | {"iqm": middle}


def paired_difference(one: Outcome, other: Outcome) -> Estimate | None:
    """Subtract another score, task by task and seed by seed; None without a common seed.

    Both met the same environments and drew the same random numbers, so that much of the chance is
    in both and falls out of the difference. All pairs are resampled alike: a minus b is b minus a,
    turned around.
    """
    common = [seed for seed in one.seeds if seed in other.seeds]
    if not common:
        return None
    apart = score_difference(one.of_seeds(common), other.of_seeds(common))
    return estimate(apart, _resamples())


def causal_estimate(outcome: Outcome) -> Estimate | None:
    """Say what memory buys: the score minus that of the erased control; None: not measured."""
    erased = outcome.controls.get(ERASED)
    return None if erased is None else paired_difference(outcome, erased)


def _compared(outcome: Outcome, name: str, other: Outcome) -> Compared:
    return Compared(
        outcome.label,
        name,
        other.rule,
        estimate(late_score(other.returns), _resamples()),
        paired_difference(outcome, other),
        causal_estimate(other),
    )


def _resamples() -> np.random.Generator:
    return np.random.default_rng(0)  # the same ones for all that is compared


def _stretch(first: int, last: int) -> str:
    return f"{first}-{last}" if first < last else f"{last}"


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
            labels=[f"`{row.label}`" for row in same],
            further={n: told for n, told in FURTHER.items() if any(n in r.further for r in same)},
            **_returns(same),
        )
        + controls_text(same)
        for env, same in by_env.items()
    ]
    notes = notes_on(row.label for row in first)
    return "\n\n".join([*sections, fill_markdown("cost.md", rows=first, notes=notes)])


def controls_text(rows: Sequence[MethodRow]) -> str:
    """Write what the same weights do with another memory and by other rules; '' if not measured."""
    rules = dict.fromkeys(other.name for row in rows for other in row.by_rule)
    by_rule = {name: [o for row in rows for o in row.by_rule if o.name == name] for name in rules}
    used = {other.name for row in rows for other in row.controlled}
    controls = {name: about for name, about in CONTROLS.items() if name in used}
    one_seed = all(len(row.seeds) == 1 for row in rows)
    text = fill_markdown(
        "controls.md",
        rows=rows,
        controls=controls,
        by_rule=by_rule,
        n=rows[0].digits,
        one_seed=one_seed,
    )
    return f"\n\n{text}" if text else ""


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
        "trial_names": [f"trial {trial}" for trial in rows[0].single],
        "one_seed": all(len(row.seeds) == 1 for row in rows),
    }


def row_in_words(row: MethodRow, split: str) -> str:
    """Say in a paragraph what a run has shown."""
    return " ".join(fill_markdown("words.md", row=row, kind=kind_of_tasks(split)).split())


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table whose first column is text and whose others are numbers."""
    return "\n".join([table_head(head), *(f"| {' | '.join(line)} |" for line in rows)])
