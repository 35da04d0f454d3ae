"""Which database of a folder counts: made, opened, and replaced by the next one as a whole.

A small file says which one it is, and how many writes it must hold: a database whose log was cut
off opens without a complaint and knows nothing of its last writes. The file is written, and flushed
to the disk, after each commit and before the write is acknowledged. Two records take turns in it,
so that one is whole at any moment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from radt.files import atomic_write, locked, remove_leftovers
from radt.memory.folder.database import Database, create_database, damaged
from radt.memory.identity import Identity, MemoryBusyError, MemoryFileError
from radt.memory.rows import Row, State, digest

NAME = "acknowledged"
RECORD = re.compile(rb"(generation (\d{10}) writes (\d{15})) ([0-9a-f]{32})\n")
LENGTH = 78  # of a record
LOCK = "writer.lock"
UNKNOWN = "it is damaged or missing, so nobody knows what the memory must hold"


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


def databases(folder: Path) -> list[Path]:
    """List the databases of a folder, the oldest first."""
    return sorted(folder.glob("entries-[0-9][0-9][0-9][0-9][0-9][0-9].sqlite3"))


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Be the one process that writes to a folder."""
    path = folder / LOCK
    if folder.exists() and not folder.is_dir():
        raise MemoryFileError(f"{folder} is a file, but a memory is a folder; name another")
    with ExitStack() as held:
        try:
            held.enter_context(locked(path, wait=False))
        except BlockingIOError as error:
            who = path.read_text(encoding="utf-8").strip() or "unknown"
            raise MemoryBusyError(
                f"process {who} is writing to the memory in {folder} (it holds {path}); one "
                "process writes at a time: end it, or open the memory with writing=False"
            ) from error
        yield


def make_ready(folder: Path, identity: Identity | None) -> None:
    """Clean up after a process that was killed; make a memory where there is none."""
    remove_leftovers(folder)
    current = read_acknowledged(folder)
    if current is not None:
        remove_others(folder, database_path(folder, current.generation))
        return
    if (folder / NAME).exists() or not all(_is_unused(path) for path in databases(folder)):
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


def _is_unused(path: Path) -> bool:
    """Tell whether nothing was ever written to a database."""
    try:
        database = Database(path)
    except MemoryFileError:
        return False
    database.close()
    return database.about.state == State()
