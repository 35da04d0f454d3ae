"""SIGKILL at random moments, started again until finished: the same arrays and weights."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from radt.data import Dataset
from radt.experiments.provenance import Stopwatch
from radt.experiments.run import Run, collect, dataset_path, train
from tests.experiments.small import assert_same_tensors, small_config, use_toys

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SETTINGS = (
    "learn.updates=60",
    "learn.save_every=4",
    "learn.evaluate_every=20",
    "embedder.updates=20",
    "collect.transitions=1024",
    "collect.rollouts_per_part=2",
    "options.model.dropout=0.1",
)
KILLS = [pytest.param(2, id="twice"), pytest.param(10, id="ten", marks=pytest.mark.long)]


def start(work: Callable[[], object]) -> int:
    """Do some work in a process of its own; a fork spares the minutes of ten imports."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def finish(work: Callable[[], object]) -> float:
    """Do the work to its end and return how long it took."""
    began = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(start(work), 0)[1]) == 0
    return time.monotonic() - began


def kill_at_random(work: Callable[[], object], within: float, rng: np.random.Generator) -> bool:
    """Kill the work somewhere between its start and its usual end; tell whether it still ran."""
    child = start(work)
    time.sleep(float(rng.uniform(0, within)))
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.parametrize("kills", KILLS)
def test_collect(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config("dt", *SETTINGS[:3], *SETTINGS[4:])

    def work(home: str) -> Callable[[], object]:
        def collected() -> None:
            with pytest.MonkeyPatch.context() as patch:
                use_toys(patch, tmp_path / home)
                collect(config, workers=1)

        return collected

    seconds = finish(work("whole"))
    rng = np.random.default_rng(kills)
    killed = sum(kill_at_random(work("killed"), seconds / 2, rng) for _ in range(kills))
    finish(work("killed"))
    assert killed
    folders = []
    for home in ("whole", "killed"):
        use_toys(monkeypatch, tmp_path / home)
        folders.append(dataset_path(config))
    datasets = [Dataset.open(folder, in_memory=True) for folder in folders]
    assert datasets[0].manifest.files == datasets[1].manifest.files
    for row in range(len(datasets[0])):
        one, other = (dataset.trajectory(row) for dataset in datasets)
        for name in ("states", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("kills", KILLS)
def test_train(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path / "home")
    config = small_config("ra-dt", *SETTINGS)
    folder = collect(config, workers=1)

    def work(out: str) -> Callable[[], object]:
        return lambda: train(Run(config, tmp_path / out), Dataset.open(folder), Stopwatch())

    seconds = finish(work("whole"))
    rng = np.random.default_rng(kills)
    killed = sum(kill_at_random(work("killed"), seconds / 2, rng) for _ in range(kills))
    finish(work("killed"))
    assert killed
    for name in ("model.safetensors", "policy.safetensors", "embedder.safetensors"):
        assert_same_tensors(tmp_path / "whole" / name, tmp_path / "killed" / name)
