"""Entries in a folder: numbers and keys in RAM, contents read when they are chosen.

A small file says which database of the folder counts, and how many writes it must hold: a database
whose log was cut off opens without a complaint and knows nothing of its last writes. The file is
written, and flushed to the disk, after each commit and before the write is acknowledged. Two
records take turns in it, so that one is whole at any moment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from radt.files import atomic_write, check_own, remove_leftovers
from radt.memory.entries import Entries
from radt.memory.folder.database import Database, create_database, damaged
from radt.memory.folder.lock import PATIENCE, hold
from radt.memory.identity import (
    Identity,
    MemoryBusyError,
    MemoryFileError,
    refuse_child,
    refuse_other,
    refuse_reader,
)
from radt.memory.rows import Row, RowFormat, RowStore, State, digest, some
from radt.memory.store import STORES, NewEntries

NAME = "acknowledged"
RECORD = re.compile(rb"(generation (\d{10}) writes (\d{15})) ([0-9a-f]{32})\n")
LENGTH = 78  # of a record
UNKNOWN = "it is damaged or missing, so nobody knows what the memory must hold"
AT_ONCE = 4096  # rows that are read together
ID_BITS = 40  # of a number; ids count anew in each database
IDS = (1 << ID_BITS) - 1
Result = TypeVar("Result")


@dataclass(frozen=True, order=True)
class Acknowledged:
    """The database that counts, by its number, and the writes that were promised to be in it."""

    generation: int
    writes: int

    def to_bytes(self) -> bytes:
        """Return the record, always of the same length."""
        text = f"generation {self.generation:010d} writes {self.writes:015d}".encode()
        return text + b" " + digest(text).hex().encode() + b"\n"


def read_acknowledged(folder: Path) -> Acknowledged | None:
    """Return the later of the records that are whole; None where there is none."""
    path = folder / NAME
    content = path.read_bytes() if path.is_file() else b""
    found = (RECORD.fullmatch(content[start : start + LENGTH]) for start in (0, LENGTH))
    whole = (one for one in found if one and digest(one[1]).hex().encode() == one[4])
    return max((Acknowledged(int(one[2]), int(one[3])) for one in whole), default=None)


def acknowledge(folder: Path, now: Acknowledged) -> None:
    """Put down that a write is safe, in the place of the record before the last."""
    with (folder / NAME).open("r+b") as file:
        file.seek(LENGTH * (now.writes % 2))
        file.write(now.to_bytes())
        file.flush()
        os.fsync(file.fileno())


def database_path(folder: Path, generation: int) -> Path:
    """Name a database of a folder."""
    return folder / f"entries-{generation:06d}.sqlite3"


def files_of(database: Path) -> list[Path]:
    """List a database and what belongs to it, as far as it exists."""
    beside = (database.with_name(f"{database.name}{end}") for end in ("-wal", "-shm"))
    return [path for path in (database, *beside, database.with_suffix(".json")) if path.exists()]


def size_of(database: Path) -> int:
    """Return the bytes that a database and what belongs to it take."""
    return sum(file.stat().st_size for file in files_of(database))


def databases(folder: Path) -> list[Path]:
    """List the databases of a folder, the oldest first."""
    return sorted(folder.glob("entries-[0-9][0-9][0-9][0-9][0-9][0-9].sqlite3"))


def make_ready(folder: Path, identity: Identity | None) -> None:
    """Make a memory where there is none."""
    if read_acknowledged(folder) is not None:
        return
    if (folder / NAME).exists():
        raise damaged(folder / NAME, UNKNOWN)
    for path in databases(folder):  # made by a process that was killed before it counted?
        with closing(Database(path)) as found:
            if found.about.state != State():
                raise damaged(folder / NAME, UNKNOWN)
    if identity is None:
        raise no_folder_memory(folder)
    switch(folder, 1, identity, (), State())


def remove_others(folder: Path, current: Path) -> None:
    """Remove databases that were replaced, or that were still being written."""
    for path in databases(folder):
        if path != current and current.exists():
            for file in files_of(path):
                file.unlink(missing_ok=True)


def no_folder_memory(folder: Path) -> MemoryFileError:
    """Build the error for a folder that holds no memory."""
    return MemoryFileError(
        f"there is no memory in {folder}; fill one with `radt memory import {folder} SOURCE`, or "
        "give it to an agent: radt.load(RUN).agent(memory=FOLDER)"
    )


def expect_acknowledged(folder: Path) -> Acknowledged:
    """Return which database counts and what it must hold."""
    found = read_acknowledged(folder)
    if found is not None:
        return found
    if not databases(folder):
        raise no_folder_memory(folder)
    raise damaged(folder / NAME, UNKNOWN)


def open_current(folder: Path, writing: bool) -> tuple[Database, Acknowledged]:
    """Open the database that counts; what was acknowledged is read first, so it must be there."""
    promised = expect_acknowledged(folder)
    path = database_path(folder, promised.generation)
    if not path.exists() and read_acknowledged(folder) != promised:  # the writer just switched
        return open_current(folder, writing)
    for file in (folder / NAME, path) if writing else ():
        with suppress(FileNotFoundError):  # which is told below
            check_own(file)
    return Database(path, writing), promised


def switch(
    folder: Path, generation: int, identity: Identity, rows: Iterable[Row], state: State
) -> None:
    """Write a database and let it count from then on; the caller holds the folder.

    Killed at any moment, either the one before counts or the new one.
    """
    path = database_path(folder, generation)
    said = json.dumps(identity.to_json(), indent=1, sort_keys=True) + "\n"
    atomic_write(path.with_suffix(".json"), said.encode())
    atomic_write(path, lambda temporary: create_database(temporary, identity, rows, state))
    Database(path, writing=True).close()  # from now on with a log
    atomic_write(folder / NAME, 2 * Acknowledged(generation, state.writes).to_bytes())


class FolderStore(RowStore):
    """Entries in a folder, as they were when it was opened or last refreshed.

    The one process that writes holds the folder while it is open. Those that share it hold it only
    while they write, and see then what others have written since.
    """

    database: Database
    generation: int  # which of the folder's databases it is

    def __init__(
        self, folder: Path, identity: Identity | None, writing: bool, shared: bool = False
    ) -> None:
        """Open a folder; without an identity, take the one it has."""
        self.folder, self.writing, self.shared = folder, writing, shared and writing
        self.place, self.removals = str(folder), 0
        self._process = os.getpid()
        with ExitStack() as opened:
            held = opened.enter_context(ExitStack())
            if writing:
                if identity is None and not folder.exists():
                    raise no_folder_memory(folder)
                held.enter_context(hold(folder, PATIENCE if self.shared else 0.0))
                make_ready(folder, identity)
            self._load(identity)
            opened.callback(lambda: self.database.close())
            if writing:  # after a process that was killed; not before all is found to be whole
                remove_leftovers(folder)
                remove_others(folder, self.database.path)
            if self.shared:
                held.close()
            self._opened = opened.pop_all()

    def append(self, new: NewEntries) -> None:
        """Add entries in one transaction: safe when this returns, none of them if it raises."""
        self._check_writer()
        if not len(new):
            return
        first = self.episodes
        with self._turn():
            numbered = new.entries.episode + self.episodes - first
            new = replace(new, entries=replace(new.entries, episode=numbered))
            rows = list(self.format.rows(new, self.state.last_id + 1))
            state = self.state.after(new.entries)
            self.database.write(state, rows)
            self._acknowledge(state)
            self._take_in(rows)

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool, and those that others just wrote."""
        self._check_writer()
        gone, generation = self.numbers[~kept], self.generation
        with self._turn():
            if generation != self.generation:
                raise MemoryBusyError(f"{self.place} was compacted meanwhile; forget again")
            left = ~torch.isin(self.numbers, gone)
            forget = self._ids(self.numbers[~left])
            state = self.state.after(Entries.none(), len(forget))
            self.database.write(state, forget=forget)
            self._acknowledge(state)
            self._drop(left)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Be the one that writes; among those that share, after what all others wrote."""
        if not self.shared:
            yield
            return
        with hold(self.folder, PATIENCE):
            self.refresh()
            if self.state.writes > expect_acknowledged(self.folder).writes:
                self._acknowledge(self.state)  # of a process that was killed after its commit
            yield

    def refresh(self) -> None:
        """Take in what other processes have acknowledged since."""
        refuse_child(self.place, self._process)
        if self.writing and not self.shared:
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
            new = list(self.database.rows(self.format, contents=False, after=before.last_id))
        known = np.isin(self._ids(self.numbers), gone)
        if known.any():
            self._drop(torch.from_numpy(~known))
        self._take_in(new)
        self.state = now
        self._check(promised)

    def details(self) -> dict[str, Any]:
        """Say how much room the memory takes, what made it, and which database counts."""
        taken, about = size_of(self.database.path), self.database.about
        database = self.database.path.name
        return {"bytes": taken, "made_by": f"radt {about.library}", "database": database}

    def read_all(self, work: Callable[[State, Iterator[Row]], Result]) -> Result:
        """Give work all rows with their contents, as they are at one moment."""
        with self.database.reading():
            return work(self.database.read_about().state, self.database.rows(self.format))

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
                self._take_in(self.database.rows(self.format, contents=False))
            self._check(promised)
            if self.writing and not self.shared and self.state.writes > promised.writes:
                self._acknowledge(self.state)  # committed by a process that was killed right then
            self.database.trust_log()
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
        refuse_child(self.place, self._process)
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
            unsure = MemoryFileError(
                f"the last write to {self.place} is whole, but could not be acknowledged "
                f"({error}); open the memory again"
            )
            unsure.in_doubt = True
            raise unsure from error
        self.state = state

    def _check_writer(self) -> None:
        refuse_child(self.place, self._process)
        refuse_reader(self.place, self.writing)


STORES.register("folder", lambda place, who, writing: FolderStore(Path(place), who, writing))
STORES.register(
    "shared-folder", lambda place, who, writing: FolderStore(Path(place), who, writing, shared=True)
)
