"""Results as they lie on disk (`icl.json`), put together by row: what came out, what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.config import TRAINING_TASKS
from radt.envs.suite import SUITES
from radt.envs.suite import source_of as suite_source
from radt.errors import RadtError
from radt.methods import METHODS
from radt.metrics import decimals
from radt.old_names import translated
from radt.plots.style import in_order

Record = Mapping[str, Any]  # one `icl.json`
LEARNED_TASKS = "tasks that were learned from"
UNSEEN = "unseen tasks"
KINDS = {"final": UNSEEN, "eval": UNSEEN, "tune": "validation tasks", "train": LEARNED_TASKS}
DATA = "dataset.json"  # what is known of a run's data, beside its record


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
    """What one row did on the tasks of one environment, with all its seeds."""

    label: str
    env: str
    seeds: tuple[int, ...]
    returns: NDArray[np.float64]  # [seed, task, trial]
    optima: NDArray[np.float64] | None = None  # [task] the best possible returns, where known
    solved_above: float | None = None  # a trial that earns more has solved its task; None: none has
    bounds: NDArray[np.float64] | None = None  # [2, task] returns that are normalised to 0 and 1
    controls: Mapping[str, Outcome] = field(default_factory=dict)  # the same weights, less memory
    rules: Mapping[str, Outcome] = field(default_factory=dict)  # by other rules of action
    rule: str = ""  # the values of its rule; '': it does not act by one
    expense: Expense = field(default_factory=Expense)
    source: str | None = None  # the data source; None: there was none
    trained_on: str = ""  # the same in words, where it is not the environment's usual source
    data: Mapping[str, float] | None = None  # mean and best return of what it learned from

    @property
    def optimum(self) -> float | None:
        """The mean of the best possible returns."""
        return None if self.optima is None else float(self.optima.mean())

    @property
    def digits(self) -> int:
        """How many decimals its returns are told with."""
        return decimals(self.optimum, float(np.abs(self.returns).max()))

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


def outcomes(records: Sequence[Record], variant: str | None = None) -> list[Outcome]:
    """Group records by label, on their own environment or on a variant of it."""
    if not records:
        raise RecordError("there are no results to show; give at least one icl.json")
    check_comparable(records)
    chosen = [r for r in records if variant is None or variant in r.get("variants", {})]
    return [_outcome(same, variant) for same in by_label(chosen).values()]


def label_of(record: Record) -> str:
    """Name the row that a record belongs to; older ones have only a method."""
    return str(record.get("label", record["method"]))


def success_above(record: Record) -> float | None:
    """Return what a trial that succeeds exceeds; None: its suite declares no success."""
    above = record.get("solved_above", 0.0)
    return None if above is None else float(above)


def by_label(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group records by label, in the order of tables, and by seed within it."""
    ordered = sorted(records, key=lambda record: int(record["seed"]))
    return {
        label: [record for record in ordered if label_of(record) == label]
        for label in in_order(map(label_of, records))
    }


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
    learned = by_label([record for record in records if source_of(record) is not None])
    told: dict[str, list[str]] = {}
    for label, same in learned.items():
        env = str(same[0]["config"].get("env", same[0]["env"]))
        usual = suite_source(SUITES[env]) if env in SUITES.names() else "ppo"
        for source in sorted({str(source_of(record)) for record in same} - {usual}):
            told.setdefault(source, []).append(label)
    return "; ".join(
        ("" if len(labels) == len(learned) else f"{', '.join(labels)} ")
        + f"trained on {source} data"
        for source, labels in told.items()
    )


def titled(title: str, records: Sequence[Record]) -> str:
    """Add to a title whose data were learned from, where that is not as usual."""
    return ", ".join(filter(None, (title, trained_on(records))))


def digits_of(records: Sequence[Record]) -> int:
    """Return how many decimals the returns of these tasks are told with."""
    return outcomes(records)[0].digits


