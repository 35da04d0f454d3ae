"""Exact search at the price of single precision.

Keys are gone through block by block. Those that may be among the best are found in single
precision and then compared exactly: the answer is the same, bit for bit, as if all had been.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from radt.memory.index.few import Few, Gathered, best_of_few
from radt.memory.index.rough import Directions, candidates, candidates_of_one
from radt.memory.index.table import KeyTable, Rows
from radt.memory.similarity import best_first, similarity

QUERIES = 128  # that are compared with a block of keys at once
BLOCK = 1 << 15  # keys of a block: its products with the queries stay in the cache of a CPU
FEW = 512  # keys that are all compared exactly
MANY = 16  # one key in so many: with more candidates it is quicker to compare all


def nearest(
    table: KeyTable, directions: Directions, k: int, rows: NDArray[np.int64] | range
) -> Few:
    """Return the k best of some rows, given in rising order, for each unit vector [B, d].

    Removed rows are passed over. Scores and rows are [B, n], n at most k; absent: -inf.
    """
    rows = rows if len(directions) else rows[:0]
    if len(directions) <= QUERIES:
        return _nearest(table, directions, k, rows)
    gathered = Gathered(len(directions), k)
    for start in range(0, len(directions), QUERIES):
        part = slice(start, start + QUERIES)
        gathered.put(part, _nearest(table, directions[part], k, rows))
    return gathered.scores, gathered.rows


def _nearest(
    table: KeyTable, directions: Directions, k: int, rows: NDArray[np.int64] | range
) -> Few:
    best = np.zeros((len(directions), 0), np.float32), np.zeros((len(directions), 0), np.int64)
    for block in _blocks(rows):
        newer = _best_of_block(table, directions, k, block, best[0])
        best = _merged(best, newer, k) if best[0].shape[1] else newer
    return best


def _blocks(rows: NDArray[np.int64] | range) -> Iterator[Rows]:
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        yield slice(part.start, part.stop) if isinstance(part, range) else part


def _merged(older: Few, newer: Few, k: int) -> Few:
    """Keep the k best of both; of equal ones those of the second come first."""
    scores, rows = np.hstack([newer[0], older[0]]), np.hstack([newer[1], older[1]])
    column = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, column, 1), np.take_along_axis(rows, column, 1)


def _best_of_block(
    table: KeyTable, directions: Directions, k: int, block: Rows, best: NDArray[np.float32]
) -> Few:
    """Find the k best of a block, or fewer where others do not reach the `best` so far."""
    size = block.stop - block.start if isinstance(block, slice) else len(block)
    if size <= FEW or torch.get_float32_matmul_precision() != "highest":
        return _compare_all(table, directions, k, block)
    floor = best[:, -1] if best.shape[1] == k else np.full(len(best), -np.inf, np.float32)
    if len(directions) == 1 and table.on_cpu:
        column = candidates_of_one(table, directions[0], k, block, float(floor[0]))
        return best_of_few(table, directions, _rows(block, column)[None], k)
    query, column = candidates(table, directions, k, block, floor)
    count = np.bincount(query, minlength=len(directions))
    crowded = count > max(2 * k, size // MANY)
    if not crowded.any():
        return _compare(table, directions, k, query, _rows(block, column))
    few = ~crowded[query]
    gathered, many = Gathered(len(directions), k), np.flatnonzero(crowded)
    gathered.put(slice(None), _compare(table, directions, k, query[few], _rows(block, column[few])))
    gathered.put(many, _compare_all(table, directions[many], k, block))
    return gathered.scores, gathered.rows


def _compare(
    table: KeyTable,
    directions: Directions,
    k: int,
    query: NDArray[np.int64],
    row: NDArray[np.int64],
) -> Few:
    """Compare pairs of a query and a row, both rising, exactly."""
    count = np.bincount(query, minlength=len(directions))
    most = int(count.max())
    rows = np.full((len(count), most), -1)
    rows[query, np.arange(len(query)) + (most - count.cumsum())[query]] = row
    return best_of_few(table, directions, rows, k)


def _compare_all(table: KeyTable, directions: Directions, k: int, block: Rows) -> Few:
    """Compare all queries with all keys of a block exactly."""
    queries = torch.from_numpy(directions).to(table.device)
    scores = similarity(queries, table.directions(block))  # [B, n]
    if table.removed:
        scores = scores.masked_fill(~table.living(block), -torch.inf)
    best, column = best_first(scores, k)
    return best.cpu().numpy(), _rows(block, column.cpu().numpy())


def _rows(block: Rows, column: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (
        column + block.start if isinstance(block, slice) else block.take(column)
    )
    return found
