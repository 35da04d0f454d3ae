"""The plug point of engines, and the loop that they share: jobs, workers and retries."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar

from radt.errors import RadtError

RETRIES = 2  # how often a job is begun again after its worker has failed

Job = TypeVar("Job")
Work = Callable[[Job], Iterator[Any]]  # yields what JSON knows; the last value is the result


class EngineError(RadtError, ValueError):
    """Jobs that cannot be done as asked; the message says what to do."""


class JobError(EngineError):
    """A job that was refused, or that failed again and again; the message says why."""


class WorkerLostError(Exception):
    """A worker that ended in the middle of a job; the message says how."""


class Engine(Protocol):
    """Does jobs side by side."""

    @property
    def workers(self) -> int:
        """How many jobs are done at once."""
        ...

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield what jobs say, with the place of the job, as it comes.

        A job that raises ValueError is refused: the others are stopped and JobError is raised. One
        that fails in any other way, with its process or its machine, is begun again, up to
        `RETRIES` times, and says again what it said before.
        """
        ...


def last_words(engine: Engine, work: Work[Job], jobs: Sequence[Job]) -> list[Any]:
    """Do all jobs and return their results in order."""
    results: dict[int, Any] = dict(engine.map(work, jobs))
    return [results[place] for place in range(len(jobs))]


def messages(work: Work[Job], job: Job) -> Iterator[bytes]:
    """Do a job where a worker is; what it says, and how it ends, goes out as JSON."""
    try:
        for news in work(job):
            yield json.dumps(["says", news]).encode()
        yield json.dumps(["done", None]).encode()
    except ValueError as error:
        yield json.dumps(["refused", str(error)]).encode()
    except Exception as error:
        yield json.dumps(["failed", f"{type(error).__name__}: {error}"]).encode()


class WorkerLoop(ABC):
    """Keeps some workers busy until no job is left; how they are reached is left to subclasses."""

    @abstractmethod
    def start(self, work: Work[Job], job: Job, busy: Collection[Any]) -> Any:
        """Let a worker that is not busy do `messages(work, job)`; return what stands for it."""

    @abstractmethod
    def next_to_speak(self, busy: Collection[Any]) -> Any:
        """Wait until one of the workers has a message or is lost, and return it."""

    @abstractmethod
    def receive(self, worker: Any) -> bytes:
        """Return a worker's next message, or raise WorkerLostError."""

    @abstractmethod
    def stop(self, worker: Any) -> None:
        """End a worker in the middle of its job."""

    def run(self, work: Work[Job], jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, Any]]:
        """Do as `Engine.map` says."""
        waiting, failures, busy = deque(range(len(jobs))), Counter[int](), dict[Any, int]()
        try:
            while waiting or busy:
                while waiting and len(busy) < workers:
                    place = waiting.popleft()
                    busy[self.start(work, jobs[place], busy)] = place
                worker = self.next_to_speak(busy)
                place = busy[worker]
                try:
                    kind, content = json.loads(self.receive(worker))
                except WorkerLostError as error:
                    kind, content = "failed", str(error)
                if kind == "says":
                    yield place, content
                    continue
                del busy[worker]
                if kind == "refused":
                    raise JobError(content)
                if kind == "failed":
                    failures[place] += 1
                    _check_retries(failures, place, len(jobs), content)
                    waiting.append(place)
        finally:
            for worker in busy:
                self.stop(worker)


def _check_retries(failures: Counter[int], place: int, jobs: int, why: str) -> None:
    if failures[place] > RETRIES:
        raise JobError(
            f"job {place + 1} of {jobs} failed {RETRIES + 1} times, the last time with: {why}. "
            "What is finished is kept: run the same command to go on, with fewer workers if "
            "memory is short"
        )


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
        return
    if address is not None:
        raise EngineError(f"--address {address} is for --engine ray; local processes need none")
    from radt.engine.local import LocalEngine

    yield LocalEngine(1 if workers is None else workers)
