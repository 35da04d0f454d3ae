"""Choosing settings on held-out training tasks, with every try on record.

A try trains on four fifths of the training tasks and is scored on the rest; evaluation tasks are
never touched. Each score becomes one line of `results/tuning.jsonl`. What is tried is a variant:
add an experiment of kind `tune` with yours, in a file of your own if you like.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from radt.config import FOLDS, RunConfig
from radt.errors import RadtError
from radt.experiments.experiment import Row, Study, add
from radt.experiments.page import arms_picture
from radt.experiments.rows import rule_of, scored
from radt.files import open_own
from radt.metrics import late_score
from radt.plots.records import Record, label_of, success_above
from radt.runs.compare import any_config
from radt.runs.run import conflicts
from radt.variants import Variant, arm

Tries = list[tuple[RunConfig, dict[str, Any]]]  # each with its line
LOG = "tuning.jsonl"
TUNE = "split=tune"  # of every run here


def lines_of(results: Path) -> Iterator[dict[str, Any]]:
    """Read every try, in order."""
    file = results / LOG
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        yield dict(json.loads(text))


def tries_of(results: Path, env: str) -> Counter[str]:
    """Count the tries on an environment, by label."""
    return Counter(label_of(line) for line in lines_of(results) if line["env"] == env)


def tries_on_record(results: Path) -> Tries:
    """Read the tries that say all of their config; those of other versions are left out."""
    found: Tries = []
    for line in lines_of(results):
        try:
            found.append((any_config(dict(line["config"]), LOG), line))
        except (RadtError, ValueError, KeyError):  # with options that are gone
            continue
    return found


def is_among(tries: Tries, config: RunConfig) -> bool:
    """Tell whether a try with these values is on record."""
    return any(_same(known, config) for known, _ in tries)


def rows_tried(tries: Tries, config: RunConfig) -> list[Row]:
    """Make rows of the tries with these values; what each task earned is not on record."""
    return [
        {
            "label": config.label,
            "method": config.method,
            "env": line["tested_on"],
            "tasks": "tune" if line["tested_on"] == config.env else line["tested_on"],
            "rule": line.get("rule") or rule_of(line),
            "condition": "" if line.get("fold") is None else f"fold {line['fold']}",
            "seeds": 1,
            "score": line["score"],
            "ci95": line.get("ci95_tasks"),
            "improves": _bought(line),
            "improves_ci95": None,
            "gain": line["improvement"],
            "normalised": None,
            "per_task": line.get("per_task"),
            "controls": line.get("controls"),
            "prepared": line.get("prepared"),
            "fold": line.get("fold"),
        }
        for known, line in tries
        if _same(known, config)
    ]


def _same(known: RunConfig, config: RunConfig) -> bool:
    named = ("env", "seed", "label", "fold")  # soon compared
    return all(getattr(known, n) == getattr(config, n) for n in named) and not conflicts(
        known, config
    )


def note_try(results: Path, record: Record) -> dict[str, Any]:
    """Append one line about each score of a run on the tuning split, and return the first."""
    own = {"returns": record["returns"], "env": record["env"], "rule": rule_of(record)}
    beside = {name: record.get(name, {}) for name in ("controls", "rules")}
    places = {
        str(record["env"]): {**own, **beside},
        **{place: {**own, **part} for place, part in record.get("variants", {}).items()},
    }
    told = [_line(record, place, part) for place, part in places.items()]
    with open_own(results / LOG) as file:
        file.writelines(f"{json.dumps(line)}\n".encode() for line in told)
    return told[0]


def _bought(line: Mapping[str, Any]) -> float | None:
    """Return what memory bought a try; None where it was not erased."""
    erased = (line.get("controls") or {}).get("erased")
    return None if erased is None else round(line["score"] - erased, 2)


def _scores(parts: Mapping[str, Record]) -> dict[str, float]:
    return {
        name: round(float(late_score(np.array(part["returns"])).mean()), 2)
        for name, part in parts.items()
    }


def _line(record: Record, place: str, part: Mapping[str, Any]) -> dict[str, Any]:
    returns = np.array([part["returns"]], dtype=np.float64)  # [1, task, trial]
    row = scored(returns, range(returns.shape[1]), above=success_above(record))
    return {
        "env": record["env"],
        "label": label_of(record),
        "method": record["method"],
        "config": record["config"],
        "fold": record["config"].get("fold"),
        "tested_on": place,
        "rule": part["rule"],
        "action_rule": record.get("action_rule"),
        "score": round(row["score"], 2),
        "ci95_tasks": [round(bound, 2) for bound in row["ci95_tasks"]],
        "improvement": round(row["gain"], 2),
        "by_trial": {n: round(value, 2) for n, value in row["at_trial"].items()},
        "solved_by": row["solved_by"],
        "return_after_success": row["return_after_success"],
        "tasks": returns.shape[1],
        "per_task": {name: round(value, 3) for name, value in row["per_task"].items()},
        "controls": _scores(part.get("controls", {})),
        "rules": {
            name: {**_scores({"score": one}), **_scores(one.get("controls", {}))}
            for name, one in part.get("rules", {}).items()
        },
        "prepared": record.get("prepared"),
        "wall_seconds": record["wall_seconds"],
        "threads": record.get("threads"),
        "code_version": record.get("code_version"),
    }


def held_out(env: str, rows: tuple[str | Variant, ...], fold: int, *sets: str) -> Study:
    """Train rows without one fold of the training tasks, and score them on it."""
    return Study(
        env,
        rows,
        seeds=1,
        sets=(TUNE, f"fold={fold}", "learn.evaluate_every=0", *sets),
        rules=(),
        controls=("erased", "rewarded-only", "oracle"),
    )


OWN_TASK = arm(
    "ra-dt@first-step-queries",
    "ra-dt",
    {"options": {"training": {"query_offsets": (0,), "dedup": None, "cut_off": None}}},
    note="asks by the first step of a window, so that most chunks are drawn from the own task",
)

add(
    name="tuning",
    paper="Not in the paper: settings are chosen on the last fifth of the training tasks.",
    kind="tune",
    studies=(Study("dark-room-10x10", ("ra-dt", OWN_TASK, "ra-dt+"), 1, (TUNE,)),),
)

FASTER = {"learn": {"learning_rate": 3e-3}}
DROPOUT = {"options": {"model": {"dropout": 0.1}}}
GOOD = {"options": {"top_fraction": 0.4}}
TRIES: dict[str, dict[str, dict[str, Any]]] = {  # beside each row as it is
    "ad": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "gap-50": {"options": {"episode_gap": 50}}},
    "dpt": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "set-100": {"options": {"set_size": 100}}},
    "dt-2ep": {"lr-0.003": FASTER, "dropout-0.1": DROPOUT, "top-0.4": GOOD},
}

add(
    name="tuning-baselines",
    paper="Not in the paper: settings of the baselines, chosen as those of RA-DT are.",
    kind="tune",
    studies=(
        held_out(
            "dark-room-10x10",
            (
                *TRIES,
                *(
                    arm(f"{row}@{name}", row, values)
                    for row, tries in TRIES.items()
                    for name, values in tries.items()
                ),
            ),
            fold=FOLDS - 1,
        ),
    ),
    picture=arms_picture,
)
