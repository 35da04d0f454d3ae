"""Engines: jobs are done side by side, failures are retried, and strangers are refused."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from radt.engine import LocalEngine, open_engine
from tests.engine.jobs import Task, check_engine, check_results_in_order, count_up, last_words


def test_processes_keep_what_an_engine_promises(tmp_path: Path) -> None:
    check_engine(LocalEngine(2), tmp_path)
    assert not multiprocessing.active_children()


def test_one_worker_is_this_process(tmp_path: Path) -> None:
    check_results_in_order(LocalEngine(), tmp_path / "jobs")
    heard: list[int] = []

    def work(job: int) -> Iterator[int]:  # no other process could import this
        heard.append(job)
        yield job

    assert last_words(LocalEngine(1), work, [5, 6]) == [5, 6]
    assert last_words(LocalEngine(8), work, [7]) == [7]
    assert heard == [5, 6, 7]


def test_who_stops_listening_stops_the_workers(tmp_path: Path) -> None:
    told = LocalEngine(2).map(count_up, [Task(10_000, tmp_path), Task(20_000, tmp_path)])
    next(told)
    assert len(multiprocessing.active_children()) == 2
    told.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


SCRIPT = """
import signal
import time

from radt.engine import LocalEngine
from tests.engine.jobs import sleep

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell may ignore it
    for count, (_, process) in enumerate(LocalEngine(2).map(sleep, [600.0, 600.0])):
        print(process, flush=True)
        time.sleep(BUSY * count)  # with the news of the second
"""


@pytest.mark.parametrize("busy", [0, 600])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_parent(how: signal.Signals, busy: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("BUSY", str(busy)))
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])},
    ) as parent:
        assert parent.stdout is not None
        workers = {int(parent.stdout.readline()) for _ in range(2)}
        children = psutil.Process(parent.pid).children()
        assert workers <= {child.pid for child in children}
        parent.send_signal(how)
        _, alive = psutil.wait_procs(children, timeout=120)
    assert not [process for process in alive if still_runs(process)]


def still_runs(process: psutil.Process) -> bool:
    """Tell whether a process lives; a zombie has ended, and its new parent may be slow to ask."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_local_is_the_default_and_has_no_address() -> None:
    with open_engine() as engine:
        assert engine == LocalEngine(1)
    with open_engine("local", workers=3) as engine:
        assert engine == LocalEngine(3)
    with (
        pytest.raises(ValueError, match="is for --engine ray"),
        open_engine("local", "127.0.0.1:1"),
    ):
        pass


def test_workers_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        LocalEngine(0)
