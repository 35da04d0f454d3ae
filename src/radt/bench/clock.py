"""Looking into a decision while it is made: how long its parts take, and what its query is."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from radt.memory.embed import Embedder, IncrementalEmbedder
from radt.trajectory import Batch


class Clock:
    """Seconds by part; a part inside another counts for itself only."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]  # seconds spent in parts inside the parts that are running

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a part."""
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


class WatchedEmbedder:
    """An embedder, its steps included, of which time and last vectors are known.

    `incremental=False` takes its steps away, so that every query is embedded from its window.
    """

    def __init__(self, embedder: Embedder, clock: Clock, incremental: bool) -> None:
        self.embedder, self.clock, self.incremental = embedder, clock, incremental
        self.vectors = torch.zeros(0, embedder.width)  # [B, width] the last ones

    def __getattr__(self, name: str) -> Any:
        return getattr(self.embedder, name)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Embed whole windows."""
        with self.clock.part("embed"):
            self.vectors = self.embedder(prefixes, dropped)
        return self.vectors

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        """Return itself as what embeds step by step, where that is offered and wanted."""
        offered = self.embedder.stepper(rows, context_len) if self.incremental else None
        if offered is None:
            return None
        self._stepper = offered
        return self

    def reset(self, rows: Tensor) -> None:
        """Start new trajectories in some rows."""
        self._stepper.reset(rows)

    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        """Embed one more step."""
        with self.clock.part("embed"):
            self.vectors = self._stepper.step(latest, rows)
        return self.vectors
