"""A row of a table for programs: the values of `compare.json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from radt.metrics import Estimate, Interval
from radt.plots.tables import FURTHER, Compared, MethodRow


def row_json(row: MethodRow) -> dict[str, Any]:
    """Put a row into plain values; `ci95` is over tasks where there is one seed, and says so.

    `improves`, `improvement` and `improves_ci95` are late minus early trials, as they always were
    here; what memory buys is `causal_improvement`, null where it was not measured.
    """
    expense = {name: value for name, value in asdict(row.expense).items() if name != "cached"}
    return {
        f"mean_{row.late.replace('-', '_')}": row.score.mean,
        **_intervals(row.score),
        "improves": row.gets_better,
        "improvement": row.gain.mean,
        **_intervals(row.gain, "improves_"),
        "causal_improvement": None if row.causal is None else _estimate(row.causal),
        **{name: row.further[name].mean if name in row.further else None for name in FURTHER},
        **{f"{name}_ci95_tasks": _bounds(found) for name, found in row.further.items()},
        "at_trial": {str(trial): found.mean for trial, found in row.at_trial.items()},
        "at_trial_ci95": {str(t): _bounds(found.known[0]) for t, found in row.at_trial.items()},
        "at_trial_ci95_tasks": {
            str(trial): _bounds(found.over_tasks) for trial, found in row.at_trial.items()
        },
        "minus": {other: _estimate(found) for other, found in row.against.items()},
        "probability_of_improvement": {
            other: {"mean": found.mean, "ci95_tasks": _bounds(found)}
            for other, found in row.probability.items()
        },
        "controls": {other.name: _compared(other) for other in row.controlled},
        "rules": {other.name: _compared(other) for other in row.by_rule},
        "data": row.data,
        "solved_by": None
        if row.solved_by is None
        else {str(trial): value for trial, value in row.solved_by.items()},
        "return_after_success": row.return_after_success,
        "seeds": len(row.seeds),
        "source": row.source,
        "context_steps": row.expense.context_steps,
        "wall_minutes": expense.pop("minutes"),
        **expense,
    }


def _compared(other: Compared) -> dict[str, Any]:
    minus, causal = other.method_minus, other.causal
    return {
        **_estimate(other.score),
        "method_minus": None if minus is None else _estimate(minus),
        "causal_improvement": None if causal is None else _estimate(causal),
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {"mean": found.mean, **_intervals(found), "seeds": found.seeds}


def _intervals(found: Estimate, prefix: str = "") -> dict[str, Any]:
    return {
        f"{prefix}ci95": _bounds(found.known[0]),
        f"{prefix}ci95_over": "tasks" if found.over_seeds is None else "seeds within tasks",
        f"{prefix}ci95_tasks": _bounds(found.over_tasks),
    }


def _bounds(interval: Interval) -> list[float]:
    return [interval.low, interval.high]
