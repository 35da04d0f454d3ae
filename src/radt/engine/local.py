"""Processes of this machine: each does one job after another and says how it goes.

`concurrent.futures` has neither of the two things needed here: news of a job while it goes on, and
a death that costs only the job of the process that died.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from radt.engine.engine import Job, Work, WorkerLoop, WorkerLostError, messages


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
        if min(self.workers, len(jobs)) > 1:
            with contextlib.closing(_Processes()) as processes:
                yield from processes.run(work, jobs, self.workers)
            return
        for place, job in enumerate(jobs):
            for news in work(job):
                yield place, news


class _Processes(WorkerLoop):
    """Processes by the pipes through which they are talked to."""

    def __init__(self) -> None:
        self._alive: dict[Connection, BaseProcess] = {}

    def start(self, work: Work[Job], job: Job, busy: Collection[Connection]) -> Connection:
        """Give a job to an idle process, or to a new one."""
        idle = self._alive.keys() - busy
        pipe = idle.pop() if idle else self._hire()
        with contextlib.suppress(OSError):  # a process that has died is heard of by its silence
            pipe.send((work, job))
        return pipe

    def _hire(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,))
        with _leaving_interrupts_to_us():
            process.start()
        theirs.close()  # so that the pipe ends when the process does
        self._alive[ours] = process
        return ours

    def next_to_speak(self, busy: Collection[Connection]) -> Connection:
        """Wait for a message or the end of a process."""
        (ready, *_) = wait(busy)
        assert isinstance(ready, Connection)
        return ready

    def receive(self, worker: Connection) -> bytes:
        """Take one message of a process, or notice its death."""
        try:
            return worker.recv_bytes()
        except (EOFError, OSError):
            process = self._alive.pop(worker)
            process.join()
            raise WorkerLostError(f"its process ended (exit code {process.exitcode})") from None

    def stop(self, worker: Connection) -> None:
        """End a process."""
        process = self._alive.pop(worker)
        process.terminate()
        process.join()

    def close(self) -> None:
        """End all processes."""
        for pipe in list(self._alive):
            self.stop(pipe)


def _serve(pipe: Connection) -> None:
    """Do the jobs that are asked for, in a process of its own, until the parent is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            for message in messages(*pipe.recv()):
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
