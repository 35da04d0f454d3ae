"""Looking for damage in a memory's folder, and saving what is whole.

SQLite reads the rows, from either end of a table and then one by one around what it stumbles over;
whether a row is what it was tells its seal.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from radt.memory.folder.database import (
    ERRORS,
    PAGE_BYTES,
    connect,
    has_our_tables,
    make_tables,
    refuse_no_damage,
)
from radt.memory.folder.generations import (
    Acknowledged,
    database_path,
    databases,
    expect_acknowledged,
    files_of,
    hold,
    no_folder_memory,
    read_acknowledged,
    remove_others,
    switch,
)
from radt.memory.identity import Identity, MemoryFileError
from radt.memory.rows import (
    COLUMNS,
    About,
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
class Findings:
    """What was found in a memory: problems, and which entries are whole."""

    whole: int
    lost: tuple[int, ...]  # ids of entries that must be there and are damaged or gone
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether all that was acknowledged is there as it was written."""
        return not self.problems and not self.lost


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
    with _opened(database_path(folder, promised.generation)) as remains:
        remains.look_through(promised)
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
        with _opened(path) as remains:
            remains.look_through(promised)
            if promised is not None and remains.findings.is_sound:
                return Repair(len(remains.whole), (), 0, "")
            if remains.identity is None or not (remains.about or remains.whole):
                raise _hopeless(path)
            aside = _put_aside(files_of(path), folder / ASIDE)
            generation = int(path.stem.split("-")[1]) + 1
            rows = (remains.row(id) for id in sorted(remains.whole))
            switch(folder, generation, remains.identity, rows, remains.next_state)
        remove_others(folder, database_path(folder, generation))
        return Repair(len(remains.whole), remains.lost, remains.missing_writes, str(aside))


@dataclass
class Remains:
    """What can still be read of a database."""

    path: Path
    connection: sqlite3.Connection
    problems: list[str] = field(default_factory=list)
    about: About | None = None
    identity: Identity | None = None
    whole: set[int] = field(default_factory=set)  # ids of entries that are as they were written
    lost: tuple[int, ...] = ()
    missing_writes: int = 0  # acknowledged, but not in the database
    episodes: int = 0

    @property
    def findings(self) -> Findings:
        """What to say of it."""
        return Findings(len(self.whole), self.lost, tuple(self.problems))

    @property
    def state(self) -> State:
        """How far the database says that it has come."""
        return self.about.state if self.about else State()

    @property
    def next_state(self) -> State:
        """The state of a database that holds the whole rows, numbered anew."""
        writes, kept = self.state.writes + self.missing_writes + 1, len(self.whole)
        return State(writes, kept, max(self.state.episodes, self.episodes), kept)

    def look_through(self, promised: Acknowledged | None) -> None:
        """Read everything, as it is at one moment."""
        with suppress(*ERRORS):
            self.connection.execute("BEGIN")
        self._read_about()
        self.missing_writes = max(0, (promised.writes if promised else 0) - self.state.writes)
        if self.missing_writes:
            self.problems.append(f"its last {self.missing_writes} acknowledged writes are missing")
        checked = [line for (line,) in self._read("PRAGMA integrity_check(20)")]
        self.problems += [line for line in checked if line != "ok"]
        forgotten = self._forgotten()
        self._find_whole(forgotten)
        self._compare(forgotten)

    def row(self, id: int) -> Row:
        """Read a row that was found to be whole."""
        return Row(*self.connection.execute(f"{ENTRY} WHERE id = ?", (id,)).fetchone())

    def _read_about(self) -> None:
        try:
            self.about = about_from(self._read("SELECT name, value, seal FROM about"))
            self.identity = self.about.identity
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

    def _forgotten(self) -> set[int]:
        orders = ("ASC", "DESC")
        asked = [f"SELECT id, at_write, seal FROM forgotten ORDER BY id {way}" for way in orders]
        rows = [row for statement in asked for row in self._read(statement)]
        if not all(is_forgotten(row) for row in rows):
            self.problems.append("records of what was forgotten are damaged")
        return {row[0] for row in rows if is_forgotten(row)}

    def _find_whole(self, forgotten: set[int]) -> None:
        """Find whole entries from either end, then one by one those that are missing between."""
        before = len(self.problems)
        for way in ("ASC", "DESC"):
            for values in self._read(f"{ENTRY} ORDER BY id {way}"):
                self._look_at(Row(*values))
            if len(self.problems) == before:
                return
        last = max([self.state.last_id, *self.whole])
        for id in {*range(1, last + 1)} - self.whole - forgotten:
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
        is_known = self.about is not None and not self.missing_writes
        last = self.state.last_id if is_known else max([self.state.last_id, *self.whole])
        expected, odd = check_ids(replace(self.state, last_id=last), self.whole, forgotten)
        self.problems += odd if is_known else []
        self.whole &= expected
        if not is_known or len(self.whole) != self.state.entries:
            self.lost = tuple(sorted(expected - self.whole))


@contextmanager
def _opened(path: Path) -> Iterator[Remains]:
    """Open a database as it is, or what can be made of it."""
    with tempfile.TemporaryDirectory() as place:
        problems = [problem] if (problem := _closed_problem(path)) else []
        found = _with_first_page(path, Path(place)) if problems else path
        with closing(connect(found)) as connection:
            yield Remains(path, connection, problems)


def _closed_problem(path: Path) -> str | None:
    """Say why SQLite does not find the tables of a database, if it does not."""
    if not path.is_file():
        return "it is missing"
    try:
        with closing(connect(path)) as connection:
            return None if has_our_tables(connection) else "its tables are others"
    except ERRORS as error:
        refuse_no_damage(path, error)
        return f"SQLite cannot read it ({error})"


def _with_first_page(path: Path, place: Path) -> Path:
    """Copy a database, and let it begin with the first page of a new one.

    That page holds the names of the tables, which are always the same.
    """
    for file in files_of(path):
        shutil.copy2(file, place)
    copy = place / path.name
    with copy.open("r+b" if copy.exists() else "wb") as begun:
        begun.write(_first_page())
    return copy


def _first_page() -> bytes:
    """Return the first page that every database begins with."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        make_tables(empty)
        page = bytearray(empty.serialize()[:PAGE_BYTES])
    page[24:28] = b"\xff\xff\xff\xff"  # a change unlike the last one: its size is not believed
    return bytes(page)


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


def _put_aside(files: Iterable[Path], aside: Path) -> Path:
    """Give files a second name in another folder, so that they stay when the first one goes."""
    aside.mkdir(exist_ok=True)
    number = len(list(aside.iterdir())) + 1
    place = aside / f"{number:03d}"
    place.mkdir()
    for file in files:
        try:
            os.link(file, place / file.name)
        except OSError:  # this file system has no second names
            shutil.copy2(file, place / file.name)
    return place
