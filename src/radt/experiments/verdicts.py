"""What claims say of rows: near the optimum, above another row, improving in context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from radt.experiments.experiment import Judge, Row, Verdict
from radt.metrics import Interval, crossed_interval

BASELINES = ("dt", "ad", "dpt")
NEAR = 0.9  # of the optimum
CLOSE = 0.1  # of the optimum: two rows are close
UNFAIR = (
    "the published ra-dt asked its training questions by prefixes of windows and with bounds of "
    "similarity that are not the paper's, and no row was evaluated with its memory erased; it has "
    "to be measured again"
)


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


def measured_fairly(judge: Judge) -> Judge:
    """Leave a claim open while a row of RA-DT lacks its control with an erased memory."""

    def judged(rows: Sequence[Row]) -> Verdict:
        own = [row for row in rows if row["label"] == "ra-dt"]
        if not own or any(row["improves"] is None for row in own):
            return Verdict("open", UNFAIR)
        return judge(rows)

    return judged


def ranking(*envs: str, others: Sequence[str] = BASELINES, near: float | None = None) -> Judge:
    """Judge whether `ra-dt` is above others on every environment, and near the optimum."""

    def judged(rows: Sequence[Row]) -> Verdict:
        told, holds, fails = [], True, False
        for env in envs:
            own = found(rows, env, "ra-dt")
            if own is None:
                return Verdict("open", f"there is no row of ra-dt on {env}")
            if near is not None and own["normalised"] is not None:
                holds &= own["normalised"] >= near
                fails |= own["normalised"] < near
                told.append(f"{env}: {own['normalised']:.0%} of the optimum")
            for label in others:
                if (other := found(rows, env, label)) is None:
                    return Verdict("open", f"there is no row of {label} on {env}")
                apart = difference(own, other)
                holds &= apart.low > 0
                fails |= apart.high < 0
                told.append(f"{env}: ra-dt minus {label} {apart}")
        return Verdict("holds" if holds else "does not" if fails else "open", "; ".join(told))

    return measured_fairly(judged)


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
