"""A trace: everything an agent did in an evaluation and why, bounded, as JSON lines.

The first line says what the trace is of. Then each line is one trial of one task, in columns: what
was seen and done, what was searched, found, scored and chosen (`RecordedSteps` names them). The
last line says that the trace ends, and where it was cut. Each line ends with a seal of where it
stands and what it says.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from radt.agent import Agent
from radt.errors import RadtError
from radt.files import naming, open_own
from radt.runs.step_recorder import StepRecorder
from radt.trajectory import Verdict

VERSION = 3
MOST_STEPS = 200_000
MOST_BYTES = 1 << 26  # of one line that is read
SEALED = re.compile(rb'(.*), "seal": "([0-9a-f]{32})"\}\n', re.DOTALL)
UNFINISHED = "it breaks off: whoever wrote it was stopped"
START = re.compile(rb'\{"task": (\d+), "trial": (\d+), "return": (-?[\d.e+-]+), "steps": (\d+), ')


class TraceError(RadtError, ValueError):
    """A file that is no trace of this version; the message says what to do."""


class Trace:
    """Writes down what every slot of an agent does, trial by trial."""

    def __init__(self, path: Path, env: str = "", method: str = "", most: int = MOST_STEPS) -> None:
        self._path, self._file = path, open_own(path, flags=0)
        self._file.truncate(0)
        self.env, self.method, self.most, self.written = env, method, most, 0
        self._recorder: StepRecorder | None = None
        self._cut: str | None = None

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Look at what every slot did; a trial is written when the next one begins."""
        if self._recorder is None:
            self._recorder = StepRecorder(agent).__enter__()
            self._write(
                {
                    "radt_trace": VERSION,
                    "env": self.env,
                    "method": self.method or agent.method.name,
                    "tasks": list(agent.tasks),
                    "verdicts": [verdict.name.lower() for verdict in Verdict],
                }
            )
        begun = agent.is_acting & (agent.trials.step == 0)
        for slot in begun.nonzero()[0].tolist():
            self._finish(self._recorder, slot)
        self._recorder.see(rewards)

    def close(self) -> None:
        if self._recorder is not None:
            for slot in range(self._recorder.agent.slots):
                self._finish(self._recorder, slot)
            self._recorder.__exit__()
            self._write({"end": self._cut})
        with naming(self._path):
            self._file.close()

    def _finish(self, recorder: StepRecorder, slot: int) -> None:
        """Write down a whole trial, and what the memory held as it began."""
        part = recorder.take(slot)
        if not len(part) or self._cut:
            return
        if self.written + len(part) > self.most:
            self._cut = f"only whole trials of the first {self.most} steps are kept"
            return
        self.written += len(part)
        columns = asdict(part)
        del columns["trial"], columns["start"]
        earned = round(sum(part.rewards), 6)
        task = recorder.agent.tasks[slot]
        first = {"task": task, "trial": part.trial, "return": earned, "steps": len(part)}
        self._write({**first, **columns, "entries": recorder.entries[slot]})

    def _write(self, line: dict[str, Any]) -> None:
        said = json.dumps(line, allow_nan=False).encode()[:-1]
        sealed = said + f', "seal": "{line_seal(self._file.tell(), said)}"}}\n'.encode()
        with naming(self._path):
            self._file.write(sealed)


def line_seal(offset: int, said: bytes) -> str:
    """Hash what a line says before its seal, and where it stands."""
    return hashlib.blake2b(b"%d " % offset + said, digest_size=16).hexdigest()


@contextmanager
def tracing(path: Path | None, env: str = "", method: str = "") -> Iterator[Trace | None]:
    """Write a trace of an environment's tasks to a file while inside, or none."""
    trace = None if path is None else Trace(path, env, method)
    try:
        yield trace
    finally:
        if trace is not None:
            trace.close()


@dataclass(frozen=True)
class TracedTrial:
    """Where a trial stands in a trace, and what is worth knowing before it is read."""

    task: int
    trial: int
    total_return: float
    steps: int
    offset: int
    size: int  # bytes


@dataclass(frozen=True)
class Contents:
    """What a trace holds, without its trials."""

    env: str
    method: str
    tasks: tuple[int, ...]
    trials: dict[tuple[int, int], TracedTrial]  # by task and trial
    cut: str | None


def read_contents(path: Path) -> Contents:
    """Read what a trace is of and where its trials stand, once every line is as it was written."""
    if not path.is_file():
        raise TraceError(f"there is no {path.name}; write one with `radt evaluate --trace`")
    with path.open("rb") as file:
        line = file.readline(MOST_BYTES)
        first = _parsed(path, line)
        version = first.get("radt_trace") if isinstance(first, dict) else None
        if version != VERSION:
            raise TraceError(
                f"{path.name} is no trace of format {VERSION}; write one with `radt evaluate "
                "--trace`"
            )
        places, cut, offset = dict[tuple[int, int], TracedTrial](), UNFINISHED, 0
        while line.endswith(b"\n"):
            _check_seal(path, line, offset)
            if match := START.match(line):
                task, trial, steps = (int(match[group]) for group in (1, 2, 4))
                place = TracedTrial(task, trial, float(match[3]), steps, offset, len(line))
                places[task, trial] = place
            elif line.startswith(b'{"end": '):
                cut = _parsed(path, line)["end"]
            offset += len(line)
            line = file.readline(MOST_BYTES)
    tasks = tuple(dict.fromkeys(task for task, _ in places))
    return Contents(str(first.get("env")), str(first.get("method")), tasks, places, cut)


def _check_seal(path: Path, line: bytes, offset: int) -> None:
    """Refuse a line that is not as it was written, or not where."""
    found = SEALED.fullmatch(line)
    if found is None or line_seal(offset, found[1]) != found[2].decode():
        raise TraceError(
            f"{path.name} was damaged or edited (at byte {offset}); write it again with `radt "
            "evaluate --trace`"
        )


def read_trial(path: Path, place: TracedTrial) -> dict[str, Any]:
    """Read one trial of a trace."""
    if place.size > MOST_BYTES:
        raise TraceError(f"trial {place.trial} of {path.name} is too long: {place.size} bytes")
    with path.open("rb") as file:
        file.seek(place.offset)
        line = file.read(place.size)
    _check_seal(path, line, place.offset)
    told = dict(_parsed(path, line))
    del told["seal"]
    return told


def _parsed(path: Path, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{path.name} is damaged ({error}); write it again with `radt evaluate --trace`"
        ) from error
