"""What is chosen by measuring, once per run, and kept from then on.

Sums of floating-point numbers depend on how many threads share them, so a run that is resumed must
go on with the number it began with. Single precision and no compilation are fixed, not measured.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from radt.decode import decode
from radt.files import atomic_write

UPDATES = 4  # measured per candidate, after one to warm up


@dataclass(frozen=True)
class Choices:
    """How a run computes."""

    threads: int
    measured: dict[str, float]  # seconds per update by number of threads; empty: not measured
    precision: str = "float32"
    compiled: bool = False


def choose(file: Path, update: Callable[[], object], requested: int | None = None) -> Choices:
    """Take the run's earlier choice, or what was asked for, or the fastest; and write it down."""
    if file.exists():
        choices = decode(Choices, json.loads(file.read_text()), where=str(file))
    elif requested is not None:
        choices = Choices(requested, {})
    else:
        choices = _measure(update)
    torch.set_num_threads(choices.threads)
    atomic_write(file, (json.dumps(asdict(choices), indent=2) + "\n").encode())
    return choices


def _measure(update: Callable[[], object]) -> Choices:
    """Time a few updates with one thread and with one per core."""
    seconds: dict[str, float] = {}
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        update()
        started = time.perf_counter()
        for _ in range(UPDATES):
            update()
        seconds[str(threads)] = round((time.perf_counter() - started) / UPDATES, 5)
    return Choices(int(min(seconds, key=seconds.__getitem__)), seconds)
