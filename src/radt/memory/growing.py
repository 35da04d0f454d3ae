"""Columns that grow at the end: room doubles, so that adding a trial does not copy all others."""

from __future__ import annotations

from dataclasses import fields
from typing import Generic, TypeVar

from torch import Tensor

from radt.memory.entries import Entries
from radt.trajectory import Batch

Record = TypeVar("Record", Entries, Batch)


class GrowingTensor:
    """A tensor that rows are appended to; what was read before stays as it was."""

    def __init__(self, like: Tensor) -> None:
        """Begin with no rows of the shape and type of those in `like`."""
        self._room, self._count = like[:0].clone(), 0

    @property
    def rows(self) -> Tensor:
        """All rows so far; a view that later changes do not touch."""
        return self._room[: self._count]

    def append(self, new: Tensor) -> None:
        """Add rows at the end."""
        needed = self._count + len(new)
        if needed > len(self._room):
            room = self._room.new_empty(max(needed, 2 * len(self._room)), *self._room.shape[1:])
            room[: self._count] = self.rows
            self._room = room
        self._room[self._count : needed] = new
        self._count = needed

    def keep(self, kept: Tensor) -> None:
        """Drop all rows but the marked ones, [N] bool."""
        self._room = self.rows[kept]
        self._count = len(self._room)


class GrowingRecord(Generic[Record]):
    """A record of columns of one length, all growing together."""

    def __init__(self, like: Record) -> None:
        self._kind: type[Record] = type(like)
        self._columns = [GrowingTensor(getattr(like, field.name)) for field in fields(like)]
        self.rows: Record = self._read()

    def append(self, new: Record) -> None:
        for column, field in zip(self._columns, fields(new), strict=True):
            column.append(getattr(new, field.name))
        self.rows = self._read()

    def keep(self, kept: Tensor) -> None:
        for column in self._columns:
            column.keep(kept)
        self.rows = self._read()

    def _read(self) -> Record:
        return self._kind(*(column.rows for column in self._columns))
