"""Exact search in torch, on a CPU or a GPU: one product, then an exact comparison of a few keys.

The product is in single precision. Rounding can move a cosine by no more than a known margin, so a
key that is farther than this behind the k-th best cannot be among the k best. The few others are
compared exactly: the answer is the same, bit for bit, as if all had been.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.protocol import INDEXES, check_queries
from radt.memory.index.table import KeyTable, Rows
from radt.memory.similarity import GRID, NO_NUMBER, SHORTEST, best_first, similarity

QUERIES = 128  # that are compared with a block of keys at once
BLOCK = 1 << 15  # keys of a block: its products with the queries stay in the cache of a CPU
FEW = 512  # keys that are all compared exactly
SHORT = 256  # rows of a partition that are compared at once with those of others
ALONE = 1024  # rows of a partition that are, if there is one query
MANY = 16  # one key in so many: with more candidates it is quicker to compare all
GROUP = 32  # cosines of which only the largest counts when the k-th is estimated
LOWEST = -2.0  # below every cosine, but above the -inf of a removed key
AT_ONCE = 1 << 21  # numbers of keys that are held in double precision

Directions = NDArray[np.float64]  # unit vectors [B, d]
Found = tuple[NDArray[np.float32], NDArray[np.int64]]  # scores and rows [B, k]; absent: -inf, -1


class FlatIndex:
    """Compares a query with every key, or with every key of its partition."""

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.table = KeyTable(width, device)

    def __len__(self) -> int:
        return len(self.table)

    def to(self, device: torch.device | str) -> None:
        """Keep keys on a device, before there are any."""
        if len(self):
            raise ValueError(f"{len(self)} keys are on {self.table.device}; build another index")
        if torch.device(device).type != "mps":  # has no double precision
            self.table = KeyTable(self.table.width, device)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each."""
        self.table.add(keys, partition, ids)

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]."""
        self.table.remove(ids)

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        check_queries(queries, k, partition, self.table.width)
        directions = directions_of(queries)  # [B, d]
        if partition is None:
            found = nearest_rows(self.table, directions, k, range(self.table.size))
        else:
            found = self._in_partitions(directions, k, partition.tolist())
        return answer(self.table, found)

    def _in_partitions(self, directions: Directions, k: int, partition: list[int]) -> Found:
        """Find the k best keys of each query's own partition."""
        members = {number: self.table.rows_of(number) for number in partition}
        longest = max(map(len, members.values()), default=0)
        if longest <= (ALONE if len(partition) == 1 else SHORT):
            rows = np.full((len(partition), longest), -1)
            for row, number in zip(rows, partition, strict=True):
                row[longest - len(members[number]) :] = members[number]
            return best_of_few(self.table, directions, rows, k)
        if len(members) == 1:
            return nearest_rows(self.table, directions, k, members[partition[0]])
        (scores, found), asked = nothing_found(len(partition), k), np.array(partition)
        for number, own in members.items():
            who = asked == number
            scores[who], found[who] = nearest_rows(self.table, directions[who], k, own)
        return scores, found


INDEXES.register("flat", FlatIndex)


def directions_of(queries: Tensor) -> Directions:
    """Scale queries [B, d] to length 1, as `unit` does; most often there is one."""
    vectors = queries.numpy(force=True).astype(np.float64)
    for vector in vectors:
        length = math.sqrt(vector.dot(vector))
        if not math.isfinite(length):
            raise ValueError(NO_NUMBER)
        vector /= max(length, SHORTEST)
    return vectors


def nothing_found(count: int, k: int) -> Found:
    """Return what is found for so many queries in an empty table."""
    return np.full((count, k), -np.inf, np.float32), np.full((count, k), -1)


def answer(table: KeyTable, found: Found) -> tuple[Tensor, Tensor]:
    """Name rows by their ids: relevance and ids, both [B, k]."""
    scores, rows = found
    relevance, ids = torch.from_numpy(scores), torch.from_numpy(table.ids(rows))
    return relevance.to(table.device), ids.to(table.device)


