"""Rows of `result.json`: what runs and measurements say, scored alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.experiments.experiment import Row
from radt.metrics import (
    Estimate,
    estimate,
    improvement,
    late_score,
    return_after_success,
    solved_by,
)
from radt.plots.records import acts_by_rule
from radt.variants import ORDER, variant, variant_names

Record = Mapping[str, Any]  # one `icl.json`
BEFORE_REFERENCES = ORDER["nearest"] - 0.5  # where rows of experiments stand, as they come
SHOWN_TRIALS = (1, 5, 10, 20, 40)


def scored(
    returns: NDArray[np.float64],  # [seed, task, trial]
    tasks: Sequence[int],
    optimum: float | None = None,
    erased: NDArray[np.float64] | None = None,  # the same with memories erased before each trial
    success_above: float | None = None,
) -> Row:
    """Score returns; `improves` is None where memories were never erased."""
    rng, late = np.random.default_rng(0), late_score(returns)  # every row by the same resamples
    score, gain = estimate(late, rng), estimate(improvement(returns), rng)
    causal = None if erased is None else estimate(late - late_score(erased), rng)
    shown = sorted({n for n in SHOWN_TRIALS if n <= returns.shape[2]} | {returns.shape[2]})
    return {
        "score": score.mean,
        "ci95": bounds(score),
        "ci95_tasks": [score.over_tasks.low, score.over_tasks.high],
        "improves": None if causal is None else causal.mean,
        "improves_ci95": None if causal is None else bounds(causal),
        "gain": gain.mean,  # late minus early trials
        "gain_ci95": bounds(gain),
        "gain_ci95_tasks": [gain.over_tasks.low, gain.over_tasks.high],
        "optimum": optimum,
        "normalised": None if not optimum else score.mean / optimum,
        "trials": int(returns.shape[2]),
        "at_trial": {str(n): float(returns[:, :, n - 1].mean()) for n in shown},
        **_success(returns, success_above, shown),
        "per_task": dict(zip(map(str, tasks), late.mean(axis=0).tolist(), strict=True)),
    }


def _success(
    returns: NDArray[np.float64], above: float | None, shown: Sequence[int]
) -> dict[str, Any]:
    """Count solved tasks, where the suite says what solving is."""
    if above is None:
        return {"solved_by": None, "return_after_success": None}
    counts = np.mean([solved_by(seed, above) for seed in returns], axis=0)  # [trial]
    later = [return_after_success(seed, above) for seed in returns]
    known = [value for value in later if not np.isnan(value)]
    return {
        "solved_by": {str(n): float(counts[n - 1]) for n in shown},
        "return_after_success": float(np.mean(known)) if known else None,
    }


def bounds(found: Estimate) -> list[float]:
    """Return the interval over seeds within tasks, or over tasks where there is one seed."""
    return [found.known[0].low, found.known[0].high]


def rows_of(
    records: Sequence[Record], wall_minutes: float | None = None, tries: Mapping[str, int] = {}
) -> list[Row]:
    """Make a row of each label, set of tasks and action rule, with the tries of its settings."""
    by_label: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: int(record["seed"])):
        by_label.setdefault(label_of(record), []).append(record)
    ordered = sorted(by_label, key=lambda label: ORDER.get(label, BEFORE_REFERENCES))
    return [
        {**named, "wall_minutes": wall_minutes, "tries": tries.get(label, 0), **row}
        for label in ordered
        for named, row in _rows_of_label(by_label[label])
    ]


def _rows_of_label(same: Sequence[Record]) -> Iterator[tuple[Row, Row]]:
    """Make the rows of one label's seeds: its main rule on every set of tasks, then other rules."""
    first = same[0]
    tasks = "eval" if first["split"] == "final" else str(first["split"])
    yield _row(same, str(first["env"]), tasks, rule_of(first))
    for place in first.get("variants", {}):
        parts = [{**record, "controls": {}, **record["variants"][place]} for record in same]
        if place == TRAINING_TASKS:
            known = [{**part, "tasks": list(range(len(part["returns"])))} for part in parts]
            yield _row(known, str(first["env"]), "train", rule_of(first))
        else:
            yield _row(parts, place, tasks, rule_of(first))
    for rule in first.get("rules", {}):
        parts = [{**r, "controls": {}, **r["rules"][rule]} for r in same if rule in r["rules"]]
        yield _row(parts, str(first["env"]), tasks, rule)


def _row(parts: Sequence[Record], env: str, tasks: str, rule: str) -> tuple[Row, Row]:
    first = parts[0]
    named = {
        "label": label_of(first),
        "method": method_of(first),
        "env": env,
        "tasks": tasks,
        "rule": rule if acts_by_rule({**first, "env": env}) else None,
        "condition": "",
        "seeds": len(parts),
    }
    wiped = [part.get("controls", {}).get("erased", {}).get("returns") for part in parts]
    return named, scored(
        np.array([part["returns"] for part in parts], dtype=np.float64),
        first["tasks"],
        mean_or_none(first["optimum"]),
        None if None in wiped else np.array(wiped, dtype=np.float64),
        first.get("success_above", first.get("solved_above", 0.0)),
    )


def label_of(record: Record) -> str:
    """Return the row that a record belongs to; older ones name only their method."""
    return str(record.get("label", record["method"]))


def method_of(record: Record) -> str:
    """Return the method of a record; older ones call variants methods."""
    name = str(record["method"])
    return variant(name).method if name in variant_names() else name


def rule_of(record: Record) -> str:
    """Name the action rule of a record; older ones give only its numbers."""
    return str(record["rule"]) if "rule" in record else rule_name(record.get("action_rule", {}))


def rule_name(rule: Mapping[str, Any]) -> str:
    """Name a rule by its numbers."""
    if rule.get("explore_temperature") is not None:
        return "explore-exploit"
    if rule.get("temperature", 1.0) != 1.0 or rule.get("nucleus") is not None:
        return "other"
    return {None: "paper", 2: "authors"}.get(rule.get("keep_best"), "other")


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """Average values that are all known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def answer_row(
    answer: Mapping[str, Any],
    condition: str,
    returns: NDArray[np.float64],  # [1, task, trial]
    erased: NDArray[np.float64] | None = None,
) -> Row:
    """Make a row of what was asked of one agent; older answers leave out some facts."""
    tasks = answer.get("tasks") or range(returns.shape[1])
    return {
        "label": label_of(answer),
        "method": method_of(answer),
        "env": str(answer["env"]),
        "tasks": "eval",
        "rule": rule_of(answer) if "action_rule" in answer else None,
        "condition": condition,
        "seeds": 1,
        "wall_minutes": None,
        "tries": None,
        **scored(
            np.asarray(returns, dtype=np.float64),
            list(tasks),
            mean_or_none(answer.get("optimum") or [None]),
            erased,
            answer.get("success_above"),
        ),
    }
