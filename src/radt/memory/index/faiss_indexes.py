"""Approximate search: Faiss (the extra `radt[faiss]`) names candidates, which are compared exactly.

Faiss is asked only where all partitions are searched; each alone is searched exactly. What it
builds depends on the keys alone, however they came: it takes them in whole blocks, since the same
keys in other parts make another graph, and in one thread, since with several the outcome differs
from run to run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.exact import FlatIndex, candidates, rerank
from radt.memory.index.key_table import KeyTable
from radt.memory.index.protocol import INDEXES, Index, check_queries
from radt.memory.similarity import unit

BLOCK = 1024  # rows that a finder takes in together; those behind its last block are all compared
FETCHED = 3  # times as many candidates as are asked for: a finder ranks them only roughly
MOST = 128  # nearest keys that a finder is asked for; whoever wants more has every key compared
GROWTH = 4  # a finder is built anew when there are so many times more rows
# A graph (HNSW). With these settings 97% to 99% of the nearest 50 are found among up to a million
# keys of `radt bench memory`; where very many keys are equal it finds fewer than lists do.
LINKS = 32
EFFORT_TO_BUILD, EFFORT_TO_SEARCH = 100, 512  # nodes that are kept in sight
# Inverted lists (IVF), one byte per number: 96% to 99% among up to ten million keys.
SMALLEST = 4096  # rows that lists are built for
LISTS_READ = 32
POINTS, ROUNDS = 32, 8  # rows per centre that centres are found from, and rounds of k-means
OUTLIERS = 0.005  # share of a dimension's numbers, at each end, that its byte does not tell apart
# `auto` compares every key as long as there are no more numbers than these: up to there an exact
# search is about as fast (`radt bench memory`).
COMPARED = 16_384 * 64


class Finder(Protocol):
    """What names candidates; every index of Faiss does."""

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Take in unit vectors [n, d], the next rows."""

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[Any, NDArray[np.int64]]:
        """Return scores and some k rows for each query [B, d], both [B, k]; -1: no more."""


Build = Callable[[KeyTable, int], Finder]  # an empty one, which may learn from the first rows


class ApproximateIndex(FlatIndex):
    """Searches all partitions through a finder, and each alone exactly."""

    def __init__(self, width: int, build: Build, smallest: int, learns: bool = True) -> None:
        """Ask a finder when there are at least so many rows; one that `learns` is built anew."""
        super().__init__(width)
        self.build, self.smallest, self.learns = build, smallest, learns
        self.finder: Finder | None = None
        self.covered = 0  # rows that the finder knows
        self._built = (0, 0)  # for how many rows, and how often they had moved

    def to(self, device: torch.device | str) -> None:
        """Stay on the CPU, where a finder is."""

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        finder = self.follow() if partition is None and k <= MOST else None
        if finder is None:
            return super().search(queries, k, partition)
        check_queries(queries, k, None, self.table.width)
        directions = unit(queries.detach().cpu())  # [B, d]
        rows = torch.from_numpy(finder.search(directions.float().numpy(), FETCHED * k)[1])
        rows = rows.where(self.table.living(rows), -1).sort(1).values  # [B, FETCHED * k]
        behind = candidates(self.table, directions, k, slice(self.covered, self.table.size))
        relevance, ids = rerank(self.table, directions, torch.cat([rows, behind], 1), k)
        if (ids < 0).any():  # fewer were named than are asked for
            return super().search(queries, k)
        return relevance, ids

    def follow(self) -> Finder | None:
        """Let the finder take in what came since; the first search after adding waits for it."""
        table, rows = self.table, self.smallest
        if table.size < rows:
            return None
        while self.learns and GROWTH * rows <= table.size:
            rows *= GROWTH
        with faiss_in_one_thread():
            if self.finder is None or self._built != (rows, table.moved):
                self.finder, self.covered = self.build(table, rows), 0
                self._built = (rows, table.moved)
            while (end := self.covered + BLOCK) <= table.size:
                self.finder.add(table.directions(slice(self.covered, end)).numpy())
                self.covered = end
        return self.finder


@contextmanager
def faiss_in_one_thread() -> Iterator[None]:
    """Let Faiss build with one thread, where it is installed."""
    if importlib.util.find_spec("faiss") is None:
        yield
        return
    faiss = faiss_library()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def faiss_library() -> Any:
    """Return Faiss, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("this index needs Faiss: pip install 'radt[faiss]'") from error
    return faiss


def graph(table: KeyTable, rows: int) -> Any:
    """Build an empty graph."""
    faiss = faiss_library()
    index = faiss.IndexHNSWFlat(table.width, LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = EFFORT_TO_BUILD, EFFORT_TO_SEARCH
    return index


def inverted_lists(table: KeyTable, rows: int) -> Any:
    """Build empty lists, each around one of the centres of the first rows."""
    faiss = faiss_library()
    lists = int(2 ** np.round(3 + np.log2(rows) / 2))  # about eight times the root
    factory = f"IVF{lists}_HNSW32,SQ8"
    index = faiss.index_factory(table.width, factory, faiss.METRIC_INNER_PRODUCT)
    index.nprobe = LISTS_READ
    index.cp.max_points_per_centroid = POINTS
    index.cp.min_points_per_centroid = 1  # fewer than Faiss likes are no reason to warn
    index.cp.niter = ROUNDS
    # a few far keys would stretch the range of a byte, and near ones would look alike
    index.sq.rangestat = faiss.ScalarQuantizer.RS_quantiles
    index.sq.rangestat_arg = OUTLIERS
    sample = torch.linspace(0, rows - 1, min(rows, POINTS * lists), dtype=torch.float64).long()
    index.train(table.directions(sample).numpy())
    return index


def hnsw_index(width: int) -> ApproximateIndex:
    """Build an index that searches through a graph."""
    return ApproximateIndex(width, graph, BLOCK, learns=False)


def ivf_index(width: int) -> ApproximateIndex:
    """Build an index that searches through inverted lists."""
    return ApproximateIndex(width, inverted_lists, SMALLEST)


def auto_index(width: int) -> Index:
    """Build an index for any size; without Faiss every key is compared."""
    if importlib.util.find_spec("faiss") is None:
        return FlatIndex(width)
    return ApproximateIndex(width, inverted_lists, COMPARED // width + 1)


def choice(width: int, rows: int) -> str:
    """Name the index that `auto` is for so many keys of a width."""
    return "flat" if rows * width <= COMPARED else "faiss-ivf"


INDEXES.register("faiss-hnsw", hnsw_index)
INDEXES.register("faiss-ivf", ivf_index)
INDEXES.register("auto", auto_index)
