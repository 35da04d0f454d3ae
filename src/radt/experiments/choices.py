"""How a run computes: measured once on this machine, written down, and kept from then on.

Sums of floating-point numbers depend on how many threads share them, on their precision and on how
they were compiled, so a run that is resumed goes on with what it began with. The index is not
measured: exact ones round differently and would find other chunks on another machine, so it is
chosen in the config or not at all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from radt.decode import decode
from radt.files import atomic_write
from radt.methods import Method

PROBED = 5  # updates per candidate, the first to warm up
WORTH_ROUNDING = 1.2  # how much faster bfloat16 must be than single precision
WORTH_COMPILING = 20 * 60.0  # seconds of training below which no compiler is tried


@dataclass(frozen=True)
class Choices:
    """How a run computes."""

    threads: int
    measured: dict[str, float] = field(default_factory=dict)  # seconds per update; {}: not measured
    precision: Literal["float32", "bfloat16"] = "float32"
    compiled: bool = False
    note: str = ""

    def loss(self, method: Method) -> Callable[[Any], Tensor]:
        """Return the method's loss as it is computed; weights stay in single precision."""
        compute: Callable[[Any], Tensor] = method.loss
        if self.compiled:
            compute = torch.compile(compute)
        if self.precision == "float32":
            return compute
        device = next(method.networks["policy"].parameters()).device.type

        def rounded(examples: Any) -> Tensor:
            with torch.autocast(device, torch.bfloat16):
                return compute(examples)

        return rounded

    @property
    def name(self) -> str:
        """What stands beside the seconds that were measured."""
        compiled = ", compiled" if self.compiled else ""
        return f"{self.threads} threads, {self.precision}{compiled}"


def choose(
    file: Path,
    probe: Callable[[], tuple[Method, list[Any]]],
    updates: int,
    requested: int | None = None,
) -> Choices:
    """Take the run's earlier choices, or the threads asked for, or the fastest of `probe`."""
    if known := recall(file):
        return known
    choices = Choices(requested) if requested is not None else _fastest(*probe(), updates)
    torch.set_num_threads(choices.threads)
    atomic_write(file, (json.dumps(asdict(choices), indent=2) + "\n").encode())
    return choices


def recall(file: Path) -> Choices | None:
    """Return what a run has chosen before, if it has, and use as many threads again."""
    if not file.exists():
        return None
    choices = decode(Choices, json.loads(file.read_text()), where=str(file))
    torch.set_num_threads(choices.threads)
    return choices


def _fastest(learner: Method, batches: list[Any], updates: int) -> Choices:
    """Time a few updates of each candidate and return the fastest that is worth it."""
    learner.networks["policy"].train()
    counts = sorted({1, os.cpu_count() or 1})
    single, rounded = (
        [Choices(n) for n in counts],
        [Choices(n, precision="bfloat16") for n in counts],
    )
    seconds = {one.name: _seconds(one, learner, batches) for one in single + rounded}
    best, faster = (min(kind, key=lambda one: seconds[one.name]) for kind in (single, rounded))
    if seconds[best.name] >= WORTH_ROUNDING * seconds[faster.name]:
        best = faster
    alone = updates * seconds[best.name]
    if alone > WORTH_COMPILING:
        compiled, started = replace(best, compiled=True), time.perf_counter()
        try:
            each = seconds[compiled.name] = _seconds(compiled, learner, batches)
            spent = time.perf_counter() - started
            best = compiled if spent + updates * each < alone else best
        except Exception as error:  # a missing or broken compiler shows in many ways
            best = replace(best, note=f"not compiled: {type(error).__name__}")
    return replace(best, measured={name: round(value, 5) for name, value in seconds.items()})


def _seconds(choices: Choices, learner: Method, batches: list[Any]) -> float:
    """Time the loss and its gradient over all batches but the first, which warms up."""
    torch.set_num_threads(choices.threads)
    loss = choices.loss(learner)
    started = time.perf_counter()
    for count, examples in enumerate(batches):
        if count == 1:
            started = time.perf_counter()
        value = loss(examples)
        value.backward()
        value.item()  # waits for the device
    return (time.perf_counter() - started) / (len(batches) - 1)
