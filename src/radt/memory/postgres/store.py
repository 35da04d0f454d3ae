"""A memory on a PostgreSQL server, which agents on several machines write to and search.

The numbers of all entries are in RAM, as they were when the memory was opened or last refreshed,
and so are keys, once a task is searched, unless there are very many; contents stay on the server.
Writers take turns, one transaction each, so ids rise in the order in which writes become visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radt.memory.entries import Entries, blank
from radt.memory.growing import GrowingRecord, GrowingTensor
from radt.memory.identity import Identity, refuse_other, refuse_reader
from radt.memory.index import FlatIndex, check_queries
from radt.memory.postgres import tables
from radt.memory.postgres.server import (
    Connection,
    MemoryServerError,
    Patience,
    Result,
    Server,
    read_address,
)
from radt.memory.rows import About, Findings, Row, RowFormat, RowStore, State, check_ids, some
from radt.memory.store import NewEntries, StoreIndex, ids_of

STRANGE = "are searched by other keys than theirs"
# A memory whose keys have no more numbers is searched here: PostgreSQL takes a row at a time, so
# that it needs longer to count 10,000 rows than a product takes to compare them.
HELD = 1 << 23


def no_server_memory(place: str) -> MemoryServerError:
    """Build the error for a memory that is not there."""
    return MemoryServerError(
        f"{place}: there is no such memory on the server; open it with writing=True to make it, or "
        f"`radt memory import {place} SOURCE`"
    )


@dataclass(frozen=True)
class Changes:
    """What has happened to a memory since a client last looked."""

    state: State
    gone: Tensor  # [g] ids
    ids: Tensor  # [n] of new entries
    entries: Entries  # [n]


class PostgresStore(RowStore):
    """Entries on a server, as they were when it was opened, written to or last refreshed."""

    def __init__(
        self,
        name: str,
        identity: Identity | None,
        writing: bool,
        patience: Patience | None = None,
    ) -> None:
        """Open a memory by its name; without an identity, take the one it has."""
        self.place, self.writing, self.removals = f"postgres:{name}", writing, 0
        self.server = Server(self.place, f"radt_{name}", read_address(), patience or Patience())
        self.format, self.state = RowFormat(self._find(identity)), State()
        self._writes = 0  # that this client has begun
        self._held: StoreIndex | None = None  # of a memory whose keys are held here
        self._begin_columns(self.identity.key_width)  # keys as far as they were asked for
        self._apply(self.server.transact(self._changes, reading=True))

    @property
    def keys(self) -> Tensor:
        """The key of each entry, [N, d]; of one that was just removed, zeros, which resemble none.

        They are read when they are asked for, and kept.
        """
        missing: list[int] = self.numbers[len(self._keys.rows) :].tolist()
        if missing:
            found = self.server.run(lambda connection: self._rows(connection, missing, False))
            keys = torch.zeros(len(missing), self.identity.key_width)
            there = torch.tensor([id in found for id in missing])
            keys[there] = self.format.keys(found[id] for id in missing if id in found)
            self._keys.append(keys)
        return self._keys.rows

    def append(self, new: NewEntries) -> None:
        """Add entries in one transaction: safe when this returns, none of them if it raises.

        Only if the server does not come back after it was told to commit, nobody knows: the error
        then says so.
        """
        refuse_reader(self.place, self.writing)
        if len(new):
            self._write(new, [])

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool, and those that others just wrote."""
        refuse_reader(self.place, self.writing)
        none = blank(self.identity.spaces, 0, self.identity.halves.chunk_len)
        new = NewEntries(Entries.none(), self._keys.rows[:0], none)
        self._write(new, self.numbers[~kept].tolist())

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, both [B, k], best first; absent: -inf and -1.

        Within a partition the search is exact; over all of them it may miss some.
        """
        width = self.identity.key_width
        check_queries(queries, k, partition, width)
        if partition is None or len(self) * width > HELD:
            return self.search_there(queries, k, partition)
        self._held = self._held or StoreIndex(FlatIndex(width), self)
        self._held.follow()
        return self._held.search(queries, k, partition)

    def search_there(
        self, queries: Tensor, k: int, partition: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Let the server compare keys, also those that are held here."""
        newest = self.state.last_id

        def work(connection: Connection) -> tuple[Tensor, Tensor]:
            if partition is not None:
                self._check_searched(connection, partition.unique().tolist())
            return tables.search(connection, queries, k, partition, newest)

        relevance, numbers = self.server.run(work)
        return relevance, self._known(numbers)

    def refresh(self) -> None:
        if self.server.run(self._about).state != self.state:
            self._apply(self.server.transact(self._changes, reading=True))

    def details(self) -> dict[str, Any]:
        """Say how much room the memory takes, what made it, and which schema it is."""
        schema, run = self.server.schema, self.server.run
        taken = run(lambda connection: tables.size(connection, schema))
        made_by = f"radt {run(self._read_about).library}"
        return {"bytes": taken, "made_by": made_by, "database": schema}

    def read_all(self, work: Callable[[State, Iterator[Row]], Result]) -> Result:
        """Give work all rows with their contents, as they are at one moment."""

        def read(connection: Connection) -> Result:
            parts = tables.whole_rows(connection)
            rows = (self._whole(row) for part in parts for row in part)
            return work(self._about(connection).state, rows)

        return self.server.transact(read, reading=True)

    def close(self) -> None:
        self.server.close()

    def _find(self, identity: Identity | None) -> Identity:
        """Find the memory, or make it, and return what it is."""
        schema = self.server.schema
        if not self.server.run(lambda connection: tables.exists(connection, schema)):
            if not self.writing or identity is None:
                raise no_server_memory(self.place)
            self.server.transact(
                lambda connection: tables.create_tables(connection, schema, identity)
            )
            self.server.close()  # a new connection knows the type of vectors
        theirs = self.server.run(self._read_about).identity
        refuse_other(self.place, theirs, identity or theirs)
        return theirs

    def _write(self, new: NewEntries, forget: Sequence[int]) -> None:
        """Add and remove entries in one transaction that is safe to repeat."""
        self._writes += 1
        client, turn = self.server.client, self._writes

        def work(connection: Connection) -> Changes:
            state = self._about(connection, lock=True).state
            if tables.begin_write(connection, client, turn):
                numbered = new.entries.episode + state.episodes - self.episodes
                theirs = replace(new, entries=replace(new.entries, episode=numbered))
                tables.write(connection, state, self.format, theirs, forget)
            return self._changes(connection)

        self._apply(self.server.transact(work))

    def _read_about(self, connection: Connection, lock: bool = False) -> About:
        try:
            return tables.read_about(connection, lock)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def _about(self, connection: Connection, lock: bool = False) -> About:
        """Read what the memory says of itself, and see that it is still the one it was."""
        about = self._read_about(connection, lock)
        refuse_other(self.place, about.identity, self.identity)
        if about.state.writes < self.state.writes:
            raise MemoryServerError(
                f"{self.place}: it holds {about.state.writes} writes and held {self.state.writes} "
                "before: somebody has put another memory, or an older copy, in its place; open it "
                "again to use it as it is"
            )
        return about

    def _changes(self, connection: Connection) -> Changes:
        """Read what is new and what is gone, of ours and of others'."""
        state = self._about(connection).state
        gone = tables.forgotten(connection, self.state.writes) if len(self.numbers) else set()
        ids, entries = GrowingTensor(self.numbers), GrowingRecord(Entries.none())
        for rows in tables.read_sealed(connection, self.state.last_id):
            for row in rows:
                self._whole(row, content=False)
            if strange := tables.strange_directions(connection, self.format, rows):
                raise self._damaged(f"entries {some(strange)} {STRANGE}")
            ids.append(torch.tensor([row.id for row in rows]))
            entries.append(self.format.entries(rows))
        return Changes(state, torch.tensor(sorted(gone)), ids.rows, entries.rows)

    def _apply(self, changes: Changes) -> None:
        """Bring what is in RAM to a state of the server."""
        kept = ~torch.isin(self.numbers, changes.gone)
        count = int(kept.sum()) + len(changes.ids)
        if count != changes.state.entries:
            raise self._damaged(f"{changes.state.entries} entries are expected, {count} were found")
        if not bool(kept.all()):
            self._drop(kept)
        self._add(changes.ids, changes.entries, self._keys.rows[:0])
        self._counts = torch.bincount(self.entries.task)  # [tasks]
        self.state = changes.state

    def _check_searched(self, connection: Connection, tasks: Sequence[int]) -> None:
        """Refuse to search tasks that have more or fewer keys to search than entries."""
        there = tables.searched_in(connection, tasks, self.state.last_id)
        wrong = [
            task for task in tasks if there.get(task, 0) != int(self._counts[task : task + 1].sum())
        ]
        if wrong and self._about(connection).state == self.state:  # else others have removed some
            raise self._damaged(f"the keys of tasks {some(wrong)} that are searched have changed")

    def _known(self, numbers: Tensor) -> Tensor:
        """Return the ids of numbers that a search found; one that nobody wrote is damage."""
        known, found = self.numbers.numpy(), numbers[numbers >= 0].numpy()
        at = np.searchsorted(known, found)
        if (at == len(known)).any() or (known[at] != found).any():
            raise self._damaged("it is searched by keys of entries that are not there")
        return ids_of(known, numbers)

    def _whole_rows(self, numbers: list[int]) -> dict[int, Row]:
        return self.server.run(lambda connection: self._rows(connection, numbers, True))

    def _rows(self, connection: Connection, ids: Sequence[int], contents: bool) -> dict[int, Row]:
        """Read rows by id; those that others have removed are left out."""
        found = tables.read_rows(connection, ids, contents)
        for row in found.values():
            self._whole(row, contents)
        missing = [id for id in ids if id not in found]
        if missing and (lost := {*missing} - tables.forgotten(connection)):
            raise self._damaged(f"entries {some(lost)} are not there any more")
        return found

    def _whole(self, row: Row, content: bool = True) -> Row:
        if problem := self.format.problem(row, content):
            raise self._damaged(f"entry {row.id} is damaged ({problem})")
        return row

    def _damaged(self, problem: str) -> MemoryServerError:
        return MemoryServerError(
            f"{self.place}: {problem}; it was not radt that changed it. Next: bring the schema "
            f"{self.server.schema} back from a backup of the database"
        )


