"""Tables in Markdown: returns, what is gained in context and over RA-DT, goals, and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from radt.config import TRAINING_TASKS
from radt.metrics import (
    EARLY,
    LATE,
    Estimate,
    Interval,
    after_finding,
    decimals,
    estimate,
    found_by,
    improvement,
    late_score,
)
from radt.plots.records import LEARNED_TASKS, Outcome, Record, outcomes, variants

BASE = "ra-dt"  # every method is held against the paper's
SHOWN_TRIALS = (1, 10, 20, 40)
FOUND_TRIALS = (1, 5, 10, 20, 40)

SEEDS_CAPTION = (
    "Mean return, in brackets 95 % over seeds: a stratified bootstrap of seeds within tasks, as "
    "`rliable` does."
)
TASKS_CAPTION = "95 % over tasks and seeds together:"
ONE_SEED_CAPTION = "Mean return, in brackets 95 % over tasks:"
GAINS_CAPTION = (
    f"What is gained: in context, trials {{late}} minus trials 1-{EARLY}; and over `{BASE}`, "
    "paired by task and seed, with common random numbers."
)
PAIRS_CAPTION = (
    "Every pair: the row's score minus the column's, paired by task and seed; bold where no 95 % "
    "interval holds 0. The intervals are under `minus` in the JSON."
)
COST_CAPTION = (
    "Cost. Context and tokens are the most that a decision reads; FLOPs are a decision's mean over "
    "a trial, what it takes to remember the trial included; samples are training sequences; "
    "decisions of all tasks at once. Speeds are those of a method's fastest run: others may have "
    "shared their machine, or had another; of the oldest records, looks at validation tasks count."
)
COST_NOTES = {  # by method
    "dpt": "The tokens of `dpt` are its set, its query and one that every set holds.",
    "ra-dt-lm": "The minutes of `ra-dt-lm` leave out what its cache on disk saved it: "
    "`embeddings_of_training` and `embeddings` in its icl.json say `seconds_saved`.",
    "ra-dt+": "`ra-dt+` mostly retrieves the first C steps of a trial; twice as many is the most.",
}


@dataclass(frozen=True, kw_only=True)
class MethodRow(Outcome):
    """How well one method learns in context on one environment."""

    score: Estimate  # return over the last ten trials
    gain: Estimate  # the score minus trials 1-5
    at_trial: dict[int, Estimate]
    against: dict[str, Estimate]  # the score minus that of each other method, paired
    found_by: dict[int, float]  # tasks solved by a trial, mean over seeds
    after_finding: float | None  # return of the trials after the first that solved a task

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


Column = tuple[str, Callable[[MethodRow], str]]  # a title, and how a row fills it


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
    found = np.mean([found_by(seed, outcome.solved_above) for seed in returns], axis=0)  # [trial]
    later = [after_finding(seed, outcome.solved_above) for seed in returns]
    known = [value for value in later if not np.isnan(value)]  # found before the last trial
    rng = np.random.default_rng(0)  # every row by the same resamples
    return MethodRow(
        **vars(outcome),
        score=estimate(late_score(returns), rng),
        gain=estimate(improvement(returns), rng),
        at_trial={n: estimate(returns[:, :, n - 1], rng) for n in shown_trials(SHOWN_TRIALS, last)},
        against=paired_differences(outcome, others),
        found_by={n: float(found[n - 1]) for n in shown_trials(FOUND_TRIALS, last)},
        after_finding=float(np.mean(known)) if known else None,
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
    parts = []
    for place, (env, group) in enumerate(groupby(rows, key=lambda row: row.env)):
        same = list(group)
        note = "" if place == 0 else f" ({_about(env)})"
        best = "" if same[0].optimum is None else f", optimum {same[0].optimum:.{same[0].digits}f}"
        parts.append(f"**`{env}`**{note}: {same[0].tasks} tasks{best}.")
        parts += returns_tables(same)
        if len(same) > 1:
            parts += [GAINS_CAPTION.format(late=same[0].late), gains_table(same)]
        if len(same) > 2:
            parts += [PAIRS_CAPTION, pairs_table(same)]
        parts.append(goals_table(same))
    first = [row for row in rows if row.env == rows[0].env]
    return "\n\n".join([*parts, COST_CAPTION, cost_table(first), *cost_notes(first)]) + "\n"


def _about(place: str) -> str:
    """Say what the other tasks of a run are."""
    if place == TRAINING_TASKS:
        return f"{LEARNED_TASKS}, begun anew with an empty memory"
    return "a variant: the same weights, not trained on it"


def returns_tables(rows: Sequence[MethodRow]) -> list[str]:
    """Write the score and some trials, with intervals over seeds and then over tasks and seeds."""
    name: Column = ("method", _name)
    if all(len(row.seeds) == 1 for row in rows):
        return [ONE_SEED_CAPTION, _filled([name, *_trials(rows, _with_tasks)], rows)]
    seeds: Column = ("seeds", lambda row: str(len(row.seeds)))
    return [
        SEEDS_CAPTION,
        _filled([name, seeds, *_trials(rows, _with_seeds)], rows),
        TASKS_CAPTION,
        _filled([name, *_trials(rows, _tasks_range)], rows),
    ]


def _trials(rows: Sequence[MethodRow], cell: Callable[[Estimate, int], str]) -> list[Column]:
    """Make a column for the score and one for each trial shown."""
    score: Column = (f"**trials {rows[0].late}**", lambda row: cell(row.score, row.digits))
    columns = [score]
    for trial in rows[0].at_trial:
        columns.append((f"trial {trial}", partial(_at_trial, cell, trial)))
    return columns


def gains_table(rows: Sequence[MethodRow]) -> str:
    """Write what is gained in context, and over the paper's method where that is in the table."""
    columns: list[Column] = [
        ("method", _name),
        ("improves", lambda row: "yes" if row.improves else "no"),
        ("in context, 95 % over seeds", lambda row: _signed(row.gain, row.digits)),
        (
            "in context, 95 % over tasks and seeds",
            lambda row: _range(row.gain.over_tasks, row.digits),
        ),
    ]
    if any(row.against_base for row in rows):
        columns += [
            (
                f"minus `{BASE}`, 95 % over seeds",
                lambda row: _signed(row.against_base, row.digits),
            ),
            (f"minus `{BASE}`, 95 % over tasks and seeds", _base_range),
            ("paired seeds", lambda row: str(row.against_base.seeds) if row.against_base else "-"),
        ]
    return _filled(columns, rows)


