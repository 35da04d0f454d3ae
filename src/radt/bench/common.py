"""What benchmarks share: clocks, made-up histories, untrained methods, and the record's frame."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from radt.collect import record_histories
from radt.collect.noisy_expert import NoisyExpertOptions
from radt.config import RunConfig
from radt.data import Dataset
from radt.envs.suite import TaskSuite
from radt.memory.embed import Embedder
from radt.methods import METHODS, Method
from radt.runs.provenance import machine
from radt.runs.run import Run, build_for
from radt.track import Tracker
from radt.trajectory import Batch
from radt.version import code_version

Item = TypeVar("Item")


def with_provenance(
    name: str, measured: Mapping[str, Any], ratio: float | None = None
) -> dict[str, Any]:
    """Add to what was measured where it comes from, and the ratio as the last word."""
    origin = {"code_version": code_version(), "machine": machine()}
    return {"benchmark": name, **measured, **origin, "ratio": ratio}


def tracked(phase: str, items: Collection[Item], quiet: bool) -> Iterator[Item]:
    """Go through what is measured and move a bar."""
    tracker = Tracker(quiet=quiet)
    tracker.start(phase, total=len(items))
    for done, item in enumerate(items):
        tracker.advance(done, str(item))
        yield item
    tracker.advance(len(items))
    tracker.finish()


def mean_seconds(action: Callable[[int], object], times: int, at_least: float = 0.5) -> float:
    """Repeat an action, told which time it is, for some seconds; return how long one takes."""
    begun, done = time.perf_counter(), 0
    while done < times or time.perf_counter() - begun < at_least:
        done += 1
        action(done)
    return (time.perf_counter() - begun) / done


class Clock:
    """Seconds by part; a part inside another counts for itself only."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]  # seconds spent in parts inside the parts that are running

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._inner.append(0.0)
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - begun
            self.seconds[name] += spent - self._inner.pop()
            self._inner[-1] += spent

    def watch(self, owner: object, function: str, part: str) -> None:
        """Let the time of an object's function count for a part from now on."""
        original: Callable[..., Any] = getattr(owner, function)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return original(*args, **kwargs)

        setattr(owner, function, timed)


@contextmanager
def made_up_folder(suite: TaskSuite, transitions: int) -> Iterator[Path]:
    """Write random walks through all training tasks as a dataset that is soon deleted."""
    episodes = max(2, transitions // suite.spaces.horizon)  # a chunk comes from another episode
    options = NoisyExpertOptions(
        tasks=len(suite.train_tasks), episodes=episodes, first_noise=1.0, last_noise=1.0
    )
    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        record_histories(suite, options, Path(folder), 1, quiet=True, source="noisy-expert")
        yield Path(folder)


class MadeUpKeys:
    """Stands in for an embedder while an index is filled: keys of the right width in no time."""

    def __init__(self, embedder: Embedder) -> None:
        self.width, self.network = embedder.width, embedder.network
        self._rng = torch.Generator().manual_seed(0)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Return random directions, [B, width]."""
        return torch.randn(len(prefixes), self.width, generator=self._rng)


def untrained_method(config: RunConfig, device: str = "cpu") -> Method:
    """Build a run's method; how long it takes does not depend on what it has learned."""
    return build_for(Run(config, Path(), device=device))


def prepared_method(config: RunConfig, dataset: Dataset, device: str) -> tuple[Method, int]:
    """Build a method, fill its index with one key per entry, and count the keys.

    Nothing is dropped as a duplicate, so the search is over more keys than in training.
    """
    if not METHODS[config.method].embeds:
        method = untrained_method(config, device)
        method.prepare(dataset)
        return method, 0
    training = dataclasses.replace(config.options.training, dedup=None)
    options = dataclasses.replace(config.options, training=training)
    method = untrained_method(dataclasses.replace(config, options=options), device)
    reading: Any = method
    embedder = reading.embedder
    reading.embedder = MadeUpKeys(embedder)
    method.prepare(dataset)
    reading.embedder = reading.memory.embedder = embedder
    return method, len(reading.memory.index)
