"""The keys of an index, one row each, in rising order of their ids.

Keys stay in the single precision in which they came; the exact direction of a key is computed from
it where it is needed. Removed rows stay where they are until there are many of them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.growing import GrowingTensor
from radt.memory.index.protocol import check_known, check_new
from radt.memory.similarity import with_length

MOST_REMOVED = 4  # one row in so many may be a removed one
Rows = NDArray[np.int64] | slice


class KeyTable:
    """Keys with ids, partitions and lengths; knows which rows belong to a partition."""

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.width, self.device = width, torch.device(device)
        self.on_cpu = self.device.type == "cpu"
        self.newest = -1  # the highest id that there ever was
        self.moved = 0  # how often rows have got other numbers
        self._clear()

    def _clear(self) -> None:
        self._keys = GrowingTensor(torch.zeros(0, self.width, device=self.device))
        self._length = GrowingTensor(torch.zeros(0, dtype=torch.float64, device=self.device))
        self._living = GrowingTensor(torch.zeros(0, dtype=torch.bool, device=self.device))
        self._ids = GrowingTensor(torch.zeros(0, dtype=torch.int64))
        self._partition = GrowingTensor(torch.zeros(0, dtype=torch.int64))
        self._members: dict[int, GrowingTensor] = {}
        self._living_members: dict[int, NDArray[np.int64]] = {}  # as far as they were asked for
        self.size = 0  # rows, removed ones included
        self.removed = 0  # rows that are still there, but count no more

    def __len__(self) -> int:
        return self.size - self.removed

    @property
    def nbytes(self) -> int:
        """The bytes of all rows; room that is kept for more is not counted."""
        columns = (self._keys, self._length, self._living, self._ids, self._partition)
        copies = self._living_members.values() if self.removed else ()
        growing = (*columns, *self._members.values())
        return sum(column.rows.nbytes for column in growing) + sum(rows.nbytes for rows in copies)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with a partition [n] and an id [n] each; ids rise from key to key."""
        ids = check_new(keys, partition, ids, self.width, self.newest)
        vectors, length = with_length(keys.to(self.device, torch.float32))
        if len(ids):
            between_half_and_one = torch.frexp(length).mantissa
            power_of_two = between_half_and_one / length  # takes no digit from a key
            vectors = (vectors * power_of_two).float()
            self._append(vectors, between_half_and_one.squeeze(1), partition.cpu().long(), ids)
            self.newest = int(ids[-1])

    def _append(self, keys: Tensor, length: Tensor, partition: Tensor, ids: Tensor) -> None:
        self._keys.append(keys)
        self._length.append(length)
        self._ids.append(ids)
        self._partition.append(partition)
        self._living.append(torch.ones(len(ids), dtype=torch.bool, device=self.device))
        order = torch.sort(partition, stable=True).indices
        numbers, counts = torch.unique_consecutive(partition[order], return_counts=True)
        parts = (self.size + order).split(counts.tolist())
        for number, rows in zip(numbers.tolist(), parts, strict=True):
            self._members.setdefault(number, GrowingTensor(rows)).append(rows)
            self._living_members.pop(number, None)
        self.size += len(ids)

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids; the ids of others stay as they are."""
        ids = torch.unique(ids.cpu().long())
        rows = torch.searchsorted(self._ids.rows, ids)
        there = rows < self.size
        at = rows[there]
        there[there.clone()] = (self._ids.rows[at] == ids[there]) & self._living.rows.cpu()[at]
        check_known(ids, there)
        self._living.rows[rows.to(self.device)] = False
        self._living_members.clear()
        self.removed += len(ids)
        if self.removed * MOST_REMOVED > self.size:
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Give the living rows new numbers without gaps."""
        columns = (self._keys, self._length, self._partition, self._ids)
        living = self._living.rows
        left = [column.rows[living.to(column.rows.device)] for column in columns]
        self._clear()
        self._append(*left)
        self.moved += 1

    def ids(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of rows, of any shape; -1 stays."""
        if not self.size:
            return np.full_like(rows, -1)
        ids: NDArray[np.int64] = self._ids.rows.numpy().take(rows, mode="clip")
        ids[rows < 0] = -1
        return ids

    def rows_of(self, partition: int) -> NDArray[np.int64]:
        """Return the living rows of a partition in rising order, [n]."""
        if (known := self._living_members.get(partition)) is not None:
            return known
        if partition not in self._members:
            return np.zeros(0, np.int64)
        rows = self._members[partition].rows
        living = rows[self._living.rows.cpu()[rows]] if self.removed else rows
        return self._living_members.setdefault(partition, living.numpy())

    def living(self, rows: Rows) -> Tensor:
        """Return which rows were not removed, [n] bool."""
        return self._some(self._living, rows)

    def scaled(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return keys scaled to a length between a half and one, [n, d], and that length, [n]."""
        return self._some(self._keys, rows), self._some(self._length, rows)

    def directions(self, rows: Rows) -> Tensor:
        """Return keys scaled to length 1 in double precision, [n, d], as `unit` makes them."""
        keys, length = self.scaled(rows)
        return keys.double().div_(length[:, None])

    def _some(self, column: GrowingTensor, rows: Rows) -> Tensor:
        if isinstance(rows, slice):
            return column.rows[rows]
        if self.on_cpu:  # three quarters of torch's time
            return torch.from_numpy(column.rows.numpy().take(rows, axis=0, mode="clip"))
        return column.rows.index_select(0, torch.from_numpy(rows).to(self.device))
