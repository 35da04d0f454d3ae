"""A comparison is a set of ordinary runs: which they are, which are finished, where they are kept.

A run works in `OUT/<env>/<label>-seed<k>`. When it is finished, what it says is published as
`RESULTS/<env>/<label>-seed<k>`: its record, config, pictures and summary; of seed 0 also
its weights, where they are small. A published record with the same config is not made again.

Equal wall time is a number of updates: as many as fit some minutes of training on this machine. It
becomes part of a run's config, so that the run stays exactly repeatable and can be resumed.
Everything that comes before the first update counts as well: an embedder's training and the filling
of an index, at its full price where vectors of an earlier process were found.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any, Literal

from radt.config import Budget, Layer, RunConfig, compose, from_json, overrides
from radt.data import Dataset
from radt.decode import decode, read_json
from radt.envs.suite import SUITES
from radt.errors import RunError
from radt.files import atomic_write
from radt.methods import METHODS, build_method
from radt.runs.plan import Phase, plan_run
from radt.runs.presets import preset_layers
from radt.runs.provenance import Line, Stopwatch, machine, read_log, updates_per_second
from radt.runs.run import CHECKPOINT, RESULT, Run, conflicts, outcome_values
from radt.runs.train import encode_images, train_run
from radt.spaces import TaskSpaces
from radt.variants import Variant, resolved, variant
from radt.version import code_version

IN_ANY_SUITE = ("nearest", "random")
REFERENCES = ("nearest", "replay", "sweep", "random")  # learn nothing and stand in every table
KEPT = ("config.json", "choices.json", "dataset.json", "curve*.png", "summary.md", "trials.gif")
SMALL = 3_000_000  # bytes of weights that are kept: those of seed 0, for what reuses them
CONFLICTS = 3  # so many are named
LOOKS = 4  # at validation tasks, where time decides how many updates there are
TIMED = 60  # updates, of the policy and of an embedder, that a pace is measured over
LOGGED = 5  # updates between two readings of the clock; their median counts
MULTIPLE = 50  # updates are rounded down to it

State = Literal["published", "changed", "finished", "interrupted", "missing"]


@dataclass(frozen=True)
class Comparison:
    """What is compared, under which conditions, and where."""

    env: str
    methods: tuple[str | Variant, ...]  # rows: variants, or labels of such
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
        for row in self.rows:
            self.config(row, seed=0)  # an unknown name is an error before anything runs

    @property
    def rows(self) -> list[Variant]:
        """What is compared: the references that can act here, then what was asked for."""
        asked = [variant(row) for row in self.methods]
        rows = {row.label: row for row in (*map(variant, self.references), *asked)}
        for row in asked:
            if rows[row.label] != row:
                raise RunError(f"two rows are called {row.label!r}; give each a label of its own")
        return list(rows.values())

    @property
    def references(self) -> tuple[str, ...]:
        """The references that make sense here: some look for what solves a task, or know grids."""
        spaces = SUITES[self.env].spaces
        wanted = REFERENCES if spaces.solved_above is not None else IN_ANY_SUITE
        return tuple(name for name in wanted if _can_act(name, spaces))

    @property
    def runs(self) -> Path:
        wall = "" if self.wall_minutes is None else f"-wall{self.wall_minutes:g}"
        return self.out / f"{self.env}{wall}"

    @property
    def published(self) -> Path:
        """The folder of the records that are kept, and of the table."""
        folder = self.results / self.env
        return folder if self.wall_minutes is None else folder / f"wall-{self.wall_minutes:g}min"

    def names(self) -> Iterator[tuple[Variant, int]]:
        """List rows and seeds in the order of work: a whole table with one seed comes first."""
        for seed in range(self.seeds):
            yield from ((row, seed) for row in self.rows)

    def times(self, row: str | Variant) -> bool:
        """Whether time decides how many updates a row gets."""
        return self.wall_minutes is not None and METHODS[variant(row).method].learns_from_data

    def pace_file(self, row: str | Variant) -> Path:
        """Name the file that says how fast a row trains."""
        return self.published / "pace" / f"{variant(row).label}.json"

    def updates(self, row: str | Variant) -> int | None:
        """Return the updates that fit the time; None: the preset's, or not measured yet."""
        if self.wall_minutes is None or not self.times(row):
            return None
        config = self.config(row, seed=0)
        pace = read_pace(self.pace_file(row), config.to_json())
        return None if pace is None else fitting_updates(config, pace, self.wall_minutes)

    def config(self, row: str | Variant, seed: int, updates: int | None = None) -> RunConfig:
        """Compose a run's config; `updates` are as many as fit the time."""
        over = [overrides(_sets_for(variant(row).method, self.sets))]
        if updates is not None:
            looks = Layer("equal time", {"learn": {"evaluate_every": max(1, updates // LOOKS)}})
            over = [looks, *over, Layer("equal time", {"learn": {"updates": updates}})]
        layers = preset_layers(self.env, row, self.budget, *over)
        return compose([*layers, Layer("comparison", {"seed": seed})])[0]


@dataclass(frozen=True)
class Entry:
    """One run of a comparison, and how far it has come."""

    row: Variant
    config: RunConfig
    out: Path  # where it works
    published: Path  # where it is kept
    state: State
    phases: tuple[Phase, ...]
    minutes: float  # estimated, of what is left; the dataset, which all share, not counted

    @property
    def name(self) -> str:
        return self.out.name

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "state": self.state,
            "minutes": round(self.minutes, 2),
            "updates": self.config.learn.updates if METHODS[self.config.method].learns else None,
            "out": str(self.out),
            "published": str(self.published),
        }


def entry(
    comparison: Comparison,
    row: str | Variant,
    seed: int,
    strict: bool = True,
    planned: bool = True,
) -> Entry:
    """Look at one run: its config, how far it has come, and, if `planned`, what is left."""
    row = variant(row)
    config = comparison.config(row, seed, comparison.updates(row))
    name = f"{row.label}-seed{seed}"
    out, published = comparison.runs / name, comparison.published / name
    state = state_of(config, out, published, strict)
    begun = out / "again" if state == "changed" else out  # then nothing of it is left
    over = state in ("published", "finished")
    phases = () if over or not planned else tuple(plan_run(config, begun))
    minutes = {phase.name: phase.minutes for phase in phases if not phase.done}
    if comparison.wall_minutes is not None and "train" in minutes:
        minutes |= {"train": comparison.wall_minutes, "embedder": 0.0}  # one cap for both
    left = sum(spent for phase, spent in minutes.items() if phase != "collect")
    return Entry(row, config, out, published, state, phases, left)


def entries_of(comparison: Comparison) -> list[Entry]:
    """Look at every run of a comparison; what is not timed yet still has the preset's updates."""
    return [entry(comparison, row, seed) for row, seed in comparison.names()]


def forget_changed(one: Entry) -> None:
    """Delete the folder of a run with other values; its record stays until there is another."""
    if (one.out / "config.json").exists() and not _is_same(one.config, one.out):
        shutil.rmtree(one.out)


def state_of(config: RunConfig, out: Path, published: Path, strict: bool = True) -> State:
    """Say how far a run has come; a record of another config is replaced only if that is asked.

    Such a record is an error, or `changed` where that is not asked for.
    """
    if (published / RESULT).exists():
        return "published" if _is_same(config, published, strict) else "changed"
    if not (out / "config.json").exists():
        return "missing"
    if not _is_same(config, out, strict):
        return "changed"
    return "finished" if (out / RESULT).exists() else "interrupted"


def to_collect(entries: Sequence[Entry]) -> dict[str, tuple[RunConfig, Phase]]:
    """Return the datasets that runs still miss, by folder, each with a config that asks for it."""
    return {
        phase.where: (one.config, phase)
        for one in entries
        for phase in one.phases
        if phase.name == "collect" and not phase.done
    }


def hours(entries: Sequence[Entry]) -> float:
    """Estimate how long the rest takes, on two CPU cores; a dataset is counted once."""
    shared = sum(phase.minutes for _, phase in to_collect(entries).values())
    return (sum(one.minutes for one in entries) + shared) / 60.0


def publish_run(out: Path, folder: Path) -> None:
    """Keep what a finished run says; its record comes last, so that half a copy is none.

    A row has one config: what other seeds say of older values goes with the first new one.
    """
    config = read_config(out)
    row = folder.name.removesuffix(f"-seed{config.seed}")
    for seed in folder.parent.glob(f"{escape(row)}-seed*"):
        number = int(seed.name.rpartition("-seed")[2])
        same = seed != folder and _is_same(replace(config, seed=number), seed)
        if (seed / RESULT).exists() and not same:
            shutil.rmtree(seed)
    for pattern in KEPT:
        for file in sorted(path for path in out.glob(pattern) if not path.is_symlink()):
            atomic_write(folder / file.name, file.read_bytes())
    weights = out / CHECKPOINT
    if weights.exists() and weights.stat().st_size <= SMALL and config.seed == 0:
        atomic_write(folder / CHECKPOINT, weights.read_bytes())
    atomic_write(folder / RESULT, (out / RESULT).read_bytes())


def config_file(place: Path) -> Path:
    """Return the file with the config of a run, given its folder or the file itself."""
    return place / "config.json" if place.is_dir() else place


def read_config(place: Path) -> RunConfig:
    """Read the config of a run or of a record, of this version or an older one."""
    file = config_file(place)
    try:
        values = read_json(file, dict[str, Any], "give the folder of a run")
        return any_config(values, str(file))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"cannot read {file} as the config of a run: {error}") from error


def any_config(values: dict[str, Any], where: str) -> RunConfig:
    """Decode the config of a run of this version or an older one."""
    values = resolved(values)
    method = values.get("method")
    if isinstance(method, str) and not METHODS[method].embeds:
        values = {**values, "embedder": None}  # version 0.1 wrote one down for every method
    return from_json(values, where=where)


def _is_same(config: RunConfig, folder: Path, strict: bool = False) -> bool:
    """Tell whether a folder's run had the same values; if `strict`, refuse one that had others."""
    try:
        changes = conflicts(read_config(folder), config)
    except RunError as error:
        changes = [str(error)]
    if changes and strict:
        more = [f"and {len(changes) - CONFLICTS} more"] if len(changes) > CONFLICTS else []
        raise RunError(
            f"{folder} holds a run with other values:\n  "
            + "\n  ".join([*changes[:CONFLICTS], *more])
            + "\nGive the same values, choose another --out and --results, or delete the folder."
        )
    return not changes


def _can_act(reference: str, spaces: TaskSpaces) -> bool:
    try:
        build_method(reference, spaces, METHODS[reference].options(), None, seed=0)
    except ValueError:
        return False
    return True


def _sets_for(method: str, sets: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out what a method cannot be told: one without an embedder, or that learns nothing."""
    entry = METHODS[method]
    has = {"options": entry.learns, "exploration": entry.learns, "embedder": entry.embeds}
    return tuple(text for text in sets if has.get(text.partition(".")[0], True))


@dataclass(frozen=True)
class Pace:
    """How fast a method trains."""

    threads: int
    before_seconds: float  # until the first update
    update_seconds: float

    def updates(self, minutes: float) -> int:
        """Return how many updates fit some minutes."""
        left = 60.0 * minutes - self.before_seconds
        return max(0, int(left / self.update_seconds) // MULTIPLE * MULTIPLE)


def pace_of(config: RunConfig, file: Path, threads: int, device: str = "cpu") -> Pace:
    """Take a pace that was measured for this config before, or measure it and write it down."""
    own = replace(config, seed=0).to_json()  # seeds train equally fast
    if (known := read_pace(file, own)) is not None:
        return known
    pace = measure_pace(config, threads, device)
    content = {
        "pace": asdict(pace),
        "config": own,
        "machine": machine(),
        "code_version": code_version(),
    }
    atomic_write(file, (json.dumps(content, indent=2) + "\n").encode())
    return pace


def read_pace(file: Path, config: dict[str, Any]) -> Pace | None:
    """Read a pace; None where there is none of this config."""
    if not file.exists():
        return None
    content = read_json(file, dict[str, Any], "delete it, and the pace is measured again")
    timed = any_config(content.get("config", {}), str(file)).to_json()  # with later options
    if outcome_values(timed) != outcome_values(config):
        return None
    return decode(Pace, content.get("pace"), where=str(file))


def measure_pace(config: RunConfig, threads: int, device: str) -> Pace:
    """Train for some updates in a folder of its own and look at the clock."""
    learn = replace(
        config.learn, updates=TIMED, log_every=LOGGED, save_every=TIMED, evaluate_every=0
    )
    short, embedder_updates = replace(config, learn=learn), 0
    if config.trains_embedder:
        embedder_updates = config.embedder.updates
        embedder = replace(config.embedder, updates=min(TIMED, embedder_updates))
        short = replace(short, embedder=embedder)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(short, Path(scratch), threads=threads, device=device)
        train_run(run, Dataset.open(encode_images(config)), watch)
        lines = read_log(run.out)
    embedder_seconds, update_seconds = (
        1.0 / (updates_per_second(lines, phase) or float("inf")) for phase in ("embedder", "train")
    )
    before = watch.seconds["prepare"] + embedder_updates * embedder_seconds + saved_seconds(lines)
    return Pace(threads, round(before, 2), round(update_seconds, 6))


def saved_seconds(lines: Sequence[Line]) -> float:
    """Return what an index would have taken longer without vectors of an earlier process."""
    filled = [line for line in lines if line["phase"] == "embed" and line["step"] == 0]
    return sum(float(line["seconds_saved"]) for line in filled)


def fitting_updates(config: RunConfig, pace: Pace, minutes: float) -> int:
    """Return the updates that fit, or say that none do."""
    if (updates := pace.updates(minutes)) == 0:
        raise RunError(
            f"{config.label} does not train {MULTIPLE} updates in {minutes:g} minutes: "
            f"{pace.before_seconds / 60:.1f} go by before the first one, and one takes "
            f"{pace.update_seconds:.3f} s; give it more --wall-minutes"
        )
    return updates
