"""One SQLite file of entries: its tables, how it is opened, and what its errors mean.

Every row of every table is sealed. Nothing is found by an SQL index: a reader goes through all rows
once, and knows from `State` how many there must be and which ids they have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from radt.memory.about import About, State, about_from, about_row, about_rows, is_forgotten, sealed
from radt.memory.identity import Identity, MemoryBusyError, MemoryFileError
from radt.memory.rows import COLUMNS, SEALED, Row

PAGE_BYTES = 8192
TABLES = (
    "CREATE TABLE about (name TEXT NOT NULL, value TEXT NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, "
    "episode INTEGER NOT NULL, age INTEGER NOT NULL, position INTEGER NOT NULL, "
    "start INTEGER NOT NULL, stop INTEGER NOT NULL, total_return REAL NOT NULL, "
    "key BLOB NOT NULL, digest BLOB NOT NULL, seal BLOB NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE forgotten (id INTEGER PRIMARY KEY, at_write INTEGER NOT NULL, "
    "seal BLOB NOT NULL)",
)
# A damaged file can hold text that is none, or ask for more memory than there is.
ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def fix(path: Path) -> str:
    """Say what to do about a damaged database."""
    verbs = (f"`radt memory {verb} {path.parent}`" for verb in ("verify", "repair"))
    return "{} says what is damaged, {} saves the rest".format(*verbs)


@contextmanager
def explained(path: Path, writing: bool = False) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except ERRORS as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in BUSY:
            raise MemoryBusyError(
                f"{path} is busy ({error}); end what else works on it and try again"
            ) from error
        if code in CLOSED:
            raise MemoryFileError(
                f"{path} cannot be opened ({error}); look at the permissions of its folder: also "
                "who only reads a memory needs to write SQLite's files beside it"
            ) from error
        if writing and code in FULL:
            raise MemoryFileError(
                f"{path} could not be written ({error}): nothing of this write was kept, all "
                "before it is. Free some space on its disk and write again"
            ) from error
        raise MemoryFileError(f"{path} is damaged ({error}); {fix(path)}") from error


class Database:
    """An open file of entries; errors say which file and what to do."""

    def __init__(self, path: Path, writing: bool = False, alone: bool = False) -> None:
        """Open a file; `alone` promises that nobody writes to it meanwhile."""
        if not path.is_file():
            raise MemoryFileError(f"{path} is missing; {fix(path)}")
        self.path, self.writing = path, writing
        with explained(path):
            self.connection = _connect(path, writing, alone)
        try:
            with explained(path, writing):
                self._prepare()
            self.about = self.read_about()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; the last one to do so puts the log into the database."""
        self.connection.close()

    def read_about(self) -> About:
        """Read what the database says of itself, and how far it has come."""
        with explained(self.path):
            rows = self.connection.execute("SELECT name, value, seal FROM about").fetchall()
        try:
            return about_from(rows)
        except ValueError as error:
            raise MemoryFileError(f"{self.path}: {error}; {fix(self.path)}") from error

    def rows(self, after: int = 0, contents: bool = False) -> Iterator[Row]:
        """Go through the rows with ids above `after`, with or without their contents."""
        asked = f"SELECT {COLUMNS if contents else SEALED} FROM entries WHERE id > ? ORDER BY id"
        with explained(self.path):
            for row in self.connection.execute(asked, (after,)):
                yield Row(*row)

    def contents(self, ids: Sequence[int]) -> dict[int, Row]:
        """Read some whole rows by id; those that are not there are left out."""
        found = {}
        with explained(self.path):
            for id in ids:
                asked = f"SELECT {COLUMNS} FROM entries WHERE id = ?"
                if row := self.connection.execute(asked, (id,)).fetchone():
                    found[id] = Row(*row)
        return found

    def forgotten(self, since: int = -1) -> list[int]:
        """List the ids that were removed after a write."""
        asked = "SELECT id, at_write, seal FROM forgotten WHERE at_write > ? ORDER BY id"
        with explained(self.path):
            rows = self.connection.execute(asked, (since,)).fetchall()
        if not all(is_forgotten(row) for row in rows):
            raise MemoryFileError(f"{self.path}: a record of what was forgotten; {fix(self.path)}")
        return [id for id, _, _ in rows]

    def integrity(self) -> list[str]:
        """Let SQLite look for damage in the structure of the file."""
        with explained(self.path):
            found = self.connection.execute("PRAGMA integrity_check(20)").fetchall()
        return [str(line) for (line,) in found if line != "ok"]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one moment of the database, whatever is written meanwhile."""
        with explained(self.path):
            self.connection.execute("BEGIN")
        try:
            yield
        finally:
            with explained(self.path):
                self.connection.rollback()

    def write(self, state: State, rows: Iterable[Row] = (), forget: Sequence[int] = ()) -> None:
        """Add and remove rows in one transaction, which is on the disk when this returns."""
        with explained(self.path, writing=True):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                insert(self.connection, rows)
                at_write = [(id, state.writes, sealed(id, state.writes)) for id in forget]
                self.connection.executemany("INSERT INTO forgotten VALUES (?, ?, ?)", at_write)
                self.connection.executemany(
                    "DELETE FROM entries WHERE id = ?", [(id,) for id in forget]
                )
                self.connection.execute("DELETE FROM about WHERE name = 'state'")
                self.connection.execute("INSERT INTO about VALUES (?, ?, ?)", about_row(state))
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.rollback()
                raise

    def _prepare(self) -> None:
        """Take nothing in the file on trust, and let no commit return before the disk has it."""
        run = self.connection.execute
        run("PRAGMA trusted_schema = OFF")
        run("PRAGMA cell_size_check = ON")
        found = run("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
        if [sql for (sql,) in found] != sorted(TABLES):
            raise MemoryFileError(
                f"{self.path} is no memory (its tables are others); {fix(self.path)}"
            )
        if self.writing:
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")  # what is forgotten is overwritten, not only unlinked


def create(path: Path, identity: Identity, rows: Iterable[Row], state: State) -> None:
    """Write a new file, whole when this returns; the path must not be in use.

    The rows get new ids, from 1 on, so that it is known which ids there must be.
    """
    numbered = (row.renumbered(id) for id, row in enumerate(rows, start=1))
    with explained(path, writing=True):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = OFF")  # a failed file is thrown away
            connection.execute("BEGIN")
            for table in TABLES:
                connection.execute(table)
            said = about_rows(identity, state)
            connection.executemany("INSERT INTO about VALUES (?, ?, ?)", said)
            insert(connection, numbered)
            (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
            if (count, count) != (state.entries, state.last_id):
                raise MemoryFileError(f"{path} got {count} entries instead of {state.entries}")
            connection.execute("COMMIT")
        finally:
            connection.close()


def insert(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Add rows to the entries."""
    places = ", ".join("?" * len(Row._fields))
    connection.executemany(f"INSERT INTO entries VALUES ({places})", rows)


def _connect(path: Path, writing: bool, alone: bool) -> sqlite3.Connection:
    mode = "rw" if writing else "ro"
    address = f"file:{quote(str(path.absolute()))}?mode={mode}{'&immutable=1' if alone else ''}"
    return sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
    )
