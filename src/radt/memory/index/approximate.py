"""Approximate search that is exact wherever it matters.

A finder names a few rows that may be the nearest, and those are compared exactly. It is asked only
when all partitions are searched, and if it was measured to find enough; otherwise every key is
compared. A finder is a function of the rows of the table alone, however they came, so that growing
one by one equals adding in bulk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.checks import check_queries
from radt.memory.index.few import Few, Gathered, answer, best_of_few, directions_of, lowest
from radt.memory.index.flat import FlatIndex
from radt.memory.index.rough import Directions
from radt.memory.index.scan import FEW, nearest
from radt.memory.index.table import KeyTable, Rows

TRUSTED = 0.95  # a finder that was measured to find less is not asked


class Finder(Protocol):
    """Names rows that may be the nearest."""

    covered: int  # rows that it knows; those behind them are compared without it
    found: float  # share of the nearest rows that it was measured to find

    def follow(self, table: KeyTable) -> None:
        """Take in rows that came since, and name no more those that were removed."""
        ...

    def raw(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Name some k rows for each query [B, d]; -1 where there are fewer."""
        ...

    def wanted(self, k: int) -> int:
        """Say how many rows it has to name so that the k best are among them."""
        ...


@dataclass(frozen=True)
class Stage:
    """The finder that serves a table of some size: built from its first rows, then growing."""

    build: Callable[[KeyTable, int], Finder]
    rows: int


Plan = Callable[[int], Stage | None]  # by the number of rows; None: every key is compared


class ApproximateIndex:
    """Searches all partitions through a finder, and each alone exactly."""

    def __init__(self, width: int, plan: Plan) -> None:
        self.exact, self.plan = FlatIndex(width), plan
        self.finder: Finder | None = None
        self._built: tuple[Stage | None, int] = (None, 0)
        self._followed = (0, 0, 0)  # rows, removed ones, how often they moved

    def __len__(self) -> int:
        return len(self.exact)

    @property
    def table(self) -> KeyTable:
        """The keys themselves."""
        return self.exact.table

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each."""
        self.exact.add(keys, partition, ids)

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]."""
        self.exact.remove(ids)

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        finder = self.follow() if partition is None else None
        if finder is None or finder.found < TRUSTED or not len(queries):
            return self.exact.search(queries, k, partition)
        check_queries(queries, k, None, self.table.width)
        directions = directions_of(queries)
        rows = finder.raw(directions.astype(np.float32), finder.wanted(k))
        if finder.covered < self.table.size:
            rows = np.concatenate([rows, self._behind(finder.covered, directions, k)], axis=1)
        rows.sort(axis=1)
        best = best_of_few(self.table, directions, rows, k)
        return answer(self.table, *self._completed(best, directions, k), k)

    def _behind(self, first: int, directions: Directions, k: int) -> NDArray[np.int64]:
        """Name rows from `first` on that may be among the k best, [B, n]: all if they are few."""
        count, size = len(directions), self.table.size
        if count * (size - first) <= FEW and not self.table.removed:
            return np.arange(first, size)[None].repeat(count, axis=0)
        scores, rows = nearest(self.table, directions, k, range(first, size))
        return np.where(np.isneginf(scores), -1, rows)

    def _completed(self, best: Few, directions: Directions, k: int) -> Few:
        """Compare every key for queries that were named fewer than there are."""
        scores = best[0]
        if scores.shape[1] == k and lowest(scores[:, -1]) > -np.inf:
            return best
        enough = min(k, len(self))
        gathered = Gathered(len(scores), k)
        gathered.put(slice(None), best)
        short = np.flatnonzero(gathered.scores[:, enough - 1] == -np.inf)
        everything = range(self.table.size)
        gathered.put(short, nearest(self.table, directions[short], k, everything))
        return gathered.scores, gathered.rows

    def follow(self) -> Finder | None:
        """Bring the finder to what the table holds; the first search after adding waits for it."""
        if self._followed == (now := (self.table.size, self.table.removed, self.table.moved)):
            return self.finder
        stage = self.plan(self.table.size)
        if self._built != (stage, self.table.moved):
            self.finder = None if stage is None else stage.build(self.table, stage.rows)
            self._built = stage, self.table.moved
        if self.finder is not None:
            self.finder.follow(self.table)
        self._followed = now
        return self.finder


def unit_rows(table: KeyTable, rows: Rows) -> NDArray[np.float32]:
    """Return keys scaled to length 1 in single precision, as Faiss takes them, [n, d]."""
    return table.directions(rows).float().numpy()
