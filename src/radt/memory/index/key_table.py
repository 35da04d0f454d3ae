"""The keys that exact search compares, row by row, and which of them belong together."""

from __future__ import annotations

import torch
from torch import Tensor

from radt.memory.growing import GrowingTensor
from radt.memory.index.protocol import check_known, check_new
from radt.memory.similarity import with_length

MOST_REMOVED = 4  # one row in so many may be a removed one

Rows = Tensor | slice  # of a table; a tensor [n] is in rising order


class KeyTable:
    """Keys, one row each, in rising order of their ids; knows the rows of each partition.

    Keys stay in the single precision in which they came, with their length beside them. Removed
    rows stay where they are until there are many of them.
    """

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.width, self.device = width, torch.device(device)
        self.newest = -1  # the highest id that there ever was
        self.moved = 0  # how often rows have got other numbers
        self._clear()

    def _clear(self) -> None:
        empty = torch.zeros(0, device=self.device)
        self._keys = GrowingTensor(empty.new_zeros(0, self.width))
        self._length = GrowingTensor(empty.double())
        self._living = GrowingTensor(empty.bool())
        self._ids = GrowingTensor(empty.long())
        self._partition = GrowingTensor(empty.long())
        self._hash = GrowingTensor(empty.long())
        self._members: dict[int, GrowingTensor] = {}
        self.size = 0  # rows, removed ones included
        self.removed = 0  # rows that are still there, but count no more

    def __len__(self) -> int:
        return self.size - self.removed

    @property
    def nbytes(self) -> int:
        """The bytes of all rows; room that is kept for more is not counted."""
        columns = (self._keys, self._length, self._living, self._ids, self._partition, self._hash)
        return sum(column.rows.nbytes for column in (*columns, *self._members.values()))

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with a partition [n] and an id [n] each; ids rise from key to key."""
        ids = check_new(keys, partition, ids, self.width, self.newest)
        vectors, length = with_length(keys.to(self.device, torch.float32))
        if len(ids):
            between_half_and_one = torch.frexp(length).mantissa
            power_of_two = between_half_and_one / length  # takes no digit from a key
            vectors = (vectors * power_of_two).float()
            self._append(vectors, between_half_and_one.squeeze(1), partition.long(), ids)
            self.newest = int(ids[-1])

    def _append(self, keys: Tensor, length: Tensor, partition: Tensor, ids: Tensor) -> None:
        self._keys.append(keys)
        self._length.append(length)
        self._ids.append(ids)
        self._partition.append(partition)
        self._hash.append(hashes(keys))
        self._living.append(torch.ones(len(ids), dtype=torch.bool))
        order = torch.sort(partition.to(self.device), stable=True)
        numbers, counts = torch.unique_consecutive(order.values, return_counts=True)
        parts = (self.size + order.indices).split(counts.tolist())
        for number, rows in zip(numbers.tolist(), parts, strict=True):
            self._members.setdefault(number, GrowingTensor(rows)).append(rows)
        self.size += len(ids)

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids; the ids of others stay as they are."""
        ids = torch.unique(ids.to(self.device).long())
        rows = torch.searchsorted(self._ids.rows, ids)
        there = rows < self.size
        at = rows[there]
        there[there.clone()] = (self._ids.rows[at] == ids[there]) & self._living.rows[at]
        check_known(ids, there)
        self._living.rows[rows] = False
        self.removed += len(ids)
        if self.removed * MOST_REMOVED > self.size:
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Give the living rows new numbers without gaps."""
        columns = (self._keys, self._length, self._partition, self._ids)
        left = [column.rows[self._living.rows] for column in columns]
        self._clear()
        self._append(*left)
        self.moved += 1

    def rows_of(self, partition: int) -> Tensor:
        """Return the living rows of a partition in rising order, [n]."""
        if partition not in self._members:
            return torch.zeros(0, dtype=torch.int64, device=self.device)
        rows = self._members[partition].rows
        return rows[self._living.rows[rows]] if self.removed else rows

    def living(self, rows: Rows) -> Tensor:
        """Return which rows were not removed, [n] bool."""
        return self._living.rows[rows]

    def scaled(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return keys scaled to a length between a half and one, [n, d], and that length, [n]."""
        if isinstance(rows, slice):
            return self._keys.rows[rows], self._length.rows[rows]
        return self._keys.rows.index_select(0, rows), self._length.rows.index_select(0, rows)

    def directions(self, rows: Rows) -> Tensor:
        """Return keys scaled to length 1 in single precision, [n, d]."""
        keys, length = self.scaled(rows)
        return (keys.double() / length[:, None]).float()

    def hashes(self, rows: Tensor) -> Tensor:
        """Return a number for each row [n] that equal keys share."""
        return self._hash.rows[rows]

    def ids(self, rows: Tensor) -> Tensor:
        """Return the ids of rows, of any shape; -1 stays."""
        return self._ids.rows.take(rows).where(rows >= 0, -1) if self.size else rows


def hashes(keys: Tensor) -> Tensor:
    """Hash the bits of keys [n, d] in single precision to 64 bits, [n]."""
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(1 << 63), (1 << 63) - 1, (keys.shape[1],), generator=generator)
    return (keys.contiguous().view(torch.int32) * factors.to(keys.device)).sum(1)