def nearest_rows(
    table: KeyTable, directions: Directions, k: int, rows: NDArray[np.int64] | range
) -> Found:
    """Find the k best of some rows, given in rising order, for each unit vector [B, d].

    Removed rows are passed over.
    """
    if len(directions) > QUERIES:
        starts = range(0, len(directions), QUERIES)
        parts = [nearest_rows(table, directions[at : at + QUERIES], k, rows) for at in starts]
        return np.vstack([scores for scores, _ in parts]), np.vstack([rows for _, rows in parts])
    best = nothing_found(len(directions), k)
    for number, block in enumerate(_blocks(rows) if len(directions) else ()):
        newer = _best_of_block(table, directions, k, block, best[0][:, -1])
        best = merged(best, newer) if number else newer
    return best


def _blocks(rows: NDArray[np.int64] | range) -> Iterator[Rows]:
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        yield slice(part.start, part.stop) if isinstance(part, range) else part


def merged(older: Found, newer: Found) -> Found:
    """Keep the k best of both; of equal ones those of the second come first."""
    scores, rows = np.hstack([newer[0], older[0]]), np.hstack([newer[1], older[1]])
    column = np.argsort(-scores, axis=1, kind="stable")[:, : older[0].shape[1]]
    return np.take_along_axis(scores, column, 1), np.take_along_axis(rows, column, 1)


