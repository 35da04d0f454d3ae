"""Equal wall time as a number of updates: how many fit some minutes of training on this machine.

The number becomes part of a run's config, so that the run stays exactly repeatable and can be
resumed. Everything that comes before the first update counts as well: an embedder's training and
the filling of an index, at its full price where vectors of an earlier process were found.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from radt.config import RunConfig
from radt.data import Dataset
from radt.decode import decode
from radt.experiments.compare import any_config
from radt.experiments.measured import Line, read_log, updates_per_second
from radt.experiments.provenance import Stopwatch, machine
from radt.experiments.run import Run, RunError, dataset_path, deciding
from radt.experiments.train import train
from radt.files import atomic_write
from radt.methods import METHODS
from radt.version import code_version

TIMED = 60  # updates, of the policy and of an embedder
LOGGED = 5  # updates between two readings of the clock; their median counts
MULTIPLE = 50  # updates are rounded down to it


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
    pace = measure(config, threads, device)
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
    content = json.loads(file.read_text())
    timed = any_config(content["config"], str(file)).to_json()  # with options that came later
    if deciding(timed) != deciding(config):
        return None
    return decode(Pace, content["pace"], where=str(file))


def measure(config: RunConfig, threads: int, device: str) -> Pace:
    """Train for some updates in a folder of its own and look at the clock."""
    learn = replace(
        config.learn, updates=TIMED, log_every=LOGGED, save_every=TIMED, evaluate_every=0
    )
    short, embedder_updates = replace(config, learn=learn), 0
    if METHODS[config.method].trains_embedder:
        embedder_updates = config.embedder.updates
        embedder = replace(config.embedder, updates=min(TIMED, embedder_updates))
        short = replace(short, embedder=embedder)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(short, Path(scratch), threads=threads, device=device)
        train(run, Dataset.open(dataset_path(config)), watch)
        lines = read_log(run.out)
    before = watch.seconds["prepare"] + embedder_updates * _update_seconds(lines, "embedder")
    before += saved_seconds(lines)
    return Pace(threads, round(before, 2), round(_update_seconds(lines, "train"), 6))


def saved_seconds(lines: Sequence[Line]) -> float:
    """Return what an index would have taken longer without vectors of an earlier process."""
    filled = [line for line in lines if line["phase"] == "embed" and line["step"] == 0]
    return sum(float(line["seconds_saved"]) for line in filled)


def _update_seconds(lines: Sequence[Line], phase: str) -> float:
    speed = updates_per_second(lines, phase)
    return 0.0 if speed is None else 1.0 / speed


def fitting_updates(config: RunConfig, pace: Pace, minutes: float) -> int:
    """Return the updates that fit, or say that none do."""
    if (updates := pace.updates(minutes)) == 0:
        raise RunError(
            f"{config.method} does not train {MULTIPLE} updates in {minutes:g} minutes: "
            f"{pace.before_seconds / 60:.1f} go by before the first one, and one takes "
            f"{pace.update_seconds:.3f} s; give it more --wall-minutes"
        )
    return updates
