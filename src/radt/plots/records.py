"""Results as they lie on disk (`icl.json`), put together by method: what came out, what it cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.checkpoint import read_header
from radt.config import TRAINING_TASKS
from radt.envs.suite import SUITES
from radt.envs.suite import source_of as suite_source
from radt.errors import RadtError
from radt.methods import METHODS
from radt.metrics import decimals
from radt.old_names import translated
from radt.plots.style import in_order
from radt.runs.run import CHECKPOINT

Record = Mapping[str, Any]  # one `icl.json`
LEARNED_TASKS = "tasks that were learned from"
DATA = "dataset.json"  # what is known of a run's data, beside its record
NEEDED = ("env", "method", "seed", "split", "tasks", "returns", "optimum", "wall_seconds")


class RecordError(RadtError, ValueError):
    """Records that cannot be read or do not belong together; the message says what to do."""


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


@dataclass(frozen=True)
class Outcome:
    """What one method did on the tasks of one environment, with all its seeds."""

    method: str
    env: str
    seeds: tuple[int, ...]
    returns: NDArray[np.float64]  # [seed, task, trial]
    optimum: float | None  # mean over tasks
    solved_above: float = 0.0  # a trial that earns more has found its goal
    expense: Expense = field(default_factory=Expense)
    source: str | None = None  # the data source; None: there was none
    trained_on: str = ""  # the same in words, where it is not the environment's usual source

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.returns.shape[1])

    @property
    def trials(self) -> int:
        """The number of trials on each task."""
        return int(self.returns.shape[2])

    def of_seeds(self, seeds: Sequence[int]) -> NDArray[np.float64]:
        """Take the returns of some seeds, in the order given."""
        return self.returns[[self.seeds.index(seed) for seed in seeds]]


def read_record(path: Path) -> dict[str, Any]:
    """Read one `icl.json`, and what lies beside it: a checkpoint's size, the hash of its data."""
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
    facts = path.with_name(DATA)
    if facts.exists():
        record["data_sha256"] = _data_sha256(facts)
    return dict(record)


def _data_sha256(facts: Path) -> str:
    try:
        return str(json.loads(facts.read_text(encoding="utf-8"))["card"]["sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{facts} does not say which data were learned from: {error!r}") from None


def outcomes(records: Sequence[Record], variant: str | None = None) -> list[Outcome]:
    """Group records by method, on their own environment or on a variant of it."""
    if not records:
        raise RecordError("there are no results to show; give at least one icl.json")
    check_comparable(records)
    chosen = [r for r in records if variant is None or variant in r.get("variants", {})]
    return [_outcome(same, variant) for same in by_method(chosen).values()]


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group records by method, in the order of tables, and by seed within it."""
    methods = in_order({str(record["method"]) for record in records})
    ordered = sorted(records, key=lambda record: int(record["seed"]))
    return {name: [r for r in ordered if r["method"] == name] for name in methods}


def learns(record: Record) -> bool:
    """Tell whether a record's method was trained; one that is not registered here was."""
    method = str(record["method"])
    return method not in METHODS.names() or METHODS[method].learns


def source_of(record: Record) -> str | None:
    """Name the data source of a record; None: there was none, or it does not say."""
    if not learns(record) or "config" not in record:
        return None
    config = {"source": "ppo", **record["config"]}  # older ones had no choice
    return str(translated(config, config)["source"])


def trained_on(records: Sequence[Record]) -> str:
    """Say whose data were learned from, where it is not the environment's usual source; else ''."""
    learned = by_method([record for record in records if source_of(record) is not None])
    told: dict[str, list[str]] = {}
    for method, same in learned.items():
        usual = suite_source(SUITES[str(same[0]["config"].get("env", same[0]["env"]))])
        for source in sorted({str(source_of(record)) for record in same} - {usual}):
            told.setdefault(source, []).append(method)
    return "; ".join(
        ("" if len(methods) == len(learned) else f"{', '.join(methods)} ")
        + f"trained on {source} data"
        for source, methods in told.items()
    )


def titled(title: str, records: Sequence[Record]) -> str:
    """Add to a title whose data were learned from, where that is not as usual."""
    return ", ".join(filter(None, (title, trained_on(records))))


def digits_of(records: Sequence[Record]) -> int:
    """Return how many decimals the returns of these tasks are told with."""
    return decimals(outcomes(records)[0].optimum)


def kind_of_tasks(split: str, place: str = "") -> str:
    """Say what the tasks of a split are to the agent; `place` is another environment, if any."""
    if place == TRAINING_TASKS:
        return LEARNED_TASKS
    return "unseen tasks" if split == "final" else "validation tasks"


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
    parts = [r if variant is None else r["variants"][variant] for r in records]
    return Outcome(
        method=str(records[0]["method"]),
        env=str(records[0]["env"] if variant is None else variant),
        seeds=tuple(int(record["seed"]) for record in records),
        returns=np.array([part["returns"] for part in parts], dtype=np.float64),
        optimum=_mean_or_none(parts[0]["optimum"]),
        solved_above=float(records[0].get("solved_above", 0.0)),
        expense=expense_of(records, trained=learns(records[0])),
        source=" and ".join(sorted(set(filter(None, map(source_of, records))))) or None,
        trained_on=trained_on(records),
    )


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    return None if None in values else mean_of_known(values)


def expense_of(records: Sequence[Record], trained: bool) -> Expense:
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
        costs: list[Record] = [record["cost"] for record in records if record.get("cost")]
        counted = Expense.__dataclass_fields__.keys() & (costs[0] if costs else {})
        known |= {name: costs[0][name] for name in counted}
        # How often a memory's answer changes, and is read anew, depends on what was learned.
        known["flops_per_decision"] = mean_of_known([c.get("flops_per_decision") for c in costs])
    return Expense(minutes, **known)


def _fastest(
    records: Sequence[Record], name: str, overall: Callable[[Record], float | None]
) -> float | None:
    """Return the speed of the fastest run; older ones have timed only the whole of it."""
    measured = [(record.get("speed") or {}).get(name) for record in records]
    known = list(filter(None, measured)) or list(filter(None, map(overall, records)))
    return max(known, default=None)


def _samples_of_all_training(record: Record) -> float | None:
    """Return sequences per second of training, looks at validation tasks included."""
    learn, seconds = record.get("config", {}).get("learn"), record["wall_seconds"].get("train")
    return learn["updates"] * learn["batch_size"] / seconds if learn and seconds else None


def _decisions_of_all_trials(record: Record) -> float | None:
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
