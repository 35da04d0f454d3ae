"""Exact search in torch, on a CPU or a GPU: one product per block of keys, then one exact re-rank.

The product is in single precision. Rounding can move a cosine by no more than a known margin, so a
key that is farther than this behind the k-th best cannot be among the k best. The few others are
compared in double precision: the answer is the same, bit for bit, as if all had been. Of equal keys
the newest come first, so that of thousands, as a fixed start makes them, only k are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from radt.memory.index.key_table import KeyTable, Rows
from radt.memory.index.protocol import INDEXES, check_queries
from radt.memory.similarity import GRID, best_first, on_grid, unit

QUERIES = 128  # that are compared with a block of keys at once
BLOCK = 1 << 15  # keys of a block: its products with the queries stay in the cache of a CPU
ONE_ASKS = 8  # so many blocks are one where there is one query
SHORT = 256  # rows of a partition that are compared at once with those of others
GROUP = 32  # cosines of which only the largest counts when the k-th is estimated
LOWEST = -2.0  # below every cosine, but above the -inf of a removed key
AT_ONCE = 1 << 21  # numbers of keys that are held in double precision
MANY = 1024  # candidates of a query among which equal keys are looked for


@dataclass(frozen=True)
class Answer:
    """What a query found among the first rows of a partition; rows that follow are newer."""

    direction: Tensor  # [1, d]
    asked: tuple[int, int, int]  # k, and how often rows were removed and moved before
    rows: int
    scores: Tensor  # [1, k]
    ids: Tensor  # [1, k]


class FlatIndex:
    """Compares a query with every key, or with every key of its partition.

    Trials that begin alike ask alike: a query that was the last one of a large partition, too, is
    compared with newer keys only.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.table = KeyTable(width, device)
        self._last: dict[int, Answer] = {}  # by partition

    def __len__(self) -> int:
        return len(self.table)

    def to(self, device: torch.device | str) -> None:
        """Keep keys on a device, before there are any."""
        if len(self):
            raise ValueError(f"{len(self)} keys are on {self.table.device}; build another index")
        if torch.device(device).type != "mps":  # has no double precision
            self.table = KeyTable(self.table.width, device)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        self.table.add(keys, partition, ids)

    def remove(self, ids: Tensor) -> None:
        self.table.remove(ids)

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        check_queries(queries, k, partition, self.table.width)
        directions = unit(queries.detach().to(self.table.device))  # [B, d]
        if partition is None:
            return best_of(self.table, directions, k, slice(0, self.table.size))
        return self._search_partitions(directions, k, partition.tolist())

    def _search_partitions(
        self, directions: Tensor, k: int, partition: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Find the k best keys of each query's own partition."""
        members = {number: self.table.rows_of(number) for number in partition}
        if partition and max(map(len, members.values())) <= SHORT:
            own_rows = [members[number] for number in partition]
            count = torch.tensor([len(rows) for rows in own_rows], device=directions.device)
            return rerank(self.table, directions, _side_by_side(torch.cat(own_rows), count), k)
        relevance, ids = _nothing(directions, k)
        asked = torch.tensor(partition, device=directions.device)
        for number, own in members.items():
            who = asked == number
            relevance[who], ids[who] = self._best_in(number, directions[who], k, own)
        return relevance, ids

    def _best_in(
        self, number: int, directions: Tensor, k: int, own: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Find the k best rows of one partition for queries of its own."""
        if len(directions) > 1 or len(own) <= BLOCK:
            return best_of(self.table, directions, k, own)
        asked, last = (k, self.table.removed, self.table.moved), self._last.get(number)
        if last is None or last.asked != asked or not torch.equal(last.direction, directions):
            scores, ids = best_of(self.table, directions, k, own)
        else:
            newer = best_of(self.table, directions, k, own[last.rows :])
            ids, order = torch.cat([last.ids, newer[1]], 1).sort()  # ties go to the newest
            scores = torch.cat([last.scores, newer[0]], 1).gather(1, order)
            scores, column = best_first(scores, k)
            ids = ids.gather(1, column)
        self._last[number] = Answer(directions, asked, len(own), scores, ids)
        return scores, ids


INDEXES.register("flat", FlatIndex)
INDEXES.register("numpy", FlatIndex)  # as older configs call a search that finds the same


def best_of(table: KeyTable, directions: Tensor, k: int, rows: Rows) -> tuple[Tensor, Tensor]:
    """Find the k best of some rows for unit vectors [B, d]: relevance and ids, both [B, k]."""
    found = [
        rerank(table, part, without_older_twins(table, candidates(table, part, k, rows), k), k)
        for part in directions.split(QUERIES)
    ]
    return torch.cat([scores for scores, _ in found]), torch.cat([ids for _, ids in found])


def candidates(table: KeyTable, directions: Tensor, k: int, rows: Rows) -> Tensor:
    """Name all of some rows that may be among the k best, [B, n], rising; -1 stands for none."""
    largest = torch.full((k, len(directions)), -torch.inf, device=table.device)
    named = [torch.full((len(directions), 0), -1, device=table.device)]
    length = BLOCK * ONE_ASKS if len(directions) == 1 else BLOCK
    for block in _blocks(rows, length) if len(directions) else ():
        cosine = _cosines(table, directions, block)  # [n, B]
        largest = torch.cat([largest, _large_ones(cosine, k)]).topk(k, 0).values
        reached = (largest[-1] - margin(table.width)).clamp_min(LOWEST)  # [B]
        named.append(_rows_where(cosine >= reached, block))
    return torch.cat(named, 1)


def _blocks(rows: Rows, length: int) -> Iterator[Rows]:
    """Cut rows into blocks; rows without a gap are read where they lie, which copies no keys."""
    if isinstance(rows, Tensor):
        for part in rows.split(length):
            start, stop = (int(part[0]), int(part[-1]) + 1) if len(part) else (0, 0)
            yield slice(start, stop) if stop - start == len(part) else part
        return
    for start in range(rows.start, rows.stop, length):
        yield slice(start, min(start + length, rows.stop))


def _cosines(table: KeyTable, directions: Tensor, block: Rows) -> Tensor:
    """Multiply a block of keys with unit vectors [B, d]: [n, B], -inf where one was removed."""
    keys, length = table.scaled(block)
    if len(directions) == 1 and keys.is_cpu:  # in half the time that torch takes
        with _blas().limit(limits=1, user_api="blas"):  # its threads would wait for torch's
            product = torch.from_numpy(keys.numpy() @ directions.float().numpy().T)
    elif torch.get_float32_matmul_precision() == "highest":
        product = keys @ directions.float().T
    else:  # fewer digits than the margin allows for
        product = keys.double() @ directions.T
    cosine = product.div_(length.float()[:, None])
    if table.removed:
        cosine.masked_fill_(~table.living(block)[:, None], -torch.inf)
    return cosine


@cache
def _blas() -> ThreadpoolController:
    """Return what knows the threads of NumPy's products."""
    return ThreadpoolController()


def _large_ones(cosine: Tensor, k: int) -> Tensor:
    """Leave out most of the cosines [n, B], but few of the k largest of each query, [m, B]."""
    if (groups := len(cosine) // GROUP) <= 2 * k:
        return cosine
    return cosine[: groups * GROUP].view(GROUP, groups, -1).amax(0)


def _rows_where(true: Tensor, block: Rows) -> Tensor:
    """Return the rows of a block where something is true [n, B], for each query: [B, most]."""
    places = torch.from_numpy(np.flatnonzero(true.cpu().numpy())).to(true.device)  # NumPy is faster
    row, query = places // true.shape[1], places % true.shape[1]
    row = row[torch.sort(query, stable=True).indices]
    row = row + block.start if isinstance(block, slice) else block[row]
    return _side_by_side(row, torch.bincount(query, minlength=true.shape[1]))


def _side_by_side(rows: Tensor, count: Tensor) -> Tensor:
    """Give each query so many [B] of the rows [n], one after the other: [B, most], then -1."""
    most = torch.arange(int(count.max()), device=rows.device)
    padded = rows.new_full((len(count), len(most)), -1)
    return padded.masked_scatter_(most < count[:, None], rows)


def without_older_twins(table: KeyTable, rows: Tensor, k: int) -> Tensor:
    """Leave out of candidates [B, n], -1 for none, most that k newer ones with equal keys beat."""
    if rows.shape[1] <= MANY:
        return rows
    kept = [_newest_twins(own, table.hashes(own), k) for own in (row[row >= 0] for row in rows)]
    return pad_sequence(kept, batch_first=True, padding_value=-1)


def _newest_twins(rows: Tensor, hashed: Tensor, k: int) -> Tensor:
    while len(rows) > MANY:
        twins = hashed == hashed[len(hashed) // 2]  # most likely of the largest group
        older = twins & (twins.sum() - twins.cumsum(0) >= k)
        if not bool(older.any()):
            break
        rows, hashed = rows[~older], hashed[~older]
    return rows


def margin(width: int) -> float:
    """How much lower than the k-th best a cosine in single precision may be and still beat it.

    A sum of d products of unit vectors is wrong by at most d roundings, whatever their order.
    """
    rounding = (width + 8) * 2.0**-24
    return 2 * rounding + 1 / GRID


def rerank(table: KeyTable, directions: Tensor, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Compare each unit vector [B, d] exactly with rows of its own [B, n].

    Rows rise, since ties go to the newest; -1 stands for none. Returns relevance and ids of the k
    best, both [B, k].
    """
    scores, found = _nothing(directions, k)
    step = max(1, AT_ONCE // max(1, rows.shape[1] * table.width))
    for start in range(0, len(rows) if rows.shape[1] else 0, step):
        part = slice(start, start + step)
        own = rows[part]
        keys, length = table.scaled(own.flatten().clamp_min(0))
        keys = keys.double().view(*own.shape, -1)  # [b, n, d]
        cosine = keys.mul_(directions[part, None]).sum(2) / length.view(own.shape)  # [b, n]
        best, column = best_first(on_grid(cosine).masked_fill_(own < 0, -torch.inf), k)
        scores[part, : best.shape[1]] = best
        found[part, : best.shape[1]] = own.gather(1, column)
    return scores, table.ids(found)


def _nothing(directions: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return what is found in an empty table: relevance and ids, both [B, k]."""
    scores = torch.full((len(directions), k), -torch.inf, device=directions.device)
    return scores, torch.full_like(scores, -1, dtype=torch.int64)