def acts_by_rule(record: Record) -> bool:
    """Tell whether a rule of action does anything: the head `mse` leaves it no choice."""
    env, options = str(record["env"]), record.get("config", {}).get("options", {})
    if env not in SUITES.names() or SUITES[env].spaces.action.kind == "discrete":
        return True
    return bool(options.get("model", {}).get("action_head", "mse") != "mse")


def rule_in_words(record: Record, part: Record) -> str:
    """List the values of a rule of action; '' where none acts."""
    values = part.get("action_rule", {}) if acts_by_rule(record) else {}
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def kind_of_tasks(split: str, place: str = "") -> str:
    """Say what the tasks of a split are to the agent; `place` is another environment, if any."""
    if place == TRAINING_TASKS:
        return LEARNED_TASKS
    return KINDS.get(split, f"tasks of the split {split}")


def variants(records: Iterable[Record]) -> list[str]:
    """Name the other environments that any of the records was evaluated on."""
    return sorted({name for record in records for name in record.get("variants", {})})


def check_comparable(records: Sequence[Record]) -> None:
    """Refuse records of different tasks or lengths, and two of the same label and seed."""
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
    names = [(label_of(record), record["seed"]) for record in records]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        label, seed = twice[0]
        raise RecordError(f"{label} with seed {seed} is given twice; give each run once")


def _outcome(records: Sequence[Record], variant: str | None) -> Outcome:
    first = records[0]
    parts = {int(r["seed"]): r if variant is None else r["variants"][variant] for r in records}
    own = next(iter(parts.values()))
    above = success_above(first)
    alike = Outcome(
        label=label_of(first),
        env=str(first["env"] if variant is None else variant),
        seeds=tuple(parts),
        returns=_stacked(parts.values()),
        optima=None if None in own["optimum"] else np.array(own["optimum"], dtype=np.float64),
        solved_above=above,
        bounds=_bounds(own),
        rule=rule_in_words(first, first),
    )
    rules = {
        name: _also(alike, named, rule=rule_in_words(first, next(iter(named.values()))))
        for name, named in _named(parts, "rules").items()
    }
    return replace(
        _also(alike, parts),
        rules=rules,
        expense=expense_of(records, trained=learns(first)),
        source=" and ".join(sorted(set(filter(None, map(source_of, records))))) or None,
        trained_on=trained_on(records),
        data=first.get("data"),
    )


def _also(outcome: Outcome, parts: Mapping[int, Record], **changes: Any) -> Outcome:
    """Return what came out on the same tasks in parts of records by seed, with its controls."""
    controls = {
        name: replace(outcome, seeds=tuple(named), returns=_stacked(named.values()))
        for name, named in _named(parts, "controls").items()
    }
    returns = _stacked(parts.values())
    return replace(outcome, seeds=tuple(parts), returns=returns, controls=controls, **changes)


def _named(parts: Mapping[int, Record], kind: str) -> dict[str, dict[int, Record]]:
    """Turn what parts hold by name, each by seed, around: by name, then by seed."""
    names = dict.fromkeys(name for part in parts.values() for name in part.get(kind) or {})
    return {
        name: {seed: p[kind][name] for seed, p in parts.items() if name in (p.get(kind) or {})}
        for name in names
    }


def _stacked(parts: Iterable[Record]) -> NDArray[np.float64]:
    return np.array([part["returns"] for part in parts], dtype=np.float64)  # [seed, task, trial]


def _bounds(part: Record) -> NDArray[np.float64] | None:
    scoring = part.get("scoring") or {}
    if not scoring.get("low") or not scoring.get("high"):
        return None
    return np.array([scoring["low"], scoring["high"]], dtype=np.float64)  # [2, task]


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
        flops = [cost.get("flops_per_decision") for cost in costs]
        counted_flops = [one for one in flops if one is not None]
        known["flops_per_decision"] = float(np.mean(counted_flops)) if counted_flops else None
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
