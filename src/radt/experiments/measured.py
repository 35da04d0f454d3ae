"""What a finished run says about cost and speed, and how its learning went on validation tasks.

Cost is counted from the method itself. Speed is read from the run's log as medians between its
lines, so that a pause, a restart or a look at validation tasks in between does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from radt.costs import measure_cost
from radt.data import Dataset
from radt.data.manifest import MANIFEST
from radt.experiments.run import Run, dataset_path
from radt.methods import METHODS, Method

LOG = "log.jsonl"
PLACE = ("time", "phase", "step")  # of a line; the rest are its values
Line = Mapping[str, Any]  # one line of a log


def measured(run: Run, method: Method) -> dict[str, Any]:
    """Return the parts of `icl.json` that say what a run cost and how it learned."""
    lines, config = read_log(run.out), run.config
    decisions = len(run.tasks[1]) * run.suite.spaces.horizon  # of a trial, all tasks together
    return {
        "cost": cost(run, method),
        "speed": {
            "samples_per_second": times(config.learn.batch_size, updates_per_second(lines)),
            "decisions_per_second": times(decisions, trials_per_second(lines)),
        },
        "learning": validations(lines),
        "embeddings_of_training": embedded(lines),
    }


def cost(run: Run, method: Method) -> dict[str, Any] | None:
    """Count what a method needs; without its dataset the targets of an update stay unknown."""
    if not METHODS[run.config.method].learns:
        return None
    folder = dataset_path(run.config)
    dataset = Dataset.open(folder) if (folder / MANIFEST).is_file() else None
    return asdict(measure_cost(method, dataset, batch_size=run.config.learn.batch_size))


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read a run's log, but for a last line that a killed writer left half."""
    file = folder / LOG
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def updates_per_second(lines: Iterable[Line], phase: str = "train") -> float | None:
    """Return the speed of training, without the looks at validation tasks."""
    training = [line for line in lines if line["phase"] == phase]
    return _speed((a, b) for a, b in pairwise(training) if "loss" in b)


def trials_per_second(lines: Iterable[Line]) -> float | None:
    """Return the speed of the evaluation, its variants included."""
    trials = [line for line in lines if line["phase"] == "evaluate"]
    return _speed((a, b) for a, b in pairwise(trials) if b["step"] == a["step"] + 1)


def validations(lines: Iterable[Line], phase: str = "train") -> list[dict[str, Any]]:
    """List the returns on validation tasks by update; one that was repeated counts once."""
    looks = {
        int(line["step"]): {name: line[name] for name in line if name.startswith("trial_")}
        for line in lines
        if line["phase"] == phase and any(name.startswith("trial_") for name in line)
    }
    return [{"update": update, **looks[update]} for update in sorted(looks)]


def embedded(lines: Iterable[Line]) -> dict[str, Any] | None:
    """Return the latest counts of what a language model embedded in training, if one did."""
    counted = [line for line in lines if line["phase"] == "embed"]
    return {n: v for n, v in counted[-1].items() if n not in PLACE} if counted else None


def times(count: int, per_second: float | None) -> float | None:
    """Multiply a speed that may be unknown."""
    return None if per_second is None else round(count * per_second, 1)


def _speed(pairs: Iterable[tuple[Line, Line]]) -> float | None:
    """Return the median of steps per second between lines that follow each other."""
    known: Sequence[float] = [
        (b["step"] - a["step"]) / (b["time"] - a["time"])
        for a, b in pairs
        if b["step"] > a["step"] and b["time"] > a["time"]
    ]
    return median(known) if known else None
