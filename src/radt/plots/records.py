"""Results as they lie on disk (`icl.json`), put together by method for tables and pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.checkpoint import read_header
from radt.experiments.run import CHECKPOINT

Record = Mapping[str, Any]  # one `icl.json`
ORDER = ("dt", "ra-dt", "ra-dt+", "replay", "retrace", "sweep")  # others follow by name
NEEDED = ("env", "method", "seed", "split", "tasks", "returns", "optimum", "wall_seconds")


class RecordError(ValueError):
    """Records that cannot be read or do not belong together; the message says what to do."""


@dataclass(frozen=True)
class Outcome:
    """What one method did on the tasks of one environment, with all its seeds."""

    method: str
    env: str
    seeds: tuple[int, ...]
    returns: NDArray[np.float64]  # [seed, task, trial]
    optimum: float | None  # mean over tasks
    parameters: int | None  # of all networks; None where unknown
    minutes: float  # wall time of a run, mean over seeds

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.returns.shape[1])

    @property
    def trials(self) -> int:
        """The number of trials on each task."""
        return int(self.returns.shape[2])


def read_record(path: Path) -> dict[str, Any]:
    """Read one `icl.json`; parameters are counted in the checkpoint beside it, if there is one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"there is no result at {path}; make it with `radt evaluate`") from None
    except ValueError as error:
        raise RecordError(f"{path} is no JSON ({error}); delete it and evaluate again") from error
    missing = [name for name in NEEDED if not isinstance(record, dict) or name not in record]
    if missing:
        raise RecordError(
            f"{path} is no result of an evaluation: it lacks {', '.join(missing)}; give the "
            "icl.json of a run"
        )
    checkpoint = path.with_name(CHECKPOINT)
    if "parameters" not in record and checkpoint.exists():
        shapes, _ = read_header(checkpoint)
        record["parameters"] = sum(math.prod(shape) for shape in shapes.values())
    return dict(record)


def outcomes(records: Sequence[Record], variant: str | None = None) -> list[Outcome]:
    """Group records by method, on their own environment or on a variant of it."""
    if not records:
        raise RecordError("there are no results to show; give at least one icl.json")
    check_comparable(records)
    chosen = [r for r in records if variant is None or variant in r.get("variants", {})]
    methods = sorted({str(record["method"]) for record in chosen}, key=_place)
    return [_outcome([r for r in chosen if r["method"] == name], variant) for name in methods]


def variants(records: Iterable[Record]) -> list[str]:
    """Name the other environments that any of the records was evaluated on."""
    return sorted({name for record in records for name in record.get("variants", {})})


def check_comparable(records: Sequence[Record]) -> None:
    """Refuse records of different tasks or lengths, and two of the same method and seed."""
    first = records[0]
    for name in ("env", "split", "tasks"):
        for record in records:
            if record[name] != first[name]:
                raise RecordError(
                    f"{name} is {first[name]} in one result and {record[name]} in another; "
                    "compare results of the same environment and split"
                )
    if len(lengths := {len(record["returns"][0]) for record in records}) > 1:
        raise RecordError(f"results have {sorted(lengths)} trials; compare equally long ones")
    names = [(record["method"], record["seed"]) for record in records]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        method, seed = twice[0]
        raise RecordError(f"{method} with seed {seed} is given twice; give each run once")


def _outcome(records: Sequence[Record], variant: str | None) -> Outcome:
    """Stack the seeds of one method."""
    ordered = sorted(records, key=lambda record: int(record["seed"]))
    parts = [r if variant is None else r["variants"][variant] for r in ordered]
    seconds = [sum(record["wall_seconds"].values()) for record in ordered]
    return Outcome(
        method=str(ordered[0]["method"]),
        env=str(ordered[0]["env"] if variant is None else variant),
        seeds=tuple(int(record["seed"]) for record in ordered),
        returns=np.array([part["returns"] for part in parts], dtype=np.float64),
        optimum=_mean_or_none(parts[0]["optimum"]),
        parameters=next((int(r["parameters"]) for r in ordered if r.get("parameters")), None),
        minutes=float(np.mean(seconds)) / 60.0,
    )


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _place(method: str) -> tuple[int, str]:
    return (ORDER.index(method) if method in ORDER else len(ORDER), method)
