"""A collection that is killed and started again ends in the same files as one that is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.collect import (
    SOURCES,
    CollectConfig,
    CollectError,
    CollectProgress,
    NoisyExpertOptions,
    Recorded,
    RecurrentConfig,
    Request,
    record_histories,
)
from radt.collect.groups import read_arrays
from radt.collect.record import PARTS
from radt.data import Dataset, read_manifest
from radt.envs import SUITES, DarkRoomSuite
from radt.files import locked
from tests.data.histories import assert_obeys

TASKS = (0, 1, 2, 3, 4)
CONFIG = CollectConfig(
    n_steps=256,
    n_epochs=2,
    transitions=1500,  # not a whole number of rollouts, nor of episodes
    tasks_per_group=3,
    rollouts_per_part=2,
)

RECURRENT = RecurrentConfig(
    keep_above=None,
    envs_per_task=2,
    units=6,
    n_steps=100,
    batch_size=100,
    n_epochs=1,
    transitions=1500,
    tasks_per_group=3,
    rollouts_per_part=2,
)
CONFIGS = {"ppo": CONFIG, "ppo-lstm": RECURRENT}


def tiny_suite(name: str = "dark-room-10x10") -> DarkRoomSuite:
    suite = SUITES[name]
    assert isinstance(suite, DarkRoomSuite)
    return replace(suite, train_tasks=TASKS)


def hashes(folder: Path) -> list[tuple[int, str]]:
    return [(entry.task, entry.sha256) for entry in read_manifest(folder).files]


def record(source: str, folder: Path, **how: Any) -> Path:
    how = {"workers": 1, "quiet": True, **how}
    return record_histories(tiny_suite(), CONFIGS[source], folder, source=source, **how)


@pytest.fixture(scope="module", params=list(CONFIGS))
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def finished(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collect once without a break."""
    return record(source, tmp_path_factory.mktemp("whole"))


def test_the_dataset_holds_every_transition_in_order(source: str, finished: Path) -> None:
    manifest = read_manifest(finished)
    assert [entry.task for entry in manifest.files] == list(TASKS)
    assert {entry.transitions for entry in manifest.files} == {1500}
    assert {entry.episodes for entry in manifest.files} == {15 if source == "ppo" else 14}
    assert manifest.source == source
    assert manifest.hyper_parameters["n_steps"] == CONFIGS[source].n_steps
    assert manifest.env_spec["room"]["width"] == 10
    assert manifest.wall_seconds > 0
    assert not (finished / PARTS).exists()


def test_the_recorded_steps_obey_the_environment(finished: Path) -> None:
    history = Dataset.open(finished).history(2)
    assert set(history.lengths) == {100}
    assert_obeys(tiny_suite(), history)


def test_two_workers_make_the_same_files_as_one(
    source: str, finished: Path, tmp_path: Path
) -> None:
    news: list[CollectProgress] = []
    record(source, tmp_path, workers=2, progress=news.append)
    assert hashes(tmp_path) == hashes(finished)
    assert news[-1].transitions == news[-1].total == 5 * 1500
    assert all(0 <= report.recent_return <= 100 for report in news)


class Killed(BaseException):
    """Stands for the end of the process at any report."""


def killed_at(report: int) -> Callable[[CollectProgress], None]:
    """End the process at the report of this number, from 1."""
    heard: list[CollectProgress] = []

    def progress(news: CollectProgress) -> None:
        heard.append(news)
        if len(heard) == report:
            raise Killed

    return progress


