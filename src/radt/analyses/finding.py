"""What an analysis leaves: a picture, the numbers behind it, and a verdict in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.experiments.evaluate import Trials
from radt.files import atomic_write
from radt.metrics import Interval, crossed_interval
from radt.version import code_version

RESAMPLES = 2000


@dataclass(frozen=True)
class Finding:
    """What came out of an analysis."""

    analysis: str
    verdict: str
    numbers: Mapping[str, Any]
    trials: Trials
    picture: Path

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with what they were measured on."""
        return {
            "analysis": self.analysis,
            "verdict": self.verdict,
            "env": self.trials.suite.name,
            "tasks": list(self.trials.tasks),
            "trials": self.trials.count,
            "seed": self.trials.seed,
            **self.numbers,
            "code_version": code_version(),
        }


def write_finding(finding: Finding) -> Path:
    """Write the numbers and the verdict beside the picture."""
    path = finding.picture.with_suffix(".json")
    atomic_write(path, (json.dumps(finding.to_json(), indent=1) + "\n").encode())
    return path


def over_tasks(scores: Iterable[float]) -> Interval | None:
    """Average one score a task, with 95 % over tasks; None where there is no task."""
    known = np.array(list(scores), dtype=np.float64)[None]  # [1, task]
    if not known.size:
        return None
    return crossed_interval(known, np.random.default_rng(0), RESAMPLES)  # the same each time


def mean_by(task: NDArray[Any], values: NDArray[np.float64]) -> list[float]:
    """Average values [N] within each task [N], so that each task counts once."""
    return [float(values[task == one].mean()) for one in np.unique(task)]


def plain(interval: Interval | None) -> dict[str, float] | None:
    """Put an interval into plain values."""
    if interval is None:
        return None
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def percent(interval: Interval | None) -> str:
    """Write a share with its interval, in percent."""
    if interval is None:
        return "-"
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"
