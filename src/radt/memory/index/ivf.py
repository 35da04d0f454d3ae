"""Approximate search in inverted lists of compressed keys, from Faiss, for very many entries.

Keys are shared out among lists by the nearest of some centres; a search looks into a few lists
only. There a key takes one byte per dimension; what is found is compared exactly with the keys of
the table. How many lists are looked into is measured when they are made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.memory.index.approximate import ApproximateIndex, Stage, unit_rows
from radt.memory.index.effort import NEIGHBOURS, evenly, measure_effort
from radt.memory.index.faiss_library import LivingRows, faiss_library, one_thread
from radt.memory.index.protocol import INDEXES
from radt.memory.index.table import KeyTable

SMALLEST = 4096  # rows that lists are built for
GROWTH = 4  # the centres are found anew when there are so many times more rows
MEASURE = 2  # and the effort is measured anew
POINTS, ROUNDS = 32, 8  # rows per centre that centres are found from, and rounds of k-means
OUTLIERS = 0.005  # share of a dimension's numbers, at each end, that its byte does not tell apart
MOST_CODES = 1 << 16  # keys that one search looks at: a list of equal keys can be very long
AT_ONCE = 1 << 16  # rows that are added together


class InvertedLists:
    """Lists whose centres are found from the first rows of a table."""

    def __init__(self, table: KeyTable, rows: int) -> None:
        self.covered, self._left = 0, LivingRows()
        self.lists = lists_for(rows)
        self.effort, self.found = 1, 0.0  # lists that one search looks into
        self.index, self._measure_at = trained(table, rows, self.lists), rows
        self.follow(table)

    def follow(self, table: KeyTable) -> None:
        """Put later rows into their lists."""
        while self._measure_at <= table.size:
            self._add(table, self._measure_at)
            self._measure_at *= MEASURE
            self._left.follow(table, self.covered)
            measure_effort(self, table, self.lists)
        self._add(table, table.size)
        self._left.follow(table, self.covered)

    def _add(self, table: KeyTable, end: int) -> None:
        for start in range(self.covered, end, AT_ONCE):
            self.index.add(unit_rows(table, slice(start, min(end, start + AT_ONCE))))
        self.covered = end

    def wanted(self, k: int) -> int:
        """Ask for more than k: one byte per dimension ranks them only roughly."""
        return min(3 * k, self.covered)

    def raw(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Name some k rows for each query [B, d]."""
        more = max(1, k // self.wanted(NEIGHBOURS))  # than the lists were measured for
        effort = _effort(
            min(self.lists, self.effort * more), MOST_CODES * more, self._left.selector
        )
        rows: NDArray[np.int64] = self.index.search(queries, k, params=effort)[1]
        return rows


@lru_cache(maxsize=2)
def _effort(lists: int, codes: int, left: Any) -> Any:
    """Tell Faiss how many lists and keys to look at, and which rows are left."""
    return faiss_library().SearchParametersIVF(nprobe=lists, max_codes=codes, sel=left)


def lists_for(rows: int) -> int:
    """Return a power of two near eight times the root of the number of rows."""
    return int(2 ** np.round(3 + np.log2(rows) / 2))


def trained(table: KeyTable, rows: int, lists: int) -> Any:
    """Find the centres of lists among the first rows."""
    faiss = faiss_library()
    factory = f"IVF{lists}_HNSW32,SQ8"
    index = faiss.index_factory(table.width, factory, faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = POINTS
    index.cp.min_points_per_centroid = 1  # fewer than Faiss likes are no reason to warn
    index.cp.niter = ROUNDS
    # a few far keys would stretch the range of a byte, and near ones would look alike
    index.sq.rangestat = faiss.ScalarQuantizer.RS_quantiles
    index.sq.rangestat_arg = OUTLIERS
    with one_thread():
        index.train(unit_rows(table, evenly(rows, POINTS * lists)))
    return index


def plan(rows: int) -> Stage | None:
    """Name the size at which centres were last found anew."""
    if rows < SMALLEST:
        return None
    size = SMALLEST
    while size * GROWTH <= rows:
        size *= GROWTH
    return Stage(InvertedLists, size)


def ivf_index(width: int) -> ApproximateIndex:
    """Build an index that searches through inverted lists."""
    return ApproximateIndex(width, plan)


INDEXES.register("faiss-ivf", ivf_index)
