"""SIGKILL at random moments, started again until finished: the same arrays and weights."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import radt
from radt.data import Dataset, read_manifest
from radt.runs.run import dataset_path
from tests.runs.small import assert_same_tensors, collect_here, small_config, train_here, use_toys

SETTINGS = (
    "learn.updates=60",
    "learn.save_every=4",
    "learn.evaluate_every=20",
    "collect.transitions=2048",
    "collect.rollouts_per_part=2",
    "options.model.dropout=0.1",
)
KILLS = [pytest.param(2, id="twice"), pytest.param(10, id="ten", marks=pytest.mark.long)]

processes = multiprocessing.get_context("forkserver")  # imports once, not at every start
processes.set_forkserver_preload(["tests.runs.small"])


def finish(work: Callable[..., object], *arguments: Any) -> float:
    """Do the work to its end in a process of its own and return how long it took."""
    began = time.monotonic()
    process = processes.Process(target=work, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - began


def finish_with_kills(
    kills: int, seconds: float, folder: Path, work: Callable[..., object], *arguments: Any
) -> None:
    """Kill the work at random moments of its usual time, then let it finish in `folder`."""
    rng = np.random.default_rng(kills)
    while kills:
        process = processes.Process(target=work, args=arguments)
        process.start()
        time.sleep(float(rng.uniform(0, seconds)))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        if process.exitcode:
            kills -= 1
        else:
            shutil.rmtree(folder)  # it was faster than the kill: begin anew
    finish(work, *arguments)


@pytest.mark.parametrize("kills", KILLS)
def test_collect(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path)
    config = small_config("dt", *SETTINGS)
    finish(collect_here, tmp_path / "first", config)
    seconds = finish(collect_here, tmp_path / "whole", config)
    killed = tmp_path / "killed"
    finish_with_kills(kills, seconds, killed, collect_here, killed, config)
    folders = []
    for home in ("whole", "killed"):
        use_toys(monkeypatch, tmp_path / home)
        folders.append(dataset_path(config))
    whole, again = (Dataset.open(folder, in_memory=True) for folder in folders)
    assert whole.manifest.files == again.manifest.files  # hashes of all arrays included
    for row in range(len(whole)):
        one, other = whole.trajectory(row), again.trajectory(row)
        for name in ("states", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


EXAMPLES = Path(__file__).parents[1] / "examples" / "suites"
LEARNED = {
    "PPO-cartpole-permuted": ("collect.settings.n_steps=128", "collect.envs_per_task=2"),
    "PPO-pendulum-sign": ("collect.settings.n_steps=128", "collect.normalise=true"),
    "SAC-pendulum-sign": ("collect.transitions=800", "collect.settings.batch_size=64"),
}


def collect_example(home: Path, algorithm: str, env: str, sets: tuple[str, ...]) -> None:
    """Let an algorithm of stable-baselines3 learn an example suite, in a process of its own."""
    os.environ |= {
        "RADT_HOME": str(home),
        "RADT_PLUGINS": str(EXAMPLES / f"{env.replace('-', '_')}.py"),
    }
    sizes = ("collect.transitions=2048", "collect.tasks=2", "collect.parts=8")
    config = radt.preset(
        env, "dt", "laptop", "source=sb3", f"collect.algorithm={algorithm}", *sizes, *sets
    )
    radt.collect(config)


@pytest.mark.long
@pytest.mark.parametrize("case", LEARNED)
def test_collect_with_stable_baselines(case: str, tmp_path: Path) -> None:
    algorithm, env = case.split("-", 1)
    rest = (algorithm, env, LEARNED[case])
    finish(collect_example, tmp_path / "first", *rest)
    seconds = finish(collect_example, tmp_path / "whole", *rest)
    killed = tmp_path / "killed"
    finish_with_kills(10, seconds, killed, collect_example, killed, *rest)
    found = [
        read_manifest(path.parent).files
        for home in ("whole", "killed")
        for path in (tmp_path / home).rglob("manifest.json")
    ]
    assert len(found) == 2
    assert found[0] == found[1]  # hashes of all arrays included


@pytest.mark.parametrize("kills", KILLS)
def test_train(kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path)
    config = small_config("ra-dt", *SETTINGS, "embedder.updates=20")
    folder = collect_here(tmp_path, config)
    seconds = finish(train_here, tmp_path, config, folder, tmp_path / "whole")
    killed = tmp_path / "killed"
    finish_with_kills(kills, seconds, killed, train_here, tmp_path, config, folder, killed)
    assert_same_tensors(tmp_path / "whole" / "model.safetensors", killed / "model.safetensors")
