"""Where jobs are done: in this process, in several of this machine, or on a Ray cluster.

    with open_engine("ray", address="127.0.0.1:6379") as engine:
        for place, news in engine.map(work, jobs): ...

Work is a function that takes a job and yields plain values (what JSON knows) while it goes on; the
last one is its result. Whose worker fails is begun again, so work must be the same each time, or
look first at what is there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal, Protocol, TypeVar

from radt.errors import RadtError

SPAWN = multiprocessing.get_context("spawn")
RETRIES = 2  # how often a job is begun again after it has failed

Job = TypeVar("Job")
Work = Callable[[Job], Iterator[Any]]  # yields what JSON knows; the last value is the result
Message = tuple[int, str, Any]  # place of a job; says, done, refused or failed; what or why


class EngineError(RadtError, ValueError):
    """Jobs that cannot be done as asked; the message says what to do."""


class JobError(EngineError):
    """A job that was refused, or that failed again and again; the message says why."""


class Engine(Protocol):
    """Does jobs side by side."""

    @property
    def workers(self) -> int:
        """How many jobs are done at once."""

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield what jobs say, with the place of the job, as it comes.

        A job that raises ValueError is refused: the others are stopped and JobError is raised. One
        that fails in any other way, with its process or its machine, is begun again, up to
        `RETRIES` times, and says again what it said before.
        """


def messages(work: Work[Job], job: Job) -> Iterator[tuple[str, Any]]:
    """Do a job where a worker is: yield what it says, and how it ends."""
    try:
        for news in work(job):
            yield "says", news
        yield "done", None
    except ValueError as error:
        yield "refused", str(error)
    except Exception as error:
        yield "failed", f"{type(error).__name__}: {error}"


def with_retries(
    attempt: Callable[[Mapping[int, Job]], Iterator[Message]], jobs: Sequence[Job]
) -> Iterator[tuple[int, Any]]:
    """Attempt all jobs by their places, then those that are left, and do as `Engine.map` says."""
    left, failures = dict(enumerate(jobs)), Counter[int]()
    while left:
        for place, kind, content in attempt(dict(left)):
            if kind == "says":
                yield place, content
            elif kind == "done":
                del left[place]
            elif kind == "refused":
                raise JobError(content)
            else:
                failures[place] += 1
                if failures[place] > RETRIES:
                    raise JobError(
                        f"job {place + 1} of {len(jobs)} failed {RETRIES + 1} times, the last time "
                        f"with: {content}. What is finished is kept: run the same command to go "
                        "on, with fewer workers if memory is short"
                    )


@dataclass(frozen=True)
class LocalEngine:
    """Does each job in a process of its own; with one worker, or one job, in this process."""

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, not {self.workers}")

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        if min(self.workers, len(jobs)) > 1:
            yield from with_retries(partial(_in_processes, work, self.workers), jobs)
            return
        for place, job in enumerate(jobs):
            for news in work(job):
                yield place, news


def _in_processes(work: Work[Job], workers: int, jobs: Mapping[int, Job]) -> Iterator[Message]:
    """Do each job once, so many at a time, and end what runs when nobody listens."""
    waiting, running = deque(jobs.items()), dict[Any, tuple[int, BaseProcess]]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                place, job = waiting.popleft()
                heard, teller = SPAWN.Pipe(duplex=False)
                worker = SPAWN.Process(target=_tell, args=(work, job, teller))
                worker.start()
                teller.close()
                running[heard] = place, worker
            for ready in wait(list(running)):
                place, process = running[ready]
                kind, content = _next_message(ready, process)
                if kind != "says":
                    del running[ready]
                    _end(process)
                yield place, kind, content
    finally:
        for _, process in running.values():
            _end(process)


def _tell(work: Work[Job], job: Job, teller: Connection) -> None:
    _follow_parent()
    for message in messages(work, job):
        teller.send(message)


def _next_message(ready: Any, process: BaseProcess) -> tuple[str, Any]:
    """Take one message of a process, or notice that it is dead."""
    try:
        kind, content = ready.recv()
    except (EOFError, OSError):
        process.join()
        return "failed", f"its process died (exit code {process.exitcode})"
    return kind, content


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join()


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, which then stops this process; end when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def cores() -> int:
    """Count the cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@contextmanager
def single_threaded() -> Iterator[None]:
    """Compute with one thread, so that sums are rounded the same everywhere."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):  # NumPy's BLAS has threads of its own
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def open_engine(
    name: Literal["local", "ray"] = "local",
    address: str | None = None,
    workers: int | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
) -> Iterator[Engine]:
    """Open an engine for as long as the context lasts.

    Args:
        name: `local` for processes of this machine, `ray` for a Ray cluster.
        address: HOST:PORT of a Ray cluster's head; None: one of our own on this machine.
        workers: Jobs that are done at once; None: one here, as many as fit on a cluster.
        cpus: Processors that a job takes on a cluster.
        gpus: Graphics processors that a job takes on a cluster.
    """
    if name == "ray":
        from radt.engine.on_ray import ray_engine

        with ray_engine(address, workers, cpus, gpus) as engine:
            yield engine
    elif address is not None:
        raise EngineError(f"--address {address} is for --engine ray; local processes need none")
    else:
        yield LocalEngine(1 if workers is None else workers)