def _best_of_block(
    table: KeyTable, directions: Directions, k: int, block: Rows, floor: NDArray[np.float32]
) -> Found:
    """Find the k best of a block, or fewer where others do not reach the `floor` [B] so far."""
    size = block.stop - block.start if isinstance(block, slice) else len(block)
    if size <= FEW or torch.get_float32_matmul_precision() != "highest":
        return _compare_all(table, directions, k, block)
    if len(directions) == 1 and table.on_cpu:
        column = _candidates_of_one(table, directions[0], k, block, float(floor[0]))
        return best_of_few(table, directions, _rows(block, column)[None], k)
    query, column = _candidates(table, directions, k, block, floor)
    count = np.bincount(query, minlength=len(directions))
    crowded = count > max(2 * k, size // MANY)
    if not crowded.any():
        return _compare(table, directions, k, query, _rows(block, column))
    few = ~crowded[query]
    scores, rows = _compare(table, directions, k, query[few], _rows(block, column[few]))
    scores[crowded], rows[crowded] = _compare_all(table, directions[crowded], k, block)
    return scores, rows


def _candidates(
    table: KeyTable, directions: Directions, k: int, block: Rows, floor: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find which keys may be among the k best: query and column of the block, both rising [n]."""
    keys, length = table.scaled(block)
    queries = torch.from_numpy(directions.astype(np.float32)).to(table.device)
    cosine = (queries @ keys.T).div_(length.float())  # [B, n]
    if table.removed:
        cosine.masked_fill_(~table.living(block), -torch.inf)
    reached = torch.maximum(_reached_by(cosine, k), torch.from_numpy(floor).to(table.device))
    reached = reached.sub_(margin(table.width)).clamp_min_(LOWEST)
    query, column = divmod(np.flatnonzero((cosine >= reached[:, None]).cpu().numpy()), len(keys))
    return query, column


def _reached_by(cosine: Tensor, k: int) -> Tensor:
    """Return a value that at least k cosines of each row reach, close to the k-th best: [B]."""
    rows, count = cosine.shape
    if count < k:
        return cosine.new_full((rows,), -torch.inf)
    if (groups := count // GROUP) > 2 * k:
        cosine = cosine[:, : groups * GROUP].unflatten(1, (GROUP, groups)).amax(1)
    return cosine.topk(k, sorted=False).values.amin(1)


def _candidates_of_one(
    table: KeyTable, direction: Directions, k: int, block: Rows, floor: float
) -> NDArray[np.int64]:
    """Do the same for one query [d] in NumPy, which takes half the time where little is done."""
    keys, length = table.scaled(block)
    cosine: NDArray[np.float32] = keys.numpy() @ direction.astype(np.float32)  # [n]
    cosine /= length.float().numpy()
    if table.removed:
        cosine[~table.living(block).numpy()] = -np.inf
    largest, count = cosine, len(cosine)
    if (groups := count // GROUP) > 2 * k:
        largest = cosine[: groups * GROUP].reshape(GROUP, groups).max(0)
    if count >= k:
        floor = max(floor, float(np.partition(largest, len(largest) - k)[-k]))
    column: NDArray[np.int64] = (cosine >= max(floor - margin(table.width), LOWEST)).nonzero()[0]
    return column


def margin(width: int) -> float:
    """How much lower than the k-th best a cosine in single precision may be and still beat it.

    A sum of d products of unit vectors is wrong by at most d roundings, whatever their order.
    """
    rounding = (width + 8) * 2.0**-24
    return 2 * rounding + 1 / GRID


def _compare(
    table: KeyTable,
    directions: Directions,
    k: int,
    query: NDArray[np.int64],
    row: NDArray[np.int64],
) -> Found:
    """Compare pairs of a query and a row, both rising, exactly."""
    count = np.bincount(query, minlength=len(directions))
    most = int(count.max())
    rows = np.full((len(count), most), -1)
    rows[query, np.arange(len(query)) + (most - count.cumsum())[query]] = row
    return best_of_few(table, directions, rows, k)


def _compare_all(table: KeyTable, directions: Directions, k: int, block: Rows) -> Found:
    """Compare all queries with all keys of a block exactly."""
    queries = torch.from_numpy(directions).to(table.device)
    scores = similarity(queries, table.directions(block))  # [B, n]
    if table.removed:
        scores = scores.masked_fill(~table.living(block), -torch.inf)
    best, column = best_first(scores, k)
    there, rows = nothing_found(len(directions), k)
    there[:, : best.shape[1]] = best.cpu().numpy()
    rows[:, : best.shape[1]] = _rows(block, column.cpu().numpy())
    rows[np.isneginf(there)] = -1
    return there, rows


def best_of_few(table: KeyTable, directions: Directions, rows: NDArray[np.int64], k: int) -> Found:
    """Compare each unit vector [B, d] exactly with rows of its own [B, n]: the k best of them.

    Rows rise; -1 stands for none, before all others. In NumPy: for so few numbers a call costs more
    than what it computes, and those of NumPy cost a third of those of torch.
    """
    (scores, found), most = nothing_found(len(rows), k), rows.shape[1]
    rows = rows[:, ::-1]  # of equal ones the newest comes first
    step = max(1, AT_ONCE // max(1, most * table.width))
    for start in range(0, len(rows) if most else 0, step):
        part = slice(start, start + step)
        own = rows[part]
        grid = _on_the_grid(table, directions[part], own)
        place = grid.argsort(axis=1, kind="stable")[:, :k]
        if len(own) > 1:
            place += (np.arange(len(own)) * most)[:, None]
        scores[part, : place.shape[1]] = grid.take(place) / -GRID
        found[part, : place.shape[1]] = own.take(place)
    return scores, found


def _on_the_grid(
    table: KeyTable, directions: Directions, rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compare queries [b, d] with rows of their own: negative cosines on the grid, [b, n]."""
    keys, length = table.scaled(rows.ravel().clip(0))
    vectors = keys.double().cpu().numpy().reshape(*rows.shape, -1)  # [b, n, d]
    if len(vectors) == 1:  # one product, which NumPy begins sooner than many
        cosine: NDArray[np.float64] = vectors[0].dot(directions[0])[None]
    else:
        cosine = np.matmul(vectors, directions[:, :, None])[:, :, 0]
    cosine /= length.cpu().numpy().reshape(rows.shape)
    cosine *= -GRID
    np.rint(cosine, out=cosine)
    cosine[rows < 0] = np.inf
    return cosine


def _rows(block: Rows, column: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (
        column + block.start if isinstance(block, slice) else block.take(column)
    )
    return found
