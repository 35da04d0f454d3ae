"""Processes of this machine: each does one job after another and says how it goes."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from radt.engine.engine import Job, Ledger, Work, messages

IDLE = -1


def cores() -> int:
    """Count the cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@dataclass(frozen=True)
class LocalEngine:
    """Does jobs in processes of its own; with one worker, or one job, in this process."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, not {self.workers}")

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield what jobs say, as it comes."""
        count = min(self.workers, len(jobs))
        if count > 1:
            yield from _side_by_side(work, jobs, count)
            return
        for place, job in enumerate(jobs):
            for news in work(job):
                yield place, news


@dataclass
class _Worker:
    """A process, and the job that it is at."""

    process: BaseProcess
    place: int = IDLE


def _side_by_side(work: Work[Job], jobs: Sequence[Job], count: int) -> Iterator[tuple[int, Any]]:
    """Keep `count` processes at work until no job is left; a dead one is replaced."""
    ledger, workers = Ledger(len(jobs)), dict[Connection, _Worker]()
    try:
        while True:
            idle = [pipe for pipe, worker in workers.items() if worker.place == IDLE]
            while ledger.waiting and (idle or len(workers) < count):
                pipe = idle.pop() if idle else _hire(work, jobs, workers)
                _give(pipe, workers[pipe], ledger)
            busy = [pipe for pipe, worker in workers.items() if worker.place != IDLE]
            if not busy:
                return
            for ready in wait(busy):
                assert isinstance(ready, Connection)
                place = workers[ready].place
                for news in _hear(ready, workers, ledger):
                    yield place, news
    finally:
        for worker in workers.values():
            worker.process.terminate()
            worker.process.join()


def _hire(work: Work[Job], jobs: Sequence[Job], workers: dict[Connection, _Worker]) -> Connection:
    """Start a process that knows all jobs and waits to be given one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, jobs, theirs))
    with _leaving_interrupts_to_us():
        process.start()
    theirs.close()  # so that the pipe ends when the worker does
    workers[ours] = _Worker(process)
    return ours


def _give(pipe: Connection, worker: _Worker, ledger: Ledger) -> None:
    worker.place = ledger.waiting.popleft()
    with contextlib.suppress(OSError):  # a worker that has died is heard of by its silence
        pipe.send_bytes(json.dumps(worker.place).encode())


def _hear(pipe: Connection, workers: dict[Connection, _Worker], ledger: Ledger) -> list[Any]:
    """Take one message of a worker, or notice its death; return what its job says, if it does."""
    worker = workers[pipe]
    try:
        kind, news = ledger.hear(worker.place, pipe.recv_bytes())
    except (EOFError, OSError):
        worker.process.join()
        del workers[pipe]
        ledger.put_back(worker.place, f"its process ended (exit code {worker.process.exitcode})")
        return []
    if kind == "says":
        return [news]
    worker.place = IDLE
    return []


def _serve(work: Work[Job], jobs: Sequence[Job], pipe: Connection) -> None:
    """Do the jobs that are asked for, in a process of its own, until the parent is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            job = jobs[json.loads(pipe.recv_bytes())]
            for message in messages(work, job):
                pipe.send_bytes(message)


@contextlib.contextmanager
def _leaving_interrupts_to_us() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C; we do, and then stop them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears it
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a new process takes over
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
