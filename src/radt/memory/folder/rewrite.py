"""Memories as a whole: compacted, exported to one file, read from one, and given new keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from radt.files import atomic_write
from radt.memory.embed import Embedder
from radt.memory.entries import prefixes
from radt.memory.folder.database import MAGIC, Database, create_database, damaged
from radt.memory.folder.store import (
    FolderStore,
    database_path,
    databases,
    remove_others,
    size_of,
    switch,
)
from radt.memory.identity import Identity, MemoryFileError, refuse_other
from radt.memory.postgres import open_postgres, server_name
from radt.memory.rows import Row, RowFormat, State
from radt.memory.store import NewEntries, open_store

if TYPE_CHECKING:
    from radt.memory.postgres.store import PostgresStore

AT_ONCE = 128  # rows that are embedded together


@dataclass(frozen=True)
class Sizes:
    """What a folder took before and takes now."""

    entries: int
    bytes_before: int
    bytes_after: int


def compact(folder: Path) -> Sizes:
    """Write a memory anew without the room that forgotten entries and the log take."""
    with contextlib.closing(FolderStore(folder, None, writing=True)) as store:
        rows = store.database.rows(store.format)
        return _replace(store, store.identity, rows)


def re_embed(folder: Path, embedder: Embedder, identity: Identity) -> Sizes:
    """Give all entries keys of another embedder, whose memories have `identity`."""
    with contextlib.closing(FolderStore(folder, None, writing=True)) as store:
        ours = replace(store.identity, embedder=identity.embedder, key_width=identity.key_width)
        refuse_other(store.place, ours, identity)  # chunks cut for others stay as they are
        if identity.halves.past < identity.context_len - 1:
            raise MemoryFileError(
                f"the chunks in {store.place} begin {identity.halves.past} steps before their "
                f"entry, too late for keys of {identity.context_len} steps; import the "
                "trajectories anew with `radt memory import`"
            )
        rows = store.database.rows(store.format)
        return _replace(store, identity, _with_keys(rows, embedder, identity))


def export(place: str | Path, file: Path) -> int:
    """Write a memory as it is now to one file; return how many entries it has."""
    if file.exists():
        raise MemoryFileError(f"{file} exists; remove it or name another")
    with contextlib.closing(open_reader(place)) as store:

        def copy(now: State, rows: Iterator[Row]) -> int:
            state = replace(now, last_id=now.entries)
            atomic_write(file, lambda path: create_database(path, store.identity, rows, state))
            return state.entries

        return store.read_all(copy)


def read_exported(file: Path) -> tuple[Identity, NewEntries]:
    """Read all entries of an exported file."""
    with contextlib.closing(Database(file)) as database:
        about = database.about
        format = RowFormat(about.identity)
        rows = list(database.rows(format))
    if len(rows) != about.state.entries:
        raise damaged(file, f"{about.state.entries} entries are expected, {len(rows)} were found")
    chunks = format.chunks([*rows])
    return about.identity, NewEntries(format.entries(rows), format.keys(rows), chunks)


def read_memory(place: str) -> tuple[Identity, NewEntries]:
    """Read all entries of a memory in a folder, on a server (postgres:NAME) or in one file."""
    if Path(place).is_file():
        return read_exported(Path(place))
    with contextlib.closing(open_reader(place)) as store:
        chunks = store.chunks(torch.arange(len(store.entries))[:, None])
        return store.identity, NewEntries(store.entries, store.keys, chunks)


def is_exported(file: Path) -> bool:
    """Tell whether a file is one that `export` wrote."""
    with file.open("rb") as opened:
        return opened.read(len(MAGIC)) == MAGIC


def is_memory(source: str) -> bool:
    """Tell whether a source of entries is another memory."""
    path = Path(source)
    is_file = path.is_file() and (path.suffix != ".npz" or is_exported(path))
    return is_file or server_name(source) is not None or bool(databases(path))


def import_memory(place: str, source: str) -> tuple[int, int]:
    """Add another memory's entries with their keys; return how many were and are there.

    Their trajectories get numbers that are free here.
    """
    identity, found = read_memory(source)
    with contextlib.closing(open_store(place, identity)) as store:
        before, (_, number) = len(store.entries), found.entries.episode.unique(return_inverse=True)
        numbered = replace(found.entries, episode=number + store.episodes)
        store.append(replace(found, entries=numbered))
        return before, len(store.entries)


def open_reader(place: str | Path) -> FolderStore | PostgresStore:
    """Open a memory in a folder, or on a server, for reading, whosever it is."""
    if (name := server_name(place)) is not None:
        return open_postgres(name, None, writing=False)
    return FolderStore(Path(place), None, writing=False)


def _replace(store: FolderStore, identity: Identity, rows: Iterator[Row]) -> Sizes:
    """Let a database of other rows, as many as now, take the place of the one that counts."""
    state = replace(store.state, writes=store.state.writes + 1, last_id=store.state.entries)
    before, generation = size_of(store.database.path), store.generation + 1
    switch(store.folder, generation, identity, rows, state)
    path = database_path(store.folder, generation)
    remove_others(store.folder, path)
    return Sizes(state.entries, before, size_of(path))


def _with_keys(rows: Iterator[Row], embedder: Embedder, identity: Identity) -> Iterator[Row]:
    """Give rows the keys that an embedder makes of their contents."""
    format = RowFormat(identity)
    while part := list(islice(rows, AT_ONCE)):
        entries, chunks = format.entries(part), format.chunks([*part])
        keys = embedder(prefixes(chunks, entries, identity.context_len)).numpy().astype("<f4")
        for row, key in zip(part, keys, strict=True):
            yield row._replace(key=key.tobytes())
