"""Approximate search in a navigable small-world graph, from Faiss.

The graph grows in blocks whose ends depend on nothing but their place, by one thread: Faiss makes
another graph from the same keys if they come in other parts. Rows behind the last whole block are
compared one by one. Where very many keys are equal, a graph has few ways from one heap of them to
the next: then too little is found, every key is compared, and inverted lists are the better choice.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.memory.index.approximate import ApproximateIndex, Stage, unit_rows
from radt.memory.index.effort import measure_effort
from radt.memory.index.faiss_library import LivingRows, faiss_library, one_thread
from radt.memory.index.protocol import INDEXES
from radt.memory.index.table import KeyTable

BLOCK = 256  # rows of the first blocks
SHARE = 8192  # later a block is this part of all rows before it
NEIGHBOURS = 32
EFFORT_TO_BUILD = 100
LEAST_EFFORT, MOST_EFFORT = 64, 1024  # nodes that a search keeps in sight
MEASURE = 4  # the effort is measured anew when there are so many times more rows


class SmallWorld:
    """A graph over the first rows of a table."""

    def __init__(self, table: KeyTable, rows: int) -> None:
        faiss = faiss_library()
        self.covered, self._left = 0, LivingRows()
        self.effort, self.found, self._measure_at = LEAST_EFFORT, 0.0, rows
        self.index = faiss.IndexHNSWFlat(table.width, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EFFORT_TO_BUILD

    def follow(self, table: KeyTable) -> None:
        """Take in every block that is whole."""
        while (end := self.covered + max(BLOCK, self.covered // SHARE)) <= table.size:
            with one_thread():
                self.index.add(unit_rows(table, slice(self.covered, end)))
            self.covered = end
            if self.covered >= self._measure_at:
                self._measure_at *= MEASURE
                self._left.follow(table, self.covered)
                measure_effort(self, table, MOST_EFFORT)
        self._left.follow(table, self.covered)

    def wanted(self, k: int) -> int:
        """Ask for a few more than k: among equal keys the newest shall be found."""
        return min(k + k // 4, self.covered)

    def raw(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Name some k rows for each query [B, d]."""
        effort = _effort(max(self.effort, k), self._left.selector)
        rows: NDArray[np.int64] = self.index.search(queries, k, params=effort)[1]
        return rows


@lru_cache(maxsize=2)
def _effort(nodes: int, left: Any) -> Any:
    """Tell Faiss how many nodes to keep in sight, and which rows are left."""
    return faiss_library().SearchParametersHNSW(efSearch=nodes, sel=left)


def plan(rows: int) -> Stage | None:
    """Compare every key as long as there is not one block."""
    return None if rows < BLOCK else Stage(SmallWorld, BLOCK)


def hnsw_index(width: int) -> ApproximateIndex:
    """Build an index that searches through a graph."""
    return ApproximateIndex(width, plan)


INDEXES.register("faiss-hnsw", hnsw_index)
