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

from radt.memory.index.exact import (
    FlatIndex,
    answer,
    best_of_few,
    directions_of,
    merged,
    nearest_rows,
)
from radt.memory.index.protocol import check_queries
from radt.memory.index.table import KeyTable, Rows

TRUSTED = 0.95  # a finder that was measured to find less is not asked
NEIGHBOURS = 50  # by which the share that is found is measured
SAMPLED = 128  # rows that take part as queries
BLEND = 0.1  # weight of another row in a query: nobody asks for exactly what is stored
ENOUGH = 0.97  # share of the neighbours that has to be found
CLOSE = 1e-6  # what is this close to the last neighbour counts as one


class Finder(Protocol):
    """Names rows that may be the nearest."""

    covered: int  # rows that it knows; those behind them are compared without it
    effort: int  # the more, the more it finds
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
        if finder is None or finder.found < TRUSTED:
            return self.exact.search(queries, k, partition)
        check_queries(queries, k, None, self.table.width)
        table, directions = self.table, directions_of(queries)
        rows = np.sort(finder.raw(directions.astype(np.float32), finder.wanted(k)), axis=1)
        scores, found = merged(
            best_of_few(table, directions, rows, k),
            nearest_rows(table, directions, k, range(finder.covered, table.size)),
        )
        short = np.isneginf(scores[:, min(k, len(self)) - 1])  # fewer were named than there are
        if short.any():
            scores[short], found[short] = nearest_rows(
                table, directions[short], k, range(table.size)
            )
        return answer(table, (scores, found))

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


def measure_effort(finder: Finder, table: KeyTable, most: int) -> None:
    """Double the effort, up to `most`, until enough of the nearest covered rows are found."""
    sample = table.directions(evenly(finder.covered, SAMPLED))  # [SAMPLED, d]
    queries = directions_of((1 - BLEND) * sample + BLEND * sample.roll(1, 0))
    last = nearest_rows(table, queries, NEIGHBOURS, range(finder.covered))[0][
        :, -1:
    ]  # [SAMPLED, 1]
    while True:
        named = finder.raw(queries.astype(np.float32), finder.wanted(NEIGHBOURS))
        scores, _ = best_of_few(table, queries, np.sort(named, axis=1), NEIGHBOURS)
        finder.found = float((scores >= last - CLOSE).mean())
        if finder.found >= ENOUGH or finder.effort >= most:
            break
        finder.effort = min(2 * finder.effort, most)


def evenly(rows: int, count: int) -> NDArray[np.int64]:
    """Choose so many of the first rows, at equal distances; all if there are not more."""
    return np.linspace(0, rows - 1, min(rows, count)).astype(np.int64)
