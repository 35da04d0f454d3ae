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
from radt.memory.index.checks import check_known, check_new
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
        self._length = GrowingTensor(torch.zeros(0, 1, dtype=torch.float64, device=self.device))
        self._inverse = GrowingTensor(torch.zeros(0, device=self.device))
        self._ids = GrowingTensor(torch.zeros(0, dtype=torch.int64))
        self._partition = GrowingTensor(torch.zeros(0, dtype=torch.int64))
        self._living = GrowingTensor(torch.zeros(0, dtype=torch.bool, device=self.device))
        self._members: dict[int, GrowingTensor] = {}
        self._living_members: dict[int, NDArray[np.int64]] = {}  # as far as they were asked for
        self.size = 0  # rows, removed ones included
        self.removed = 0  # rows that are still there, but count no more
        self._look()

    def _look(self) -> None:
        """Look at the columns as NumPy sees them, in the same place."""
        self._id_array: NDArray[np.int64] = self._ids.rows.numpy()
        if self.on_cpu:
            self._key_array: NDArray[np.float32] = self._keys.rows.numpy()
            self._length_array: NDArray[np.float64] = self._length.rows[:, 0].numpy()
            self._inverse_array: NDArray[np.float32] = self._inverse.rows.numpy()

    def __len__(self) -> int:
        return self.size - self.removed

    @property
    def nbytes(self) -> int:
        """The bytes of all rows; room that is kept for more is not counted."""
        columns = (self._keys, self._length, self._inverse, self._ids, self._partition)
        growing = (*columns, self._living, *self._members.values())
        copies = self._living_members.values() if self.removed else ()
        return sum(column.rows.nbytes for column in growing) + sum(rows.nbytes for rows in copies)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with a partition [n] and an id [n] each; ids rise from key to key."""
        ids = check_new(keys, partition, ids, self.width, self.newest)
        vectors, length = with_length(keys.to(self.device, torch.float32))
        if len(ids):
            self._append(vectors, length, partition.cpu().long(), ids)
            self.newest = int(ids[-1])

    def _append(self, vectors: Tensor, length: Tensor, partition: Tensor, ids: Tensor) -> None:
        first = self.size
        between_half_and_one = torch.frexp(length).mantissa
        power_of_two = between_half_and_one / length  # takes no digit from a key
        self._keys.append((vectors * power_of_two).float())
        self._length.append(between_half_and_one)
        self._inverse.append(between_half_and_one.reciprocal().squeeze(1).float())
        self._ids.append(ids)
        self._partition.append(partition)
        self._living.append(torch.ones(len(ids), dtype=torch.bool, device=self.device))
        self.size = first + len(ids)
        order = torch.sort(partition, stable=True).indices
        numbers, counts = torch.unique_consecutive(partition[order], return_counts=True)
        for number, rows in zip(
            numbers.tolist(), (first + order).split(counts.tolist()), strict=True
        ):
            if number not in self._members:
                self._members[number] = GrowingTensor(rows)
            self._members[number].append(rows)
            self._living_members.pop(number, None)
        self._look()

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
        living = self._living.rows
        keys, length = self._keys.rows[living].double(), self._length.rows[living]
        partition, ids = (
            column.rows[living.cpu()].clone() for column in (self._partition, self._ids)
        )
        self._clear()
        self._append(keys, length, partition, ids)
        self.moved += 1

    def ids(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of rows, of any shape."""
        if not len(self._id_array):
            return np.full_like(rows, -1)
        ids: NDArray[np.int64] = self._id_array.take(rows, mode="clip")
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
        """Return keys [n, d] scaled to about length 1, and what is missing: factors [n]."""
        return self._some(self._keys, rows), self._some(self._inverse, rows)

    def scaled_arrays(self, rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the same as NumPy arrays, of a table on the CPU: a third of the time."""
        if isinstance(rows, slice):
            return self._key_array[rows], self._inverse_array[rows]
        keys = self._key_array.take(rows, axis=0, mode="clip")
        return keys, self._inverse_array.take(rows, mode="clip")

    def directions(self, rows: Rows) -> Tensor:
        """Return keys scaled to length 1 in double precision, [n, d], as `unit` makes them."""
        return self._some(self._keys, rows).double().div_(self._some(self._length, rows))

    def _some(self, column: GrowingTensor, rows: Rows) -> Tensor:
        if isinstance(rows, slice):
            return column.rows[rows]
        return column.rows.index_select(0, torch.from_numpy(rows).to(self.device))

    def few(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return keys [..., d] and their lengths [...] on the CPU; -1 stands for any row."""
        if self.on_cpu:
            keys = self._key_array.take(rows, axis=0, mode="clip")
            return keys.astype(np.float64), self._length_array.take(rows, mode="clip")
        chosen = torch.from_numpy(np.ascontiguousarray(rows)).clamp_min(0).to(self.device)
        found, lengths = self._keys.rows[chosen].double(), self._length.rows[chosen, 0]
        return found.cpu().numpy(), lengths.cpu().numpy()
