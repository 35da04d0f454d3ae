"""Which database of a folder counts: made, opened, and replaced by the next one as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from radt.files import atomic_write, locked, remove_leftovers
from radt.memory.about import State
from radt.memory.folder.acknowledged import (
    NAME,
    Acknowledged,
    begin_acknowledging,
    read_acknowledged,
)
from radt.memory.folder.database import Database, create, fix
from radt.memory.identity import Identity, MemoryBusyError, MemoryFileError
from radt.memory.rows import Row

LOCK = "writer.lock"
DAMAGED = "damaged"
TRIES = 5  # a reader may come while the writer switches to the next database


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
        raise MemoryFileError(
            f"{folder / NAME} is damaged or missing, so nobody knows what the memory must hold; "
            f"{fix(folder / NAME)}"
        )
    if identity is None:
        raise no_memory(folder)
    switch(folder, 1, identity, (), State())


def remove_others(folder: Path, current: Path) -> None:
    """Remove databases that were replaced, or that were still being written."""
    for path in databases(folder):
        if path != current and current.exists():
            for file in files_of(path):
                file.unlink(missing_ok=True)


def no_memory(folder: Path) -> MemoryFileError:
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
        raise no_memory(folder)
    raise MemoryFileError(f"{folder / NAME} is damaged or missing; {fix(folder / NAME)}")


def open_current(folder: Path, writing: bool) -> tuple[Database, Acknowledged]:
    """Open the database that counts; what was acknowledged is read first, so it must be there."""
    for left in reversed(range(TRIES)):
        promised = expect_acknowledged(folder)
        path = database_path(folder, promised.generation)
        if left and not path.exists() and read_acknowledged(folder) != promised:
            continue
        return Database(path, writing), promised
    raise AssertionError("the last try returns or raises")


def switch(
    folder: Path, generation: int, identity: Identity, rows: Iterable[Row], state: State
) -> None:
    """Write a database and let it count from then on; the caller holds the folder.

    Killed at any moment, either the one before counts or the new one.
    """
    path = database_path(folder, generation)
    said = json.dumps(identity.to_json(), indent=1, sort_keys=True) + "\n"
    atomic_write(path.with_suffix(".json"), said.encode())
    atomic_write(path, lambda temporary: create(temporary, identity, rows, state))
    Database(path, writing=True).close()  # from now on with a log
    begin_acknowledging(folder, Acknowledged(generation, state.writes))


def _is_unused(path: Path) -> bool:
    """Tell whether nothing was ever written to a database."""
    try:
        database = Database(path)
    except MemoryFileError:
        return False
    database.close()
    return database.about.state == State()
