"""Graphs and inverted lists of Faiss (the extra `radt[faiss]`), and the choice by size.

What Faiss builds must depend on the keys alone. It builds with one thread, since with several the
outcome differs from run to run, and a graph grows in blocks whose ends depend on nothing but their
place, since the same keys in other parts make another graph.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.memory.index.approximate import (
    NEIGHBOURS,
    ApproximateIndex,
    Plan,
    Stage,
    evenly,
    measure_effort,
    unit_rows,
)
from radt.memory.index.protocol import INDEXES
from radt.memory.index.table import KeyTable

# A graph (HNSW).
BLOCK = 256  # rows of its first blocks
SHARE = 8192  # later a block is this part of all rows before it
LINKS = 32
EFFORT_TO_BUILD = 100
LEAST_EFFORT, MOST_EFFORT = 64, 1024  # nodes that a search keeps in sight
# Inverted lists (IVF).
SMALLEST = 4096  # rows that lists are built for
GROWTH = 4  # the centres are found anew when there are so many times more rows
POINTS, ROUNDS = 32, 8  # rows per centre that centres are found from, and rounds of k-means
OUTLIERS = 0.005  # share of a dimension's numbers, at each end, that its byte does not tell apart
MOST_CODES = 1 << 16  # keys that one search looks at: a list of equal keys can be very long
AT_ONCE = 1 << 16  # rows that are added together
# The choice: `radt bench memory` measures one read through every index at several sizes. An exact
# search is taken as long as it is about as fast as the fastest one that finds at least 95% of what
# it finds. The table is the same for everybody, so that the same entries are searched in the same
# way everywhere.
TABLE = (  # so many keys of 64 numbers at most, and how they are searched
    (16_384, "flat"),
    (None, "faiss-ivf"),
)
WIDTH = 64  # a key of other width counts as so many more or fewer


def faiss_library() -> Any:
    """Return Faiss, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("this index needs Faiss: pip install 'radt[faiss]'") from error
    return faiss


@contextmanager
def faiss_in_one_thread() -> Iterator[None]:
    """Let Faiss build with one thread."""
    faiss = faiss_library()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class SmallWorld:
    """A graph over the first rows of a table; those behind its last whole block are compared.

    Where very many keys are equal, a graph has few ways from one heap of them to the next: then too
    little is found, every key is compared, and inverted lists are the better choice.
    """

    def __init__(self, table: KeyTable, rows: int) -> None:
        faiss = faiss_library()
        self.covered, self.effort, self.found = 0, LEAST_EFFORT, 0.0
        self._measure_at = rows
        self.index = faiss.IndexHNSWFlat(table.width, LINKS, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EFFORT_TO_BUILD

    def follow(self, table: KeyTable) -> None:
        """Take in every block that is whole."""
        while (end := self.covered + max(BLOCK, self.covered // SHARE)) <= table.size:
            with faiss_in_one_thread():
                self.index.add(unit_rows(table, slice(self.covered, end)))
            self.covered = end
            if self.covered >= self._measure_at:
                self._measure_at *= 4
                self._left = living_rows(table, self.covered)
                measure_effort(self, table, MOST_EFFORT)
        self._left = living_rows(table, self.covered)

    def wanted(self, k: int) -> int:
        """Ask for a few more than k: among equal keys the newest shall be found."""
        return min(k + k // 4, self.covered)

    def raw(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Name some k rows for each query [B, d]."""
        effort = faiss_library().SearchParametersHNSW(efSearch=max(self.effort, k), sel=self._left)
        rows: NDArray[np.int64] = self.index.search(queries, k, params=effort)[1]
        return rows


class InvertedLists:
    """Lists of keys, each by the nearest of some centres; a search looks into a few lists only.

    There a key takes one byte per dimension; what is found is compared exactly with the keys of the
    table. How many lists are looked into is measured when they are made.
    """

    def __init__(self, table: KeyTable, rows: int) -> None:
        self.covered, self.effort, self.found = 0, 1, 0.0  # effort: lists that are looked into
        self.lists = lists_for(rows)
        self.index, self._measure_at = trained(table, rows, self.lists), rows
        self.follow(table)

    def follow(self, table: KeyTable) -> None:
        """Put later rows into their lists."""
        while self._measure_at <= table.size:
            self._add(table, self._measure_at)
            self._measure_at *= 2
            measure_effort(self, table, self.lists)
        self._add(table, table.size)

    def _add(self, table: KeyTable, end: int) -> None:
        for start in range(self.covered, end, AT_ONCE):
            self.index.add(unit_rows(table, slice(start, min(end, start + AT_ONCE))))
        self.covered = end
        self._left = living_rows(table, end)

    def wanted(self, k: int) -> int:
        """Ask for more than k: one byte per dimension ranks them only roughly."""
        return min(3 * k, self.covered)

    def raw(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Name some k rows for each query [B, d]."""
        more = max(1, k // self.wanted(NEIGHBOURS))  # than the lists were measured for
        lists = min(self.lists, self.effort * more)
        effort = faiss_library().SearchParametersIVF(
            nprobe=lists, max_codes=MOST_CODES * more, sel=self._left
        )
        rows: NDArray[np.int64] = self.index.search(queries, k, params=effort)[1]
        return rows


def living_rows(table: KeyTable, covered: int) -> Any:
    """Tell Faiss which of the rows that it covers were not removed; None: all of them."""
    if not table.removed:
        return None
    bits = np.packbits(table.living(slice(0, covered)).numpy(), bitorder="little")
    return faiss_library().IDSelectorBitmap(bits)


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
    with faiss_in_one_thread():
        index.train(unit_rows(table, evenly(rows, POINTS * lists)))
    return index


def hnsw_plan(rows: int) -> Stage | None:
    """Compare every key as long as there is not one block."""
    return None if rows < BLOCK else Stage(SmallWorld, BLOCK)


def ivf_plan(rows: int) -> Stage | None:
    """Name the size at which centres were last found anew."""
    if rows < SMALLEST:
        return None
    size = SMALLEST
    while size * GROWTH <= rows:
        size *= GROWTH
    return Stage(InvertedLists, size)


PLANS: dict[str, Plan] = {
    "flat": lambda rows: None,
    "faiss-hnsw": hnsw_plan,
    "faiss-ivf": ivf_plan,
}


def choice(width: int, rows: int) -> str:
    """Name the index for keys of a width, by how many numbers an exact search goes through."""
    size = rows * width / WIDTH
    return next(name for most, name in TABLE if most is None or size <= most)


def hnsw_index(width: int) -> ApproximateIndex:
    """Build an index that searches through a graph."""
    return ApproximateIndex(width, hnsw_plan)


def ivf_index(width: int) -> ApproximateIndex:
    """Build an index that searches through inverted lists."""
    return ApproximateIndex(width, ivf_plan)


def auto_plan(width: int, rows: int) -> Stage | None:
    """Name the finder for a number of rows."""
    return PLANS[choice(width, rows)](rows)


def auto_index(width: int) -> ApproximateIndex:
    """Build an index for any size; without Faiss every key is compared."""
    found = importlib.util.find_spec("faiss") is not None
    return ApproximateIndex(width, partial(auto_plan, width) if found else PLANS["flat"])


INDEXES.register("faiss-hnsw", hnsw_index)
INDEXES.register("faiss-ivf", ivf_index)
INDEXES.register("auto", auto_index)
