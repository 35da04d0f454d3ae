"""The plug point of engines, and what they share: messages, and a ledger of who tries what."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from radt.errors import RadtError

RETRIES = 2  # how often a job is begun again after its worker has failed

Job = TypeVar("Job")
Work = Callable[[Job], Iterator[Any]]  # yields what JSON knows; the last value is the result


class EngineError(RadtError, ValueError):
    """Jobs that cannot be done as asked; the message says what to do."""


class JobError(EngineError):
    """A job that was refused, or that failed again and again; the message says why."""


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


class Ledger:
    """Which jobs wait, and how often each has failed."""

    def __init__(self, jobs: int) -> None:
        self.waiting = deque(range(jobs))
        self._failures: Counter[int] = Counter()
        self._jobs = jobs

    def hear(self, place: int, message: bytes) -> tuple[str, Any]:
        """Read a message about a job: ("says", news) or ("done" or "failed", None)."""
        kind, content = json.loads(message)
        if kind == "refused":
            raise JobError(content)
        if kind == "failed":
            self.put_back(place, content)
            return kind, None
        return kind, content

    def put_back(self, place: int, why: str) -> None:
        """Let a job that failed wait again, unless it has failed too often."""
        self._failures[place] += 1
        if self._failures[place] > RETRIES:
            raise JobError(
                f"job {place + 1} of {self._jobs} failed {RETRIES + 1} times, the last time with: "
                f"{why}. What is finished is kept: run the same command to go on, with fewer "
                "workers if memory is short"
            )
        self.waiting.append(place)
