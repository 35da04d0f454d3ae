"""One SQLite file of entries: its tables, how it is opened and checked, and what its errors mean.

Every row of every table is sealed. Nothing is found by an SQL index: a reader goes through all rows
once, and knows from `State` how many there must be and which ids they have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from radt.memory.identity import Identity, MemoryBusyError, MemoryFileError
from radt.memory.rows import (
    COLUMNS,
    SEALED,
    About,
    Row,
    RowFormat,
    State,
    about_from,
    about_rows,
    forgotten_row,
    is_forgotten,
    state_row,
)

PAGE_BYTES = 8192
MAGIC = b"SQLite format 3\0"  # how a database begins
TABLES = (
    "CREATE TABLE about (name TEXT NOT NULL, value TEXT NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, task INTEGER NOT NULL, "
    "episode INTEGER NOT NULL, age INTEGER NOT NULL, position INTEGER NOT NULL, "
    "start INTEGER NOT NULL, stop INTEGER NOT NULL, total_return REAL NOT NULL, "
    "key BLOB NOT NULL, digest BLOB NOT NULL, seal BLOB NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE forgotten (id INTEGER PRIMARY KEY, at_write INTEGER NOT NULL, "
    "seal BLOB NOT NULL)",
)
NO_FIRST_PAGE = "its first page is gone, so SQLite cannot read it"
# A damaged file can hold text that is none, or ask for more memory than there is.
ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def damaged(path: Path, problem: str) -> MemoryFileError:
    """Build the error for a file that is not what it was; it says what to do next."""
    verify, repair = (f"`radt memory {verb} {path.parent}`" for verb in ("verify", "repair"))
    return MemoryFileError(
        f"{path}: {problem}; {verify} says what is damaged, {repair} saves the rest"
    )


@contextmanager
def explained(path: Path, writing: bool = False) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except ERRORS as error:
        refuse_no_damage(path, error)
        if writing and _code(error) in FULL:
            raise MemoryFileError(
                f"{path} could not be written ({error}): nothing of this write was kept, all "
                "before it is. Free some space on its disk and write again"
            ) from error
        raise damaged(path, f"SQLite cannot read it ({error})") from error


def refuse_no_damage(path: Path, error: Exception) -> None:
    """Raise our error where SQLite's says that a file is in use or closed to us, not damaged."""
    if _code(error) in BUSY:
        raise MemoryBusyError(f"{path} is busy ({error}); end what else uses it") from error
    if _code(error) in CLOSED:
        raise MemoryFileError(
            f"{path} cannot be opened ({error}); look at the permissions of its folder: readers, "
            "too, need to write SQLite's files beside it"
        ) from error


def _code(error: Exception) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def connect(path: Path, writing: bool = False) -> sqlite3.Connection:
    """Open a file that is there, and take nothing in it on trust."""
    address = f"file:{quote(str(path.absolute()))}?mode={'rw' if writing else 'ro'}"
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def lacks_first_page(path: Path) -> bool:
    """Tell whether a file does not even begin as a database: SQLite deletes the log of such one."""
    with path.open("rb") as file:
        return path.stat().st_size < PAGE_BYTES or file.read(len(MAGIC)) != MAGIC


def has_our_tables(connection: sqlite3.Connection) -> bool:
    """Tell whether a database has the tables of a memory, and nothing else."""
    found = connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall()
    return [sql for (sql,) in found] == sorted(TABLES)


def guard_of_log(path: Path) -> sqlite3.Connection | None:
    """Open a database with a log to read it: until that is closed, SQLite does not delete the log.

    The file must not be opened otherwise meanwhile: closing it would drop the locks of SQLite.
    """
    if not path.with_name(f"{path.name}-wal").exists():
        return None
    with ExitStack() as opened, explained(path):
        guard = connect(path)
        opened.callback(guard.close)
        has_our_tables(guard)  # reads, and so holds the file
        opened.pop_all()
        return guard


