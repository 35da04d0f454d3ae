"""The exact comparison of each query with a few rows of its own, and what is answered.

It is written in NumPy, on the CPU: for so few numbers a call costs more than what it computes, and
those of NumPy cost a third of those of torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.table import KeyTable
from radt.memory.similarity import GRID, NO_NUMBER, SHORTEST

AT_ONCE = 1 << 21  # numbers of keys that are held in double precision
Few = tuple[NDArray[np.float32], NDArray[np.int64]]  # scores [B, n] on the grid, rows [B, n]
Answer = tuple[Tensor, Tensor]  # relevance [B, k], ids [B, k]


def directions_of(queries: Tensor) -> NDArray[np.float64]:
    """Scale queries [B, d] to length 1, as `unit` does."""
    vectors = queries.numpy(force=True).astype(np.float64)
    for vector in vectors:  # one by one: most often there is one
        length = math.sqrt(vector.dot(vector))
        if not math.isfinite(length):
            raise ValueError(NO_NUMBER)
        vector /= max(length, SHORTEST)
    return vectors


def best_of_few(
    table: KeyTable, directions: NDArray[np.float64], rows: NDArray[np.int64], k: int
) -> Few:
    """Return the k best of rows [B, n] to unit vectors [B, d], best first.

    Rows rise; -1 stands for none, before all others.
    """
    count, most = rows.shape
    rows = rows[:, ::-1]  # of equal ones the newest comes first
    if rows.size * table.width <= AT_ONCE:
        grid = _on_the_grid(table, directions, rows)
    else:
        parts = np.array_split(np.arange(count), min(count, 1 + rows.size * table.width // AT_ONCE))
        grid = np.concatenate([_on_the_grid(table, directions[at], rows[at]) for at in parts])
    if most and lowest(rows[:, -1]) < 0:
        grid[rows < 0] = np.inf
    place = grid.argsort(axis=1, kind="stable")[:, :k]
    if count > 1:
        place += (np.arange(count) * most)[:, None]
    return (grid.take(place) / -GRID).astype(np.float32), rows.take(place)


def _on_the_grid(
    table: KeyTable, directions: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compare queries [b, d] with rows of their own: negative cosines on the grid, [b, n]."""
    keys, length = table.few(rows)  # [b, n, d], [b, n]
    if len(keys) == 1:  # one product, which NumPy begins sooner than many
        cosine: NDArray[np.float64] = keys[0].dot(directions[0])[None]
    else:
        cosine = np.matmul(keys, directions[:, :, None])[:, :, 0]
    cosine /= length
    cosine *= -GRID
    np.rint(cosine, out=cosine)
    return cosine


def lowest(column: NDArray[Any]) -> float:
    """Return the lowest of few numbers; of one, in a tenth of the time that NumPy takes."""
    return float(min(column.tolist(), default=0))


class Gathered:
    """The k best of queries that were compared one part after the other."""

    def __init__(self, count: int, k: int) -> None:
        self.scores = np.full((count, k), -np.inf, np.float32)
        self.rows = np.full((count, k), -1)

    def put(self, who: NDArray[np.int64] | slice, found: Few) -> None:
        """Write down what was found for some queries, at most k each."""
        width = found[0].shape[1]
        self.scores[who, :width], self.rows[who, :width] = found


def answer(table: KeyTable, scores: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> Answer:
    """Name rows by their ids and fill up to k columns: -inf and -1 where there is nothing."""
    ids = table.ids(rows)
    if scores.shape[1] and lowest(scores[:, -1]) == -np.inf:
        ids[scores == -np.inf] = -1
    if (short := k - scores.shape[1]) > 0:
        scores = np.pad(scores, ((0, 0), (0, short)), constant_values=-np.inf)
        ids = np.pad(ids, ((0, 0), (0, short)), constant_values=-1)
    relevance, found = torch.from_numpy(scores), torch.from_numpy(ids)
    if table.on_cpu:
        return relevance, found
    return relevance.to(table.device), found.to(table.device)
