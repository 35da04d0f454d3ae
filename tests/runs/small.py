"""A run of a few seconds on a toy suite, for the tests of everything that runs whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from radt.checkpoint import read_tensors
from radt.config import Layer, RunConfig, compose, overrides
from radt.data import Dataset
from radt.envs.suite import SUITES
from radt.runs.presets import preset_layers
from radt.runs.provenance import Stopwatch
from radt.runs.run import Run, collect
from radt.runs.train import train_run
from tests.memory.tiny_language import tiny_folder
from tests.toys import TOY_GRID

SMALL: dict[str, Any] = {
    "collect": {"transitions": 128, "n_steps": 64, "batch_size": 32, "n_epochs": 1},
    "learn": {"updates": 6, "save_every": 2, "evaluate_every": 3, "log_every": 2},
    "evaluate": {"trials": 2, "validation_trials": 1},
}


def use_toys(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Register the toy grid for one test and keep its data apart."""
    patch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)
    patch.setenv("RADT_HOME", str(home))


def small_config(method: str, *sets: str) -> RunConfig:
    layers = [*preset_layers(TOY_GRID.name, method, "smoke"), Layer("small", SMALL)]
    if method.startswith("ra-dt"):
        layers.append(Layer("small", {"options": {"memory": {"context_len": 4}}}))
    if method == "ra-dt-lm":
        training = {"query_offsets": (0, 2)}
        layers.append(Layer("small", {"options": {"episode_every": 1, "training": training}}))
        layers.append(Layer("small", {"embedder": {"model": str(tiny_folder())}}))
    return compose([*layers, overrides(sets)])[0]


def assert_same_tensors(one: Path, other: Path) -> None:
    (mine, _), (theirs, _) = read_tensors(one), read_tensors(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name


def collect_here(home: Path, config: RunConfig) -> Path:
    """Collect the toy data, in whatever process this is."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, home)
        return collect(config, workers=1)


def train_here(home: Path, config: RunConfig, folder: Path, out: Path) -> None:
    """Train on the toy data, in whatever process this is."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, home)
        train_run(Run(config, out, threads=1), Dataset.open(folder), Stopwatch())


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Read every file of a folder, and when it was written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
