"""The runs inside one folder, by id: their weights, and their recorded trials as a page draws them.

A request never names a path. Ids are made from the listing, and every file is resolved first, so
neither `..` nor a symbolic link leads out of the folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from radt.checkpoint import CheckpointError
from radt.envs.suite import SUITES, TaskSuite
from radt.loading import WEIGHTS, Loaded, load, shipped
from radt.registry import UnknownNameError
from radt.runs.run import CHECKPOINT
from radt.runs.trace import Contents, TraceError, read_contents, read_trial
from radt.viewer.scene import action_names, scene_of

DEEPEST, MOST_FOLDERS = 4, 2000
TRACE = "trace.jsonl"  # how the names of traces end
SHIPPED = "shipped"
COLUMNS = ("actions", "rewards", "probabilities", "attention", "searches", "entries")


@dataclass(frozen=True)
class Source:
    """Something to look at: weights to run, and recorded traces."""

    id: str
    name: str
    weights: Path | None
    traces: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        traces = [file.name for file in self.traces]
        return {
            "id": self.id,
            "name": self.name,
            "live": self.weights is not None,
            "traces": traces,
        }


class Library:
    """What one folder holds, and the weights that come with the package."""

    def __init__(self, folder: Path | None, device: str = "cpu") -> None:
        """Look into a folder, or none; networks compute on `device`."""
        self.folder = None if folder is None else folder.resolve(strict=True)
        self.device = device

    def sources(self) -> list[Source]:
        """List shipped weights and the runs of the folder as they are now."""
        first = shipped()
        files = sorted(WEIGHTS.glob("*.safetensors"), key=lambda file: (file != first, file.name))
        ready = [
            Source(f"{SHIPPED}-{file.stem}", f"{file.stem}, shipped weights", file, ())
            for file in files
        ]
        return [*ready, *(self._runs(self.folder) if self.folder is not None else ())]

    def find(self, source_id: str) -> Source:
        for source in self.sources():
            if source.id == source_id:
                return source
        raise UnknownNameError("run", source_id, [source.id for source in self.sources()][:20])

    def weights(self, source: Source) -> Loaded:
        """Load a source's weights, or take those that were loaded before."""
        if source.weights is None:
            raise CheckpointError(
                f"{source.name} has no weights, so nothing can live there; train it with `radt run`"
            )
        return _load(source.weights, self.device, _stamp(source.weights))

    def trace(self, source_id: str, number: int) -> Path:
        """Return a trace of a run by its place in the list."""
        traces = self.find(source_id).traces
        if not 0 <= number < len(traces):
            raise UnknownNameError("trace", str(number), [str(n) for n in range(len(traces))])
        return traces[number]

    def _runs(self, root: Path) -> Iterator[Source]:
        for folder in islice(_folders(root, root, DEEPEST), MOST_FOLDERS):
            files = [file for file in _inside(folder, root) if file.is_file()]
            weights = next((file for file in files if file.name == CHECKPOINT), None)
            traces = tuple(file for file in files if file.name.endswith(TRACE))
            if weights is not None or traces:
                name = folder.relative_to(root.parent).as_posix()
                yield Source(identify(name), name, weights, traces)


def identify(name: str) -> str:
    """Make an id that is safe in an address."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _folders(folder: Path, root: Path, depth: int) -> Iterator[Path]:
    """Walk folders, the outer ones first."""
    yield folder
    for inner in _inside(folder, root) if depth else ():
        if inner.is_dir() and not inner.name.startswith("."):
            yield from _folders(inner, root, depth - 1)


def _inside(folder: Path, root: Path) -> list[Path]:
    """List a folder without what lies, with all links followed, outside of the root."""
    try:
        names = sorted(folder.iterdir())
    except OSError:
        return []  # not ours to read
    return [path for path in names if _is_inside(path, root)]


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # dangling, or a ring of links
        return False


@lru_cache(maxsize=4)
def _load(path: Path, device: str, stamp: tuple[int, int]) -> Loaded:
    return load(path, device)


def contents_of(path: Path) -> Contents:
    """Read what a trace holds, or what was read before if it did not change."""
    return _contents(path, _stamp(path))


@lru_cache(maxsize=16)
def _contents(path: Path, stamp: tuple[int, int]) -> Contents:
    return read_contents(path)


def _stamp(path: Path) -> tuple[int, int]:
    return path.stat().st_mtime_ns, path.stat().st_size


def suites_for(loaded: Loaded) -> list[TaskSuite]:
    """List the suites that weights can live in, their own first."""
    names = [loaded.card.env, *(name for name in SUITES.names() if name != loaded.card.env)]
    suites = [SUITES[name] for name in names]
    return [suite for suite in suites if suite.spaces == loaded.card.spaces]


def open_trace(path: Path) -> dict[str, Any]:
    """Describe a trace: its tasks with the returns of their trials."""
    contents = contents_of(path)
    suite = SUITES[contents.env]
    if not contents.tasks:
        raise TraceError(f"{path.name} holds no trial; evaluate again with `--trace`")
    return {
        "name": path.name,
        "env": contents.env,
        "method": contents.method,
        "cut": contents.cut,
        "continuous": suite.spaces.action.kind == "continuous",
        "horizon": suite.spaces.horizon,
        "solved_above": suite.spaces.solved_above,
        "tasks": [_task(contents, suite, task) for task in contents.tasks],
    }


def open_trial(path: Path, task: int, trial: int) -> dict[str, Any]:
    """Describe one trial step by step."""
    contents = contents_of(path)
    place = contents.trials.get((task, trial))
    if place is None:
        raise UnknownNameError("trial", f"{trial} of task {task}", [])
    line, scene = read_trial(path, place), scene_of(SUITES[contents.env], task)
    try:
        states, rewards = np.array(line["states"]), np.array(line["rewards"], np.float32)
        return {
            "trial": trial,
            "start": 0,
            "ground": scene.ground(states[0]),
            **scene.frames(states, rewards, start=0),
            **{name: line[name] for name in COLUMNS},
        }
    except (KeyError, IndexError, TypeError, OverflowError) as error:
        raise TraceError(
            f"trial {trial} of task {task} in {path.name} is damaged: {error}"
        ) from error


def _task(contents: Contents, suite: TaskSuite, task: int) -> dict[str, Any]:
    places = sorted(
        (place for (own, _), place in contents.trials.items() if own == task),
        key=lambda place: place.trial,
    )
    return {
        "task": task,
        "says": suite.describe(task),
        "actions": action_names(suite, task),
        "trained": task in suite.train_tasks,
        "optimum": suite.optimal_return(task),
        "trials": [place.trial for place in places],
        "returns": [place.total_return for place in places],
    }