def look_through(name: str) -> Findings:
    """Read everything that the server holds of a memory, as it is at one moment."""
    place, schema = f"postgres:{name}", f"radt_{name}"
    with closing(Server(place, schema, read_address(), Patience())) as server:
        if not server.run(lambda connection: tables.exists(connection, schema)):
            raise no_server_memory(place)
        return server.transact(_verified, reading=True)


def _verified(connection: Connection) -> Findings:
    try:
        about = tables.read_about(connection)
    except ValueError as error:
        return Findings(0, (), (str(error),))
    state, format, problems, good = about.state, RowFormat(about.identity), list[str](), set[int]()
    for rows in tables.whole_rows(connection):
        whole = []
        for row in rows:
            if problem := format.problem(row):
                problems.append(f"entry {row.id}: {problem}")
            else:
                whole.append(row)
        good |= {row.id for row in whole}
        if strange := tables.strange_directions(connection, format, whole):
            problems.append(f"entries {some(strange)} {STRANGE}")
    expected, odd = check_ids(state, good, tables.forgotten(connection))
    problems += odd
    if (count := tables.searched(connection)) != state.entries:
        problems.append(f"{state.entries} entries are expected, {count} are searched")
    return Findings(len(good & expected), tuple(sorted(expected - good)), tuple(problems))