def collect_with_kills(
    folder: Path, suite: DarkRoomSuite, kills: int, seed: int, source: str = "ppo"
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(kills):
        stop = killed_at(int(rng.integers(1, 5)))
        with suppress(Killed):
            record_histories(
                suite, CONFIGS[source], folder, workers=1, progress=stop, source=source
            )
    record_histories(suite, CONFIGS[source], folder, workers=1, quiet=True, source=source)


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_between_rollouts_and_resumed(
    source: str, finished: Path, tmp_path: Path, seed: int
) -> None:
    collect_with_kills(tmp_path, tiny_suite(), kills=6, seed=seed, source=source)
    assert hashes(tmp_path) == hashes(finished)


def test_a_learner_without_its_parts_is_not_gone_on_with(
    source: str, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        record(source, tmp_path, progress=killed_at(6))
    first, *_, last = sorted((tmp_path / PARTS).glob("group-000-part-*"))
    last.unlink()
    assert (tmp_path / PARTS / "group-000-learner.safetensors").is_file()
    assert not any("mean" in name for name in read_arrays(first))  # one learner is kept
    record(source, tmp_path)
    assert hashes(tmp_path) == hashes(finished)


def test_noisy_environments_resume_too(tmp_path: Path) -> None:
    suite = tiny_suite("dark-room-10x10-slip")
    record_histories(suite, CONFIG, tmp_path / "whole", workers=1, quiet=True)
    collect_with_kills(tmp_path / "killed", suite, kills=6, seed=2)
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "whole")


SCRIPT = """
import sys
from pathlib import Path
from radt.collect import record_histories
from tests.collect.test_record import record

if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]), workers=2, progress=lambda news: print("."))
"""


def kill_at_random(source: str, folder: Path, script: Path, rng: np.random.Generator) -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src")])
    process = subprocess.Popen(
        [sys.executable, "-u", str(script), source, str(folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    process.stdout.readline()  # it has begun to record
    time.sleep(float(rng.uniform(0, 0.3)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(
    "kills", [pytest.param(1, id="once"), pytest.param(10, id="ten", marks=pytest.mark.long)]
)
def test_sigkill_and_resume(source: str, finished: Path, tmp_path: Path, kills: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "data"
    rng = np.random.default_rng(kills)
    for _ in range(kills):
        kill_at_random(source, folder, script, rng)
    record(source, folder)
    assert hashes(folder) == hashes(finished)


def test_a_finished_dataset_is_left_alone(source: str, finished: Path) -> None:
    before = (finished / "manifest.json").stat().st_mtime_ns
    record(source, finished)
    assert (finished / "manifest.json").stat().st_mtime_ns == before


def test_another_configuration_is_refused(source: str, finished: Path, tmp_path: Path) -> None:
    other: Any = replace(CONFIGS[source], seed=1)
    with pytest.raises(CollectError, match=r"config.seed: 0 there, 1 now"):
        record_histories(tiny_suite(), other, finished, quiet=True, source=source)
    with pytest.raises(CollectError, match=rf"source: '{source}' there, 'noisy-expert' now"):
        record_histories(
            tiny_suite(), NoisyExpertOptions(), finished, quiet=True, source="noisy-expert"
        )
    with pytest.raises(Killed):
        record_histories(tiny_suite(), CONFIG, tmp_path, workers=1, progress=killed_at(1))
    with pytest.raises(CollectError, match=r"unfinished collection .*config.gamma: 0.99 there"):
        record_histories(tiny_suite(), replace(CONFIG, gamma=0.9), tmp_path, quiet=True)


def test_a_collection_that_recorded_nothing_does_not_stand_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request) -> Recorded:
        raise Killed

    broken = replace(SOURCES["noisy-expert"], record=fail)
    monkeypatch.setitem(SOURCES._items, "broken", broken)
    options = NoisyExpertOptions(tasks=2, episodes=2)
    with pytest.raises(Killed):
        record_histories(tiny_suite(), options, tmp_path, quiet=True, source="broken")
    record_histories(tiny_suite(), options, tmp_path, quiet=True, source="noisy-expert")
    assert read_manifest(tmp_path).source == "noisy-expert"


@pytest.mark.parametrize("change", ["bit", "swap", "plan"])
def test_parts_that_changed_do_not_become_data(tmp_path: Path, change: str) -> None:
    with pytest.raises(Killed):
        record_histories(tiny_suite(), CONFIG, tmp_path, workers=1, progress=killed_at(8))
    first, *others = sorted((tmp_path / "parts").glob("*-part-*"))
    if change == "bit":
        content = bytearray(first.read_bytes())
        content[-1] ^= 1
        first.write_bytes(content)
    elif change == "swap":
        first.write_bytes(others[0].read_bytes())
    else:
        (tmp_path / "parts" / "plan.json").write_text("{")
    with pytest.raises(CollectError, match=r"group-000-part-000.*Delete it|delete .* collect anew"):
        record_histories(tiny_suite(), CONFIG, tmp_path, workers=1, quiet=True)


def test_two_collectors_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        locked(tmp_path / ".collect.lock", wait=False),
        pytest.raises(CollectError, match="another process is collecting"),
    ):
        record_histories(tiny_suite(), CONFIG, tmp_path, quiet=True)


def test_the_bar_shows_the_return(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_histories(tiny_suite(), CONFIG, tmp_path, workers=1)
    assert "return " in capsys.readouterr().err
