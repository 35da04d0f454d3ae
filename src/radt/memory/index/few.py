"""The exact comparison of each query with a few rows of its own, and what is answered.

It is written in NumPy, on the CPU: for so few numbers a call costs more than what it computes, and
those of NumPy cost a third of those of torch.
"""

from __future__ import annotations

import math

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
    length = np.sqrt(np.matmul(vectors[:, None], vectors[:, :, None]))[:, 0]  # [B, 1]
    if not math.isfinite(length.sum()):
        raise ValueError(NO_NUMBER)
    vectors /= np.maximum(length, SHORTEST)
    return vectors


def best_of_few(
    table: KeyTable, directions: NDArray[np.float64], rows: NDArray[np.int64], k: int
) -> Few:
    """Return the k best of rows [B, n], rising, -1 for none, to unit vectors [B, d], best first."""
    count, most = rows.shape
    if rows.size * table.width <= AT_ONCE:
        grid = _on_the_grid(table, directions, rows)
    else:
        parts = np.array_split(np.arange(count), min(count, 1 + rows.size * table.width // AT_ONCE))
        grid = np.concatenate([_on_the_grid(table, directions[at], rows[at]) for at in parts])
    grid[rows < 0] = -np.inf
    newest_first = grid * -most - np.arange(most)  # whole numbers, so no two are equal
    place = newest_first.argsort(axis=1)[:, :k]
    if count > 1:
        place += (np.arange(count) * most)[:, None]
    return (grid.take(place) / GRID).astype(np.float32), rows.take(place)


def _on_the_grid(
    table: KeyTable, directions: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compare queries [b, d] with rows of their own: cosines [b, n] in steps of the grid."""
    keys, length = table.few(rows)  # [b, n, d], [b, n]
    cosine: NDArray[np.float64] = np.matmul(keys, directions[:, :, None])[:, :, 0]
    cosine /= length
    cosine *= GRID
    np.rint(cosine, out=cosine)
    return cosine


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
    ids[scores == -np.inf] = -1
    if (short := k - scores.shape[1]) > 0:
        scores = np.pad(scores, ((0, 0), (0, short)), constant_values=-np.inf)
        ids = np.pad(ids, ((0, 0), (0, short)), constant_values=-1)
    relevance, found = torch.from_numpy(scores), torch.from_numpy(ids)
    if table.device.type == "cpu":
        return relevance, found
    return relevance.to(table.device), found.to(table.device)
