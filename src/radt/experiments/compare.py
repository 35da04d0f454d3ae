"""A comparison is a set of ordinary runs: which they are, which are finished, where they are kept.

A run works in `OUT/<env>/<method>-seed<k>`. When it is finished, what it says is published as
`RESULTS/<env>/<method>-seed<k>`: its record, config, pictures and summary; weights and logs stay
behind. A published record with the same config is not made again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from radt.config import Budget, Layer, RunConfig, compose, from_json, overrides
from radt.envs.suite import SUITES
from radt.experiments.measured import measured
from radt.experiments.plan import Phase, plan_run
from radt.experiments.presets import preset_layers
from radt.experiments.run import RESULT, Run, RunError, build, conflicts
from radt.files import atomic_write
from radt.methods import METHODS, build_method
from radt.spaces import TaskSpaces

REFERENCES = ("replay", "sweep")  # learn nothing and stand beside every method
KEPT = ("config.json", "choices.json", "dataset.json", "curve*.png", "summary.md", "trials.gif")
CONFLICTS = 3  # so many are named
LOOKS = 4  # at validation tasks, where time decides how many updates there are

State = Literal["published", "finished", "interrupted", "missing"]


@dataclass(frozen=True)
class Comparison:
    """What is compared, under which conditions, and where."""

    env: str
    methods: tuple[str, ...]
    seeds: int = 3
    budget: Budget = "laptop"
    sets: tuple[str, ...] = ()  # values that differ from the presets, as a.b=c
    out: Path = Path("runs")
    results: Path = Path("results")
    wall_minutes: float | None = None  # equal time of training instead of equal updates

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise RunError(f"a comparison needs at least 1 seed, not {self.seeds}")
        if self.wall_minutes is not None and self.wall_minutes <= 0:
            raise RunError(f"minutes of training must be more than 0, not {self.wall_minutes:g}")
        for method in self.methods:
            self.config(method, seed=0)  # an unknown name is an error before anything runs

    @property
    def references(self) -> tuple[str, ...]:
        """The references that can act here; some know grids only."""
        spaces = SUITES[self.env].spaces
        return tuple(name for name in REFERENCES if _can_act(name, spaces))

    @property
    def runs(self) -> Path:
        """The folder that the runs work in."""
        wall = "" if self.wall_minutes is None else f"-wall{self.wall_minutes:g}"
        return self.out / f"{self.env}{wall}"

    @property
    def published(self) -> Path:
        """The folder of the records that are kept, and of the table."""
        folder = self.results / self.env
        return folder if self.wall_minutes is None else folder / f"wall-{self.wall_minutes:g}min"

    def names(self) -> Iterator[tuple[str, int]]:
        """List methods and seeds in the order of work: a whole table with one seed comes first."""
        methods = dict.fromkeys((*self.references, *self.methods))
        for seed in range(self.seeds):
            yield from ((method, seed) for method in methods)

    def config(self, method: str, seed: int, updates: int | None = None) -> RunConfig:
        """Compose a run's config; `updates` are as many as fit the time."""
        over = [overrides(_sets_for(method, self.sets))]
        if updates is not None:
            looks = Layer("equal time", {"learn": {"evaluate_every": max(1, updates // LOOKS)}})
            over = [looks, *over, Layer("equal time", {"learn": {"updates": updates}})]
        layers = preset_layers(self.env, method, self.budget, *over)
        return compose([*layers, Layer("comparison", {"seed": seed})])[0]


@dataclass(frozen=True)
class Entry:
    """One run of a comparison, and how far it has come."""

    config: RunConfig
    out: Path  # where it works
    published: Path  # where it is kept
    state: State
    phases: tuple[Phase, ...]
    minutes: float  # estimated, of what is left; the dataset, which all share, not counted

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.out.name

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "run": self.name,
            "state": self.state,
            "minutes": round(self.minutes, 2),
            "updates": self.config.learn.updates if METHODS[self.config.method].learns else None,
            "out": str(self.out),
            "published": str(self.published),
        }


def entry(comparison: Comparison, method: str, seed: int, updates: int | None = None) -> Entry:
    """Look at one run: its config, how far it has come, and what is left."""
    config = comparison.config(method, seed, updates)
    name = f"{method}-seed{seed}"
    out, published = comparison.runs / name, comparison.published / name
    state = state_of(config, out, published)
    phases = tuple(plan_run(config, out)) if state in ("interrupted", "missing") else ()
    minutes = {phase.name: phase.minutes for phase in phases if not phase.done}
    if comparison.wall_minutes is not None and "train" in minutes:
        minutes |= {"train": comparison.wall_minutes, "embedder": 0.0}  # one cap for both
    left = sum(spent for phase, spent in minutes.items() if phase != "collect")
    return Entry(config, out, published, state, phases, left)


def state_of(config: RunConfig, out: Path, published: Path) -> State:
    """Say how far a run has come; a record of another config is never replaced."""
    if (published / RESULT).exists():
        _check_same(config, published)
        return "published"
    if not (out / "config.json").exists():
        return "missing"
    _check_same(config, out)
    return "finished" if (out / RESULT).exists() else "interrupted"


def publish(out: Path, folder: Path) -> None:
    """Keep what a finished run says; its record comes last, so that half a copy is none."""
    for pattern in KEPT:
        for file in sorted(out.glob(pattern)):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / file.name)
    atomic_write(folder / RESULT, (out / RESULT).read_bytes())
    complete(out, folder)


def complete(out: Path, folder: Path) -> None:
    """Add to a published record what an older version left out; `out` is where the log may lie.

    Costs are counted, not measured, and need no trained weights: they follow from the config.
    """
    record = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    if "cost" in record:
        return
    run = Run(read_config(folder), out)
    record |= measured(run, build(run))
    atomic_write(folder / RESULT, (json.dumps(record) + "\n").encode())


def collect_minutes(entries: Sequence[Entry]) -> float:
    """Estimate how long the datasets take that are still missing, each counted once."""
    missing = {
        phase.where: phase.minutes
        for one in entries
        for phase in one.phases
        if phase.name == "collect" and not phase.done
    }
    return sum(missing.values())


def read_config(folder: Path) -> RunConfig:
    """Read the config of a run or of a record, of this version or an older one."""
    file = folder / "config.json"
    return any_config(json.loads(file.read_text(encoding="utf-8")), str(file))


def any_config(values: dict[str, Any], where: str) -> RunConfig:
    """Decode the config of a run of this version or an older one."""
    if METHODS[values["method"]].embedder is None:
        values = {**values, "embedder": None}  # version 0.1 wrote one down for every method
    return from_json(values, where=where)


def _check_same(config: RunConfig, folder: Path) -> None:
    """Refuse a folder whose run had other values."""
    try:
        changes = conflicts(read_config(folder), config)
    except (OSError, ValueError) as error:
        changes = [f"its config cannot be read: {error}"]
    if changes:
        more = [f"and {len(changes) - CONFLICTS} more"] if len(changes) > CONFLICTS else []
        raise RunError(
            f"{folder} holds a run with other values:\n  "
            + "\n  ".join([*changes[:CONFLICTS], *more])
            + "\nGive the same values, choose another --out and --results, or delete the folder."
        )


def _can_act(reference: str, spaces: TaskSpaces) -> bool:
    try:
        build_method(reference, spaces, METHODS[reference].options(), None, seed=0)
    except ValueError:
        return False
    return True


def _sets_for(method: str, sets: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what a method cannot be told: one without an embedder, or that learns nothing."""
    entry = METHODS[method]
    has = {"options": entry.learns, "embedder": entry.embeds}
    return tuple(text for text in sets if has.get(text.partition(".")[0], True))
