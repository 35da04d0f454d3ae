"""What an experiment is: which runs, what is asked of them, and what the paper claims of it.

An entry is data. It names environments and rows; how runs are made, kept and drawn is the same for
all. A file outside the package adds one by standing in $RADT_PLUGINS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from radt.action_rules import RULES
from radt.config import Budget, RunConfig
from radt.errors import RadtError
from radt.methods.controls import CONTROLS
from radt.registry import Registry
from radt.variants import PLAIN, Variant, laid, variant

ERASED = CONTROLS[0]
Row = dict[str, Any]  # one row of `result.json`
Kind = Literal["compare", "reuse", "tune", "data", "bench"]
Word = Literal["holds", "does not", "not reachable", "open"]
WORDS: tuple[Word, ...] = ("holds", "does not", "not reachable", "open")
OLDER = "with older values"  # the condition of a row whose record had another config


class ExperimentError(RadtError, ValueError):
    """An experiment that cannot be run as it is; the message says what to do."""


@dataclass(frozen=True)
class Verdict:
    """What came of a claim, and why in one sentence."""

    word: Word
    why: str


Judge = Callable[[Sequence[Row]], Verdict]


def decided(holds: bool, fails: bool, told: Sequence[str]) -> Verdict:
    """Say what came of a claim: it holds, surely does not, or neither can be told."""
    return Verdict("holds" if holds else "does not" if fails else "open", "; ".join(told))


@dataclass(frozen=True)
class Study:
    """Runs on one environment: each row with some seeds."""

    env: str
    rows: tuple[str | Variant, ...]  # variants, or labels of those that are registered
    seeds: int = 3
    sets: tuple[str, ...] = ()  # values that are the same for all rows, as a.b=c
    smoke: Mapping[str, Any] = field(default_factory=dict)  # laid over its rows in a smoke test
    rules: tuple[str, ...] = RULES  # that the weights are evaluated under in the same job
    controls: tuple[str, ...] = CONTROLS  # and with what their policy may read instead
    wall_minutes: float | None = None  # equal time of training instead of equal updates
    apart: bool = False  # arms of an ablation, kept out of the environment's own table

    @property
    def variants(self) -> list[Variant]:
        """Its rows, without the references that stand in every table."""
        return [variant(row) for row in self.rows]

    def at(self, budget: Budget) -> Study:
        """Return what is run at a budget: a smoke test has one seed, and no time to be equal."""
        if budget != "smoke":
            return self
        rows = [replace(row, overrides=laid(row.overrides, self.smoke)) for row in self.variants]
        return replace(
            self, rows=tuple(rows), seeds=1, wall_minutes=None, rules=(), controls=(ERASED,)
        )

    def only(self, *rows: str, seeds: int = 1) -> Study:
        """Choose the runs of some rows by their labels; weights are kept of seed 0."""
        own = {row if isinstance(row, str) else row.label: row for row in self.rows}
        return replace(self, rows=tuple(own[label] for label in rows), seeds=seeds)


@dataclass(frozen=True)
class Weights:
    """A trained run that something is asked of."""

    env: str
    label: str
    place: Path  # a run's folder or a checkpoint


@dataclass(frozen=True)
class Measurement:
    """What is asked of trained weights, data or configs, and how its answer becomes rows."""

    ask: Callable[[Sequence[Any], Path], None]  # writes the JSON of that name, and pictures beside
    rows: Callable[[Mapping[str, Any]], list[Row]] = lambda answer: []
    together: bool = False  # all weights in one answer, instead of one answer each
    verdict: str | None = None  # where an answer says what was found in words


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One entry of `radt reproduce`."""

    name: str
    paper: str  # the paper's figure, in words
    studies: tuple[Study, ...]
    kind: Kind = "compare"
    claims: Mapping[str, Judge] = field(default_factory=dict)  # by the number of the claim
    measurement: Measurement | None = None  # of what trains nothing
    weights_of: tuple[str, ...] = ()  # the entries whose weights are used
    budgets: tuple[Budget, ...] = ("smoke", "laptop", "paper")
    note: str = ""  # what a reader of its page must know
    picture: Callable[[Sequence[Row], Path], object] | None = None  # drawn from its rows
    summary: Callable[[Sequence[Row]], list[Row]] | None = None  # a table in place of its rows
    missing: Callable[[RunConfig], str] = lambda config: ""  # why a run cannot be made here

    def __post_init__(self) -> None:
        if not PLAIN.fullmatch(self.name):
            raise ExperimentError(
                f"{self.name!r} is no name of an experiment: it names a folder, so use letters, "
                "digits and + . _ @ = -, the first a letter or a digit"
            )
        if (self.kind in ("reuse", "data", "bench")) != (self.measurement is not None):
            raise ExperimentError(
                f"the experiment {self.name} is of kind {self.kind}: reuse, data and bench need a "
                "measurement, compare and tune have none"
            )

    @property
    def claim(self) -> str | None:
        """The claims that it tests, by their numbers."""
        return ", ".join(self.claims) or None

    @property
    def ablates(self) -> bool:
        """Whether its table is of its own rows alone, without references."""
        return any(study.apart for study in self.studies)

    def judged(self, rows: Sequence[Row]) -> dict[str, Verdict]:
        """Say what came of each claim, by the rows that have all their seeds."""
        if not rows:
            return dict.fromkeys(self.claims, Verdict("open", "nothing is measured yet"))
        seeds = {
            (study.env, row.label, study.wall_minutes): study.seeds
            for study in self.studies
            for row in study.variants
        }
        asked = [seeds.get((row["env"], row["label"], row.get("wall_minutes")), 1) for row in rows]
        whole = [
            row for row, least in zip(rows, asked, strict=True) if row.get("seeds", 1) >= least
        ]
        return {claim: judge(whole) for claim, judge in self.claims.items()}


def summed_up(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Sum up: what is said of all claims, or the first that does not hold or is open."""
    if not verdicts:
        return Verdict("open", "the paper claims nothing of this")
    order: tuple[Word, ...] = ("does not", "open", "not reachable", "holds")
    return min(verdicts.values(), key=lambda one: order.index(one.word))


EXPERIMENTS: Registry[Experiment] = Registry("experiments", "experiment")


def add(**fields: Any) -> Experiment:
    """Build an experiment of its fields, and register it under its name."""
    experiment = Experiment(**fields)
    return EXPERIMENTS.register(experiment.name, experiment)
