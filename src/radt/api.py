"""The Python face of a run: a config by name, and its phases as functions.

    config = radt.preset("dark-room-10x10", "ra-dt+", "laptop", "learn.updates=2000")
    radt.collect(config)
    radt.train(config, "runs/x")
    record = radt.evaluate(config, "runs/x")

Every phase looks first at what is there, so calling it again goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from radt.collect.record import collection_plan, is_finished
from radt.collect.source import CollectError
from radt.config import RunConfig, compose, overrides
from radt.data import Dataset
from radt.data.manifest import MANIFEST
from radt.decode import read_json
from radt.distributed import joined_group
from radt.engine import Engine
from radt.errors import RunError
from radt.files import locked
from radt.methods import METHODS
from radt.runs.evaluate import evaluate_run, load_trained
from radt.runs.presets import preset_layers
from radt.runs.provenance import Stopwatch
from radt.runs.roll_out import shared
from radt.runs.run import CHECKPOINT, RESULT, Run, claim, collect_command, dataset_path
from radt.runs.run import collect as collect
from radt.runs.trace import tracing
from radt.runs.train import encode_images, train_run
from radt.track import Sink

WALL = "wall.json"
TRACE = "trace.jsonl"
LOCK = ".run.lock"


class BusyError(RunError):
    """Another process works in the run's folder."""


def preset(env: str, method: str = "ra-dt+", budget: str = "laptop", *sets: str) -> RunConfig:
    """Return the config that names stand for, changed by texts such as `learn.updates=100`."""
    return compose(preset_layers(env, method, budget, overrides(sets)))[0]


def train(
    config: RunConfig,
    out: str | Path,
    quiet: bool = True,
    sinks: Sequence[Sink] = (),
    threads: int | None = None,
    device: str = "cpu",
) -> Path:
    """Train on the config's dataset and return the checkpoint's path."""
    if not METHODS[config.method].learns:
        raise RunError(f"{config.label} learns nothing; evaluate it without training")
    with _owned(Run(config, Path(out), quiet, tuple(sinks), threads, device)) as run:
        return _train(run, dataset_path(config))


def evaluate(
    config: RunConfig,
    out: str | Path,
    quiet: bool = True,
    trace: bool = False,
    device: str = "cpu",
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Evaluate a trained run on its test tasks and return what `icl.json` says."""
    with _owned(Run(config, Path(out), quiet, device=device)) as run:
        return _evaluate(run, trace, engine)


def run(
    config: RunConfig,
    out: str | Path,
    workers: int = 2,
    quiet: bool = True,
    trace: bool = False,
    sinks: Sequence[Sink] = (),
    threads: int | None = None,
    device: str = "cpu",
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Collect if data are missing, train, evaluate, report; return what `icl.json` says.

    Started by torchrun, the processes train together and one of them does the rest. An `engine`
    collects and evaluates elsewhere.
    """
    with _owned(Run(config, Path(out), quiet, tuple(sinks), threads, device)) as owned:
        if METHODS[config.method].learns:
            with owned.group.rank_zero_first(), _watch(owned).phase("collect"):
                folder = collect(config, workers, quiet, engine)
            _train(owned, folder)
        record = _evaluate(replace(owned, sinks=()), trace, engine)  # training has closed them
        if owned.group.is_rank_zero:
            with _watch(owned).phase("report"):
                report(out)
    return record


def report(out: str | Path) -> Path:
    """Draw the curve and the first and last trial of a finished run, and return its summary."""
    from radt.plots.report import write_report

    return write_report(Path(out))


def _train(run: Run, folder: Path) -> Path:
    path = run.out / CHECKPOINT
    if path.exists():
        return path
    config = run.config
    if not _is_there(folder, run):
        raise RunError(
            f"there is no finished dataset in {folder}; make it first with\n  "
            f"{collect_command(config)}\nor set $RADT_HOME if your datasets are elsewhere"
        )
    if config.encoder is not None:
        with run.group.rank_zero_first(), _watch(run).phase("encode"):
            folder = encode_images(config, run.quiet, run.device)
    return train_run(run, Dataset.open(folder), _watch(run))


def _is_there(folder: Path, run: Run) -> bool:
    """Say whether there are data; those of another collection than the run's are refused."""
    try:
        plan = collection_plan(run.suite, run.config.collect, run.config.source)
    except CollectError:  # of a suite that cannot be written down, nothing was collected by radt
        return (folder / MANIFEST).is_file()
    return is_finished(folder, plan)


def _evaluate(run: Run, trace: bool, engine: Engine | None) -> dict[str, Any]:
    with run.group.rank_zero_first():
        config, wanted = run.config, trace and not (run.out / RESULT).exists()
        with tracing(run.out / TRACE if wanted else None, config.env, config.label) as traced:
            load = partial(load_trained, replace(run, out=run.out.absolute(), sinks=()))
            path = evaluate_run(run, _watch(run), traced, shared(engine, load))
    again = "delete it, and the same command evaluates again"
    return read_json(path, dict[str, Any], again, RunError)


def _watch(run: Run) -> Stopwatch:
    return Stopwatch(run.out / WALL if run.group.is_rank_zero else None)


@contextmanager
def _owned(run: Run) -> Iterator[Run]:
    """Refuse a folder that belongs to another config or that another process works in.

    Of processes that torchrun has started, rank 0 owns it for all.
    """
    with joined_group(run.device) as group, ExitStack() as stack:
        run = replace(run, group=group)
        with group.rank_zero_first():
            if group.is_rank_zero:
                stack.enter_context(alone_in(run.out))
            claim(run)
        yield run


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Refuse a folder that another process works in, and keep others out meanwhile."""
    try:
        with locked(out / LOCK, wait=False):
            yield
    except BlockingIOError:
        raise BusyError(
            f"another process works in {out}; wait for it, or choose another --out"
        ) from None