class Database:
    """An open file of entries; errors say which file and what to do."""

    def __init__(self, path: Path, writing: bool = False) -> None:
        if not path.is_file():
            raise damaged(path, "it is missing")
        if lacks_first_page(path):
            raise damaged(path, NO_FIRST_PAGE)
        self.path, self.writing = path, writing
        self._guard = guard_of_log(path) if writing else None
        with explained(path):
            self.connection = connect(path, writing)
        with ExitStack() as opened, explained(path, writing):
            opened.callback(self.close)
            if not has_our_tables(self.connection):
                raise damaged(self.path, "it is no memory (its tables are others)")
            if writing:
                self.connection.execute("PRAGMA journal_mode = WAL")
                self.connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk
                self.connection.execute("PRAGMA secure_delete = ON")  # overwritten, not unlinked
            self.about = self.read_about()
            opened.pop_all()

    def close(self) -> None:
        """Close the file; the last one to do so puts the log, if it is trusted, into it."""
        self.connection.close()
        self.trust_log()

    def trust_log(self) -> None:
        """Let the log go with the last one that closes the file."""
        if self._guard is not None:
            self._guard.close()

    def read_about(self) -> About:
        """Read what the database says of itself, and how far it has come."""
        with explained(self.path):
            rows = self.connection.execute("SELECT name, value, seal FROM about").fetchall()
        try:
            return about_from(rows)
        except ValueError as error:
            raise damaged(self.path, str(error)) from error

    def rows(self, format: RowFormat, contents: bool = True, after: int = 0) -> Iterator[Row]:
        """Go through rows in order; the first that is not as it was written is an error."""
        columns = COLUMNS if contents else SEALED
        asked = f"SELECT {columns} FROM entries WHERE id > ? ORDER BY id"
        with explained(self.path):
            for values in self.connection.execute(asked, (after,)):
                row = self._whole(Row(*values), format, contents)
                if row.id <= after:
                    raise damaged(self.path, f"entry {row.id} is out of order")
                after = row.id
                yield row

    def contents(self, ids: Sequence[int], format: RowFormat) -> dict[int, Row]:
        """Read some whole rows by id; those that are not there are left out."""
        asked = f"SELECT {COLUMNS} FROM entries WHERE id = ?"
        with explained(self.path):
            found = [self.connection.execute(asked, (id,)).fetchone() for id in ids]
        return {row[0]: self._whole(Row(*row), format) for row in found if row}

    def _whole(self, row: Row, format: RowFormat, contents: bool = True) -> Row:
        if problem := format.problem(row, contents):
            raise damaged(self.path, f"entry {row.id} is damaged ({problem})")
        return row

    def forgotten(self, since: int = -1) -> list[int]:
        """List the ids that were removed after a write."""
        asked = "SELECT id, at_write, seal FROM forgotten WHERE at_write > ? ORDER BY id"
        with explained(self.path):
            rows = self.connection.execute(asked, (since,)).fetchall()
        if not all(is_forgotten(row) for row in rows):
            raise damaged(self.path, "a record of what was forgotten is damaged")
        return [id for id, _, _ in rows]

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
        run, run_many = self.connection.execute, self.connection.executemany
        with explained(self.path, writing=True):
            run("BEGIN IMMEDIATE")
            try:
                insert(self.connection, rows)
                gone = [forgotten_row(id, state.writes) for id in forget]
                run_many("INSERT INTO forgotten VALUES (?, ?, ?)", gone)
                run_many("DELETE FROM entries WHERE id = ?", [(id,) for id in forget])
                run("DELETE FROM about WHERE name = 'state'")
                run("INSERT INTO about VALUES (?, ?, ?)", state_row(state))
                run("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.rollback()
                raise


def create_database(path: Path, identity: Identity, rows: Iterable[Row], state: State) -> None:
    """Write a new file, whole when this returns; the path must not be in use.

    The rows get new ids, from 1 on, so that it is known which ids there must be.
    """
    numbered = (row.renumbered(id) for id, row in enumerate(rows, start=1))
    with explained(path, writing=True):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = OFF")  # a failed file is thrown away
            make_tables(connection)
            connection.execute("BEGIN")
            said = about_rows(identity, state)
            connection.executemany("INSERT INTO about VALUES (?, ?, ?)", said)
            insert(connection, numbered)
            (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
            if (count, count) != (state.entries, state.last_id):
                raise MemoryFileError(f"{path} got {count} entries instead of {state.entries}")
            connection.execute("COMMIT")
        finally:
            connection.close()


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new database."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    for table in TABLES:
        connection.execute(table)


def insert(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Add rows to the entries."""
    places = ", ".join("?" * len(Row._fields))
    connection.executemany(f"INSERT INTO entries VALUES ({places})", rows)
