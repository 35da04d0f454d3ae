"""Rows of `result.json`: what runs and measurements say, scored alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.action_rules import ActionRule, rule_name
from radt.config import TRAINING_TASKS
from radt.decode import decode
from radt.envs.suite import SUITES
from radt.experiments.experiment import ERASED, OLDER, Row
from radt.metrics import Estimate, estimate, improvement, late_score, normalised_score
from radt.plots.records import Record, acts_by_rule, label_of, success_above
from radt.plots.tables import FOUND_TRIALS, shown_trials, success
from radt.variants import ORDER, variant, variant_names

BEFORE_REFERENCES = ORDER["nearest"] - 0.5  # where rows of experiments stand, as they come


def scored(
    returns: NDArray[np.float64],  # [seed, task, trial]
    tasks: Sequence[int],
    optimum: float | None = None,
    erased: NDArray[np.float64] | None = None,  # the same with memories erased before each trial
    above: float | None = None,  # what a trial that succeeds exceeds
) -> Row:
    """Score returns; `improves` is None where memories were never erased."""
    rng, late = np.random.default_rng(0), late_score(returns)  # every row by the same resamples
    score, gain = estimate(late, rng), estimate(improvement(returns), rng)
    causal = None if erased is None else estimate(late - late_score(erased), rng)
    shown = shown_trials(FOUND_TRIALS, returns.shape[2])
    solved = success(returns, above, shown)
    by_trial = solved["solved_by"]
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
        "solved_by": by_trial and {str(n): count for n, count in by_trial.items()},
        "return_after_success": solved["return_after_success"],
        "per_task": dict(zip(map(str, tasks), late.mean(axis=0).tolist(), strict=True)),
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
        if not all(place in record["variants"] for record in same):
            continue
        own: dict[str, Any] = {"controls": {}, "scoring": None}  # a record's are of other tasks
        parts = [{**record, **own, **record["variants"][place]} for record in same]
        if place in SUITES.names():
            yield _row(parts, place, tasks, rule_of(first))
        else:  # other tasks of the same suite; records do not number them
            known = [{**part, "tasks": list(range(len(part["returns"])))} for part in parts]
            split = "train" if place == TRAINING_TASKS else place
            yield _row(known, str(first["env"]), split, rule_of(first))
    for rule in first.get("rules", {}):
        parts = [
            {**r, "controls": {}, **r["rules"][rule]} for r in same if rule in r.get("rules", {})
        ]
        yield _row(parts, str(first["env"]), tasks, rule)


def _row(parts: Sequence[Record], env: str, tasks: str, rule: str) -> tuple[Row, Row]:
    first = parts[0]
    named = {
        "label": label_of(first),
        "method": method_of(first),
        "env": env,
        "tasks": tasks,
        "rule": rule if acts_by_rule({**first, "env": env}) else None,
        "condition": OLDER if any(p.get("older_config") for p in parts) else "",
        "seeds": len(parts),
    }
    controls = {
        name: np.array([part["controls"][name]["returns"] for part in parts], dtype=np.float64)
        for name in first.get("controls") or {}
        if all(name in part["controls"] for part in parts)
    }
    returns = np.array([part["returns"] for part in parts], dtype=np.float64)
    row = scored(
        returns,
        first["tasks"],
        mean_or_none(first["optimum"]),
        controls.get(ERASED),
        success_above(first),
    )
    if scoring := first.get("scoring"):
        ends = (np.array(scoring[end], dtype=np.float64) for end in ("low", "high"))
        row["normalised"] = float(normalised_score(returns, *ends).mean())
    if (share := (first.get("prepared") or {}).get("same_level")) is not None:
        row["same_level"] = share
    scores = {
        name: estimate(late_score(found), np.random.default_rng(0))
        for name, found in controls.items()
    }
    told = {name: {"score": one.mean, "ci95": bounds(one)} for name, one in scores.items()}
    return named, {**row, "controls": told}


def method_of(record: Record) -> str:
    """Return the method of a record; older ones call variants methods."""
    name = str(record["method"])
    return variant(name).method if name in variant_names() else name


def rule_of(record: Record) -> str:
    """Name the action rule of a record; older ones give only its numbers."""
    if "rule" in record:
        return str(record["rule"])
    return rule_name(decode(ActionRule, record.get("action_rule", {})), method_of(record))


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
