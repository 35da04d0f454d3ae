"""What rows cost, from what their records have measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from radt.envs.suite import SUITES

Measured = Mapping[str, Any]  # one `icl.json`


@dataclass(frozen=True)
class Expense:
    """What a method costs; None where nothing was measured or there is nothing to measure."""

    minutes: float = 0.0  # wall time of a run, mean over seeds
    parameters: int | None = None  # of its own networks
    frozen_parameters: int = 0  # of a public model that embeds for it
    input_steps: int | None = None  # context that is the policy's own input
    retrieved_steps: int | None = None  # context that is retrieved
    tokens_per_decision: float | None = None
    flops_per_decision: float | None = None
    targets_per_update: float | None = None  # actions that a batch asks for
    updates: int | None = None
    batch_size: int | None = None
    cached: bool | None = None  # whether decisions keep keys and values of earlier ones
    samples_per_second: float | None = None  # training sequences, of the fastest seed
    decisions_per_second: float | None = None  # all tasks at once, of the fastest seed

    @property
    def context_steps(self) -> int | None:
        """What a decision can see, in steps."""
        if self.input_steps is None or self.retrieved_steps is None:
            return None
        return self.input_steps + self.retrieved_steps


def expense_of(records: Sequence[Measured], trained: bool) -> Expense:
    """Put together what the seeds of one method say about its cost."""
    minutes = float(np.mean([sum(record["wall_seconds"].values()) for record in records])) / 60.0
    known: dict[str, Any] = {
        "samples_per_second": _fastest(records, "samples_per_second", _samples_of_all_training),
        "decisions_per_second": _fastest(records, "decisions_per_second", _decisions_of_all_trials),
    }
    if trained:
        config = records[0].get("config", {})
        learn = config.get("learn", {})
        known |= {name: learn.get(name) for name in ("updates", "batch_size")}
        options = config.get("options", {})
        known["cached"] = bool(options.get("cache")) or options.get("window_step", 1) > 1
        known["parameters"] = next((r["parameters"] for r in records if r.get("parameters")), None)
        costs: list[Measured] = [record["cost"] for record in records if record.get("cost")]
        counted = Expense.__dataclass_fields__.keys() & (costs[0] if costs else {})
        known |= {name: costs[0][name] for name in counted}
        # How often a memory's answer changes, and is read anew, depends on what was learned.
        known["flops_per_decision"] = mean_of_known([c.get("flops_per_decision") for c in costs])
    return Expense(minutes, **known)


def _fastest(
    records: Sequence[Measured], name: str, overall: Callable[[Measured], float | None]
) -> float | None:
    """Return the speed of the fastest run; older ones have timed only the whole of it."""
    measured = [(record.get("speed") or {}).get(name) for record in records]
    known = list(filter(None, measured)) or list(filter(None, map(overall, records)))
    return max(known, default=None)


def _samples_of_all_training(record: Measured) -> float | None:
    """Return sequences per second of training, looks at validation tasks included."""
    learn, seconds = record.get("config", {}).get("learn"), record["wall_seconds"].get("train")
    return learn["updates"] * learn["batch_size"] / seconds if learn and seconds else None


def _decisions_of_all_trials(record: Measured) -> float | None:
    """Return decisions per second of an evaluation, as if every trial had its full length."""
    seconds = record["wall_seconds"].get("evaluate")
    if not seconds or record["env"] not in SUITES.names():
        return None
    trials = sum(map(len, record["returns"])) * (1 + len(record.get("variants", {})))
    return float(trials * SUITES[record["env"]].spaces.horizon / seconds)


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Average what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
