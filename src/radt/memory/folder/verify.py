"""Looking for damage in a memory's folder, and saving what is whole.

SQLite reads the rows in order, and one by one where it stumbles; a row's seal tells whether it is
what was written.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from radt.memory.folder.database import (
    ERRORS,
    NO_FIRST_PAGE,
    PAGE_BYTES,
    connect,
    explained,
    has_our_tables,
    lacks_first_page,
    make_tables,
    refuse_no_damage,
)
from radt.memory.folder.lock import hold
from radt.memory.folder.store import (
    Acknowledged,
    database_path,
    databases,
    expect_acknowledged,
    files_of,
    no_folder_memory,
    read_acknowledged,
    remove_others,
    size_of,
    switch,
)
from radt.memory.identity import Identity, MemoryFileError
from radt.memory.rows import (
    COLUMNS,
    SEAL_BYTES,
    Findings,
    Row,
    RowFormat,
    State,
    about_from,
    check_ids,
    is_forgotten,
)

ENTRY = f"SELECT {COLUMNS} FROM entries"
ASIDE = "damaged"  # the folder of what a repair replaced


@dataclass(frozen=True)
class Repair:
    """What a repair could save."""

    kept: int
    lost: tuple[int, ...]
    missing_writes: int  # acknowledged, but nothing says what was in them
    aside: str  # the folder of what was damaged; empty where nothing was


def verify(folder: Path) -> Findings:
    """Read everything in a folder, as SQLite gives it and as it was sealed."""
    promised = expect_acknowledged(folder)
    with _opened(database_path(folder, promised.generation), promised) as remains:
        pass
    if remains.problems and expect_acknowledged(folder).generation != promised.generation:
        return verify(folder)  # it was compacted meanwhile
    return remains.findings


def repair(folder: Path) -> Repair:
    """Copy what is whole into a new database and put the damaged one aside."""
    if not folder.is_dir():
        raise no_folder_memory(folder)
    with hold(folder):
        promised = read_acknowledged(folder)
        path = _latest(folder, promised)
        with _opened(path, promised) as remains:
            before, missing, kept = remains.state, remains.missing_writes, len(remains.whole)
            if promised is not None and remains.findings.is_sound:
                return Repair(kept, (), 0, "")
            lost_all = not kept and bool(missing or not remains.is_known)
            if remains.identity is None or lost_all:
                raise _hopeless(path)
            aside = _put_aside(path, folder / ASIDE)
            generation = int(path.stem.split("-")[1]) + 1
            rows = (remains.row(id) for id in sorted(remains.whole))
            episodes = max(before.episodes, remains.episodes)
            now = State(before.writes + missing + 1, kept, episodes, kept)  # ids are counted anew
            switch(folder, generation, remains.identity, rows, now)
        remove_others(folder, database_path(folder, generation))
        return Repair(kept, remains.lost, missing, str(aside))


@dataclass
class Remains:
    """What can still be read of a database."""

    path: Path
    connection: sqlite3.Connection
    problems: list[str] = field(default_factory=list)
    identity: Identity | None = None
    state: State = field(default_factory=State)  # how far the database says that it has come
    is_known: bool = False  # whether it says so
    whole: set[int] = field(default_factory=set)  # ids of entries that are as they were written
    lost: tuple[int, ...] = ()
    missing_writes: int = 0  # acknowledged, but not in the database
    episodes: int = 0

    @property
    def findings(self) -> Findings:
        """What to say of it."""
        return Findings(len(self.whole), self.lost, tuple(self.problems))

    def look_through(self, promised: Acknowledged | None) -> None:
        """Read everything, as it is at one moment."""
        self.connection.execute("BEGIN")
        self._read_about()
        self.missing_writes = max(0, (promised.writes if promised else 0) - self.state.writes)
        if self.missing_writes:
            self.problems.append(f"its last {self.missing_writes} acknowledged writes are missing")
        checked = [line for (line,) in self._read("PRAGMA integrity_check(20)")]
        self.problems += [line for line in checked if line != "ok"]
        records = list(self._read("SELECT id, at_write, seal FROM forgotten"))
        forgotten = {row[0] for row in records if is_forgotten(row)}
        if len(forgotten) != len(records):
            self.problems.append("records of what was forgotten are damaged")
        self._find_whole(forgotten)
        self._compare(forgotten)

    def row(self, id: int) -> Row:
        """Read a row that was found to be whole."""
        return Row(*self.connection.execute(f"{ENTRY} WHERE id = ?", (id,)).fetchone())

    def _read_about(self) -> None:
        try:
            about = about_from(self._read("SELECT name, value, seal FROM about"))
            self.identity, self.state, self.is_known = about.identity, about.state, True
        except ValueError as error:
            self.problems.append(str(error))
            with suppress(OSError, ValueError, RecursionError):
                copy = self.path.with_suffix(".json").read_text("utf-8")
                self.identity = Identity.from_json(json.loads(copy))

    def _read(self, statement: str) -> Iterator[Any]:
        """Read as far as SQLite gets."""
        try:
            yield from self.connection.execute(statement)
        except ERRORS as error:
            refuse_no_damage(self.path, error)
            self.problems.append(f"SQLite stumbles over it ({error})")

    def _find_whole(self, forgotten: set[int]) -> None:
        """Find whole entries in order, then one by one those that SQLite did not get to."""
        before = len(self.problems)
        for values in self._read(ENTRY):
            self._look_at(Row(*values))
        if len(self.problems) == before:
            return
        newest = [id for (id,) in self._read("SELECT max(id) FROM entries") if id]
        most = size_of(self.path) // SEAL_BYTES  # each id, also a forgotten one, has left a seal
        for id in range(1, min(max([self.state.last_id, *newest, *self.whole]), most) + 1):
            if id in self.whole or id in forgotten:
                continue
            with suppress(*ERRORS):
                for values in self.connection.execute(f"{ENTRY} WHERE id = ?", (id,)):
                    self._look_at(Row(*values))

    def _look_at(self, row: Row) -> None:
        if self.identity is None:
            return  # nobody knows what a row must be
        problem = RowFormat(self.identity).problem(row)
        if problem is None:
            self.whole.add(row.id)
            self.episodes = max(self.episodes, row.episode + 1)
        elif (said := f"entry {row.id}: {problem}") not in self.problems:
            self.problems.append(said)

    def _compare(self, forgotten: set[int]) -> None:
        """Compare what is there with what must be."""
        is_known = self.is_known and not self.missing_writes
        last = self.state.last_id if is_known else max([self.state.last_id, *self.whole])
        expected, odd = check_ids(replace(self.state, last_id=last), self.whole, forgotten)
        self.problems += odd if is_known else []
        self.whole &= expected
        if not is_known or len(self.whole) != self.state.entries:
            self.lost = tuple(sorted(expected - self.whole))


@contextmanager
def _opened(path: Path, promised: Acknowledged | None) -> Iterator[Remains]:
    """Open a database, or what can be made of it, and read all that can be read."""
    if not path.is_file():
        raise _hopeless(path)
    with tempfile.TemporaryDirectory() as place, explained(path):
        problems = _first_page_problems(path)
        found = _with_first_page(path, Path(place)) if problems else path
        with closing(connect(found)) as connection:
            remains = Remains(path, connection, problems)
            remains.look_through(promised)
            yield remains


def _first_page_problems(path: Path) -> list[str]:
    """Say why SQLite does not find the tables of a database, if it does not."""
    if lacks_first_page(path):
        return [NO_FIRST_PAGE]
    try:
        with closing(connect(path)) as connection:
            return [] if has_our_tables(connection) else ["its tables are others"]
    except ERRORS as error:
        refuse_no_damage(path, error)
        return [f"SQLite cannot read it ({error})"]


def _with_first_page(path: Path, place: Path) -> Path:
    """Copy a database, and let it begin with the first page of a new one.

    That page holds the names of the tables, which are always the same.
    """
    for file in files_of(path):
        shutil.copy2(file, place)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        make_tables(empty)
        page = bytearray(empty.serialize()[:PAGE_BYTES])
    page[24:28] = b"\xff\xff\xff\xff"  # a change unlike the last one: its size is not believed
    with (place / path.name).open("r+b") as begun:
        begun.write(page)
    return place / path.name


def _latest(folder: Path, promised: Acknowledged | None) -> Path:
    """Return the database that counts, or the newest where nobody knows."""
    known = [database_path(folder, promised.generation)] if promised else []
    for path in (*known, *reversed(databases(folder))):
        if path.exists():
            return path
    raise _hopeless(known[0]) if known else no_folder_memory(folder)


def _hopeless(path: Path) -> MemoryFileError:
    return MemoryFileError(
        f"nothing of {path} can be read any more; bring the folder back from a copy, or remove it "
        "and start with an empty memory"
    )


def _put_aside(database: Path, aside: Path) -> Path:
    """Give files a second name in another folder, so that they stay when the first one goes."""
    aside.mkdir(exist_ok=True)
    place = aside / f"{len(list(aside.iterdir())) + 1:03d}"
    place.mkdir()
    for file in files_of(database):
        try:
            os.link(file, place / file.name)
        except OSError:  # this file system has no second names
            shutil.copy2(file, place / file.name)
    return place
