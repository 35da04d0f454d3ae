"""Where a result comes from: which machine, how long each phase took, what it cost, how it learned.

Cost is counted from the method itself. Speed is read from the run's log as medians between its
lines, so that a pause, a restart or a look at validation tasks in between does not count.
"""

from __future__ import annotations

import json
import os
import platform
import re
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from radt.costs import measure_cost
from radt.data import Dataset
from radt.data.manifest import MANIFEST
from radt.decode import MOST_BYTES, DecodeError, decode, read_json
from radt.errors import RadtWarning
from radt.files import atomic_write, open_plain
from radt.methods import METHODS, Method
from radt.runs.run import Run, training_folder
from radt.variants import PLAIN

BEAT = 5.0  # seconds between two times that a running phase is written down
LOG = "log.jsonl"
TRIAL = re.compile(r"trial_[1-9]\d{0,8}")  # a value of a look at validation tasks
RETRIEVER = re.compile(r"retriever_[a-z_]{1,40}")  # and of how a retriever learns
PLACE = ("time", "phase", "step")  # of a line of a log; the rest are its values
Line = Mapping[str, Any]  # one line of a log


@dataclass(frozen=True)
class _Place:
    time: float
    phase: str
    step: int


def machine() -> dict[str, Any]:
    """Describe what the run ran on, without naming it."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    """Return the kind of processor; Linux tells it in a file only."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


class Stopwatch:
    """Seconds of wall time by phase, over all the times a run was started."""

    def __init__(self, file: Path | None = None) -> None:
        """Go on counting from what `file` holds, and write it after each phase."""
        self.file = file
        self.seconds: dict[str, float] = {}
        if file is not None and file.exists():
            self.seconds = _seconds(file)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase; of a killed process all but the last seconds."""
        before, started = self.seconds.get(name, 0.0), time.monotonic()
        over = threading.Event()

        def count() -> None:
            self.seconds[name] = round(before + time.monotonic() - started, 2)
            if self.file is not None:
                atomic_write(self.file, (json.dumps(self.seconds) + "\n").encode())

        def keep_counting() -> None:
            while not over.wait(BEAT):
                with suppress(OSError):  # the count that ends the phase says what is wrong
                    count()

        beating = threading.Thread(target=keep_counting, daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()
            count()


def _seconds(file: Path) -> dict[str, float]:
    """Read what was counted before; a damaged count must not keep a run from going on."""
    try:
        known = read_json(file, dict[str, float], "time is counted anew from here")
        if not all(PLAIN.fullmatch(phase) and spent >= 0 for phase, spent in known.items()):
            raise DecodeError(f"{file} counts no seconds; time is counted anew from here")
        return known
    except DecodeError as error:
        warnings.warn(str(error), RadtWarning, stacklevel=2)
        return {}


def measured(run: Run, method: Method) -> dict[str, Any]:
    """Return the parts of `icl.json` that say what a run cost and how it learned."""
    lines, config = read_log(run.out), run.config
    decisions = len(run.tasks[1]) * run.suite.spaces.horizon  # of a trial, all tasks together
    learned = looks(lines, RETRIEVER)
    return {
        **({"retriever": learned} if learned else {}),
        "cost": cost(run, method),
        "speed": {
            "samples_per_second": _times(config.learn.batch_size, updates_per_second(lines)),
            "decisions_per_second": _times(decisions, trials_per_second(lines)),
        },
        "learning": validations(lines),
        "embeddings_of_training": facts_of(lines, "embed"),  # counts of a language model
        "prepared": facts_of(lines, "prepare"),  # such as the sizes of an index
    }


def cost(run: Run, method: Method) -> dict[str, Any] | None:
    """Count what a method needs; without its dataset the targets of an update stay unknown."""
    if not METHODS[run.config.method].learns_from_data:
        return None
    folder = training_folder(run.config)
    dataset = Dataset.open(folder) if (folder / MANIFEST).is_file() else None
    return asdict(measure_cost(method, dataset, batch_size=run.config.learn.batch_size))


def read_log(folder: Path) -> list[dict[str, Any]]:
    """Read a run's log, but for lines that are damaged or that a killed writer left half."""
    file = folder / LOG
    found, damaged, text = [], 0, b""
    if file.is_file():
        with open_plain(file) as opened:
            text = opened.read(MOST_BYTES)
    for line in text.splitlines():
        if line.endswith(b"}"):
            try:
                found.append(_line(line))
            except (ValueError, RecursionError):
                damaged += 1
    if damaged:
        warnings.warn(
            f"{damaged} lines of {file} are damaged and left out of tables; the run is not",
            RadtWarning,
            stacklevel=2,
        )
    return found


def _line(text: bytes) -> dict[str, Any]:
    """Read a line of a log: when, where, and numbers; null where a run that diverges has none."""
    said = decode(dict[str, Any], json.loads(text, parse_constant=lambda _: None))
    decode(_Place, {name: said[name] for name in PLACE if name in said})
    decode(dict[str, float | bool | None], {n: v for n, v in said.items() if n not in PLACE})
    return said


def updates_per_second(lines: Iterable[Line], phase: str = "train") -> float | None:
    """Return the speed of training, without the looks at validation tasks."""
    training = [line for line in lines if line["phase"] == phase]
    return _speed((a, b) for a, b in pairwise(training) if "loss" in b)


def trials_per_second(lines: Iterable[Line]) -> float | None:
    """Return the speed of the evaluation of the method itself."""
    trials = [line for line in lines if line["phase"] == "evaluate"]
    return _speed((a, b) for a, b in pairwise(trials) if b["step"] == a["step"] + 1)


def validations(lines: Iterable[Line], phase: str = "train") -> list[dict[str, Any]]:
    """List the returns on validation tasks by update."""
    return looks(lines, TRIAL, phase)


def looks(
    lines: Iterable[Line], named: re.Pattern[str], phase: str = "train"
) -> list[dict[str, Any]]:
    """List the values of such names by update; what was repeated counts once."""
    found = {
        int(line["step"]): values
        for line in lines
        if line["phase"] == phase
        and (values := {n: v for n, v in line.items() if named.fullmatch(n) and v is not None})
    }
    return [{"update": update, **found[update]} for update in sorted(found)]


def facts_of(lines: Iterable[Line], phase: str) -> dict[str, Any] | None:
    """Return the latest values of a phase that logs facts, if there was one."""
    facts = [line for line in lines if line["phase"] == phase]
    return {n: v for n, v in facts[-1].items() if n not in PLACE} if facts else None


def _times(count: int, per_second: float | None) -> float | None:
    return None if per_second is None else round(count * per_second, 1)


def _speed(pairs: Iterable[tuple[Line, Line]]) -> float | None:
    """Return the median of steps per second between lines that follow each other."""
    known = [
        (b["step"] - a["step"]) / (b["time"] - a["time"])
        for a, b in pairs
        if b["step"] > a["step"] and b["time"] > a["time"]
    ]
    return median(known) if known else None
