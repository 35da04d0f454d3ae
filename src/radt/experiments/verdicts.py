"""What claims say of rows: near the optimum, above another row, improving in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from radt.experiments.experiment import OLDER, Judge, Row, Verdict, decided
from radt.metrics import Interval, crossed_interval

BASELINES = ("dt", "ad", "dpt")
NEAR = 0.9  # of the optimum
CLOSE = 0.1  # of the optimum: two rows are close
UNFAIR = "not measured as it is now, with its memory erased"


def found(
    rows: Sequence[Row], env: str, label: str, tasks: str = "eval", rule: str | None = None
) -> Row | None:
    """Return one row, under one rule or the one that the experiment evaluates first."""
    same = [
        row
        for row in rows
        if (row["env"], row["label"], row["tasks"]) == (env, label, tasks)
        and rule in (None, row["rule"])
    ]
    return same[0] if same else None


def difference(one: Row, other: Row) -> Interval:
    """Subtract scores task by task, with 95 % over tasks."""
    tasks = [task for task in one["per_task"] if task in other["per_task"]]
    apart = [one["per_task"][task] - other["per_task"][task] for task in tasks]
    return crossed_interval(np.array([apart]), np.random.default_rng(0))


@dataclass(frozen=True)
class Above:
    """A row is above another, by more than a share of the optimum where one is given."""

    one: str
    other: str
    by: float = 0.0  # negative: at most so far below


def all_above(env: str, *expected: Above) -> Judge:
    """Judge differences task by task: all as expected, or one that is surely not."""

    def judged(rows: Sequence[Row]) -> Verdict:
        told, holds, fails = [], True, False
        named = {label: found(rows, env, label) for e in expected for label in (e.one, e.other)}
        known = {n: row for n, row in named.items() if row and row.get("condition") != OLDER}
        if gone := [label for label in named if label not in known]:
            return Verdict("open", f"{', '.join(gone)} on {env}: not measured as it is now")
        for each in expected:
            one, other = known[each.one], known[each.other]
            apart, margin = difference(one, other), each.by * (one["optimum"] or abs(one["score"]))
            holds &= apart.low > margin
            fails |= apart.high < margin
            bound = f", of which more than {margin:.1f} is expected" if margin else ""
            told.append(f"{each.one} minus {each.other} {apart}{bound}")
        return decided(holds, fails, told)

    return judged


def measured_fairly(judge: Judge, own: str = "ra-dt") -> Judge:
    """Leave a claim open while the row of RA-DT lacks its control with an erased memory.

    Rows with older values may have acted by another rule, so that they are left out.
    """

    def judged(rows: Sequence[Row]) -> Verdict:
        rows = [row for row in rows if row.get("condition") != OLDER]
        fair = [row for row in rows if (row["label"], row["tasks"]) == (own, "eval")]
        if not fair or any(row["improves"] is None for row in fair):
            return Verdict("open", f"{own} is {UNFAIR}")
        return judge(rows)

    return judged


def ranking(
    *envs: str,
    own: str = "ra-dt",
    others: Sequence[str] = BASELINES,
    near: float | None = None,
    tasks: Sequence[str] = ("eval",),
) -> Judge:
    """Judge whether a row of RA-DT is above others on every environment, and near the optimum."""

    def judged(rows: Sequence[Row]) -> Verdict:
        told, holds, fails = [], True, False
        for name, split in product(envs, tasks):
            env = name if split == "eval" else f"{name}, {split} tasks"
            row = found(rows, name, own, split)
            if row is None:
                return Verdict("open", f"there is no row of {own} on {env} with all its seeds")
            if near is not None and row["normalised"] is not None:
                holds &= row["normalised"] >= near
                fails |= row["normalised"] < near
                told.append(f"{env}: {row['normalised']:.0%} of the optimum")
            for label in others:
                if (other := found(rows, name, label, split)) is None:
                    return Verdict(
                        "open", f"there is no row of {label} on {env} with all its seeds"
                    )
                apart = difference(row, other)
                holds &= apart.low > 0
                fails |= apart.high < 0
                told.append(f"{env}: {own} minus {label} {apart}")
        return decided(holds, fails, told)

    return measured_fairly(judged, own)


def close(env: str, one: str, other: str) -> Judge:
    """Judge whether two rows are within a tenth of the optimum of each other."""

    def judged(rows: Sequence[Row]) -> Verdict:
        pair = found(rows, env, one), found(rows, env, other)
        if pair[0] is None or pair[1] is None:
            return Verdict("open", f"{one} and {other} are not both measured on {env}")
        apart, best = difference(pair[0], pair[1]), pair[0]["optimum"] or abs(pair[0]["score"])
        is_close = abs(apart.mean) <= CLOSE * best
        told = f"{env}: {one} minus {other} {apart}, of an optimum of {best:.1f}"
        return Verdict("holds" if is_close else "does not", told)

    return measured_fairly(judged)


def alone_improves(env: str, label: str, others: Sequence[str]) -> Judge:
    """Judge whether a row is above all others and the only one whose memory helps."""

    def judged(rows: Sequence[Row]) -> Verdict:
        best = ranking(env, others=others)(rows)
        bounds = {
            name: row["improves_ci95"]
            for name in (label, *others)
            if (row := found(rows, env, name)) is not None
        }
        if any(pair is None for pair in bounds.values()):
            return Verdict("open", f"{best.why}; some rows lack their erased memory")
        improving = [name for name, (low, _) in bounds.items() if low > 0]
        told = f"{best.why}; improving: {', '.join(improving) or 'none'}"
        if best.word == "holds":
            return Verdict("holds" if improving == [label] else "does not", told)
        return Verdict(best.word, told)

    return measured_fairly(judged)


def best_without_improving(
    env: str, below_on: Sequence[str] = (), tasks: Sequence[str] = ("eval",)
) -> Judge:
    """Judge whether `ra-dt` is above all others though its memory does not help.

    On the first set of tasks of `below_on` that was evaluated, `dt` has to be above it.
    """

    def judged(rows: Sequence[Row]) -> Verdict:
        best, own = ranking(env, tasks=tasks)(rows), found(rows, env, "ra-dt")
        if own is None:
            return best
        low, high = own["improves_ci95"]
        told = [best.why, f"its memory is worth {own['improves']:+.1f} [{low:+.1f}, {high:+.1f}]"]
        if own.get("same_level") is not None:
            told.append(f"in training {own['same_level']:.0%} of its chunks are of the same level")
        holds, fails = best.word == "holds" and low <= 0, best.word == "does not" or low > 0
        pairs = [
            (found(rows, env, "dt", set_), found(rows, env, "ra-dt", set_)) for set_ in below_on
        ]
        known = [difference(dt, other) for dt, other in pairs if dt and other]
        for apart in known[:1]:
            holds, fails = holds and apart.low > 0, fails or apart.high < 0
            told.append(f"on training tasks dt minus ra-dt {apart}")
        if below_on and not known:
            holds = False
            told.append("no training task is evaluated")
        return decided(holds, fails, told)

    return measured_fairly(judged)