def pairs_table(rows: Sequence[MethodRow]) -> str:
    """Write how far the scores of any two methods are apart."""
    others: list[Column] = [(_name(row), partial(_apart, row.method)) for row in rows]
    return _filled([("method", _name), *others], rows)


def goals_table(rows: Sequence[MethodRow]) -> str:
    """Write how many goals are found by when, and what a trial earns afterwards."""
    trials = list(rows[0].found_by)
    columns: list[Column] = [
        ("method", _name),
        (
            f"goals found by trial {' / '.join(map(str, trials))}",
            lambda row: " / ".join(count_text(row.found_by[trial]) for trial in trials),
        ),
        ("return after finding", lambda row: _number(row.after_finding, f".{row.digits}f")),
    ]
    return _filled(columns, rows)


def cost_table(rows: Sequence[MethodRow]) -> str:
    """Write what each method needs to learn and to decide."""
    columns: list[Column] = [
        ("method", _name),
        ("parameters", _parameters),
        ("context, steps: input + retrieved", _context),
        ("tokens a decision", lambda row: _number(row.expense.tokens_per_decision, ",.0f")),
        ("MFLOPs a decision", lambda row: _scaled(row.expense.flops_per_decision, 1e-6)),
        ("updates x batch", _training),
        ("action targets an update", lambda row: _number(row.expense.targets_per_update, ",.0f")),
        ("samples/s", lambda row: _number(row.expense.samples_per_second, ",.0f")),
        ("decisions/s", lambda row: _number(row.expense.decisions_per_second, ",.0f")),
        ("minutes a run", lambda row: f"{row.expense.minutes:.1f}"),
    ]
    return _filled(columns, rows)


def cost_notes(rows: Sequence[MethodRow]) -> list[str]:
    """Say what the numbers of the cost table hide: one paragraph, or none."""
    caching = [_name(row) for row in rows if row.expense.cached]
    reading = [_name(row) for row in rows if row.expense.cached is False]
    notes = []
    if caching:
        notes.append(
            f"A key-value cache speeds up {', '.join(caching)}; `radt bench decide` has them "
            "without it, too."
        )
    if reading:
        notes.append(f"At every step, {', '.join(reading)} read their window anew.")
    notes += [COST_NOTES[row.method] for row in rows if row.method in COST_NOTES]
    return [" ".join(notes)] if notes else []


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table whose first column is text and whose others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def count_text(number: float) -> str:
    """Write a mean of counts, without the decimal where it is a whole number."""
    return f"{number:.1f}".removesuffix(".0")


def _filled(columns: Sequence[Column], rows: Sequence[MethodRow]) -> str:
    return plain_table([title for title, _ in columns], ([c(r) for _, c in columns] for r in rows))


def _name(row: MethodRow) -> str:
    return f"`{row.method}`"


def _at_trial(cell: Callable[[Estimate, int], str], trial: int, row: MethodRow) -> str:
    return cell(row.at_trial[trial], row.digits)


def _with_seeds(found: Estimate, digits: int) -> str:
    interval = "" if found.over_seeds is None else f" {_range(found.over_seeds, digits)}"
    return f"{found.mean:.{digits}f}{interval}"


def _with_tasks(found: Estimate, digits: int) -> str:
    return f"{found.mean:.{digits}f} {_tasks_range(found, digits)}"


def _tasks_range(found: Estimate, digits: int) -> str:
    return _range(found.over_tasks, digits)


def _signed(found: Estimate | None, digits: int) -> str:
    if found is None:
        return "-"
    return f"{'+' if found.mean >= 0 else ''}{_with_seeds(found, digits)}"


def _base_range(row: MethodRow) -> str:
    return "-" if row.against_base is None else _range(row.against_base.over_tasks, row.digits)


def _apart(other: str, row: MethodRow) -> str:
    if (found := row.against.get(other)) is None:
        return "-"
    text = f"{found.mean:+.{row.digits}f}"
    sure = all(interval.low > 0 or interval.high < 0 for interval in found.known)
    return f"**{text}**" if sure else text


def _parameters(row: MethodRow) -> str:
    own, frozen = _number(row.expense.parameters, ","), row.expense.frozen_parameters
    return f"{own} + {frozen / 1e6:.1f}M frozen" if frozen else own


def _context(row: MethodRow) -> str:
    expense = row.expense
    if expense.context_steps is None:
        return "-"
    return f"{expense.input_steps:,} + {expense.retrieved_steps:,} = {expense.context_steps:,}"


def _training(row: MethodRow) -> str:
    expense = row.expense
    return "-" if expense.updates is None else f"{expense.updates:,} x {expense.batch_size}"


def _range(interval: Interval, digits: int) -> str:
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _scaled(value: float | None, factor: float) -> str:
    return "-" if value is None else f"{value * factor:,.2f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
