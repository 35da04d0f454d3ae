"""Entries in a folder: numbers and keys in RAM, contents read when they are chosen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from radt.memory.entries import Entries
from radt.memory.folder.database import Database, damaged
from radt.memory.folder.generations import (
    Acknowledged,
    acknowledge,
    expect_acknowledged,
    hold,
    make_ready,
    no_folder_memory,
    open_current,
)
from radt.memory.identity import (
    Identity,
    MemoryFileError,
    refuse_child,
    refuse_other,
    refuse_reader,
)
from radt.memory.rows import Row, RowFormat, RowStore, State, some
from radt.memory.store import STORES, NewEntries

AT_ONCE = 4096  # rows that are read together
ID_BITS = 40  # of a number; ids count anew in each database
IDS = (1 << ID_BITS) - 1


class FolderStore(RowStore):
    """Entries in a folder, as they were when it was opened or last refreshed."""

    database: Database
    generation: int  # which of the folder's databases it is

    def __init__(self, folder: Path, identity: Identity | None, writing: bool) -> None:
        """Open a folder; without an identity, take the one it has."""
        self.folder, self.writing = folder, writing
        self.place, self.removals = str(folder), 0
        self._process = os.getpid()
        with ExitStack() as opened:
            if writing:
                if identity is None and not folder.exists():
                    raise no_folder_memory(folder)
                opened.enter_context(hold(folder))
                make_ready(folder, identity)
            self._load(identity)
            opened.callback(lambda: self.database.close())
            self._opened = opened.pop_all()

    def append(self, new: NewEntries) -> None:
        """Add entries in one transaction: safe when this returns, none of them if it raises."""
        self._check_writer()
        rows = list(self.format.rows(new, self.state.last_id + 1))
        if not rows:
            return
        state = self.state.after(new.entries)
        self.database.write(state, rows)
        self._acknowledge(state)
        self._take_in(rows)

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool, in one transaction."""
        self._check_writer()
        forget = self._ids(self.numbers[~kept])
        state = self.state.after(Entries.none(), len(forget))
        self.database.write(state, forget=forget)
        self._acknowledge(state)
        self._drop(kept)

    def refresh(self) -> None:
        """Take in what the writing process has acknowledged since."""
        self._check_process()
        if self.writing:
            return
        promised = expect_acknowledged(self.folder)
        if promised.generation != self.generation:
            self.database.close()
            self._load(self.identity)
            self.removals += 1
            return
        with self.database.reading():
            before, now = self.state, self.database.read_about().state
            gone = self.database.forgotten(since=before.writes)
            new = list(self.database.sealed_rows(self.format, after=before.last_id))
        known = np.isin(self._ids(self.numbers), gone)
        if known.any():
            self._drop(torch.from_numpy(~known))
        self._take_in(new)
        self.state = now
        self._check(promised)

    def close(self) -> None:
        """Close the database and let another process write."""
        if os.getpid() == self._process:
            self._opened.close()

    def _load(self, identity: Identity | None) -> None:
        """Open the database that counts, and read all but the contents."""
        self.database, promised = open_current(self.folder, self.writing)
        try:
            if identity is not None:
                refuse_other(self.place, self.database.about.identity, identity)
            self.generation = promised.generation
            self.format = RowFormat(self.database.about.identity)
            self._begin_columns(self.identity.key_width)
            with self.database.reading():
                self.state = self.database.read_about().state
                self._take_in(self.database.sealed_rows(self.format))
            self._check(promised)
            if self.writing and self.state.writes > promised.writes:
                self._acknowledge(self.state)  # committed by a process that was killed right then
        except BaseException:
            self.database.close()
            raise

    def _take_in(self, rows: Iterable[Row]) -> None:
        left = iter(rows)
        while part := list(islice(left, AT_ONCE)):
            ids = torch.tensor([row.id for row in part])
            numbers = ids + (self.generation << ID_BITS)
            self._add(numbers, self.format.entries(part), self.format.keys(part))

    def _ids(self, numbers: Tensor) -> list[int]:
        """Return the ids that some entries have in the database."""
        ids: list[int] = (numbers & IDS).tolist()
        return ids

    def _check(self, promised: Acknowledged) -> None:
        """Refuse a database that holds other entries than it says, or lacks promised writes."""
        state, path = self.state, self.database.path
        if missing := max(0, promised.writes - state.writes):
            raise damaged(path, f"its last {missing} acknowledged writes are missing")
        if len(self.entries) != state.entries:
            found = f"{state.entries} entries are expected, {len(self.entries)} were found"
            raise damaged(path, found)
        if max(self._ids(self.numbers[-1:]), default=0) > state.last_id:
            raise damaged(path, "it holds entries that were never acknowledged")

    def _whole_rows(self, numbers: list[int]) -> dict[int, Row]:
        """Read rows with their contents; what is neither there nor forgotten is lost."""
        self._check_process()
        ids = {number & IDS: number for number in numbers}
        rows = self.database.contents(list(ids), self.format)
        missing = ids.keys() - rows.keys()
        if missing and (lost := missing - set(self.database.forgotten())):
            raise damaged(self.database.path, f"entries {some(lost)} are not there any more")
        return {ids[id]: row for id, row in rows.items()}

    def _acknowledge(self, state: State) -> None:
        try:
            acknowledge(self.folder, Acknowledged(self.generation, state.writes))
        except OSError as error:
            self.close()
            raise MemoryFileError(
                f"the last write to {self.place} is whole, but could not be acknowledged "
                f"({error}); open the memory again"
            ) from error
        self.state = state

    def _check_process(self) -> None:
        refuse_child(self.place, self._process)

    def _check_writer(self) -> None:
        self._check_process()
        refuse_reader(self.place, self.writing)


def open_folder(address: str, identity: Identity, writing: bool) -> FolderStore:
    """Open a folder as the registry asks for it."""
    return FolderStore(Path(address), identity, writing)


STORES.register("folder", open_folder)
