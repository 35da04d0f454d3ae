"""What must be true of a database before it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from radt.memory.about import State
from radt.memory.folder.acknowledged import Acknowledged
from radt.memory.folder.database import Database, fix
from radt.memory.identity import MemoryFileError
from radt.memory.rows import Row, RowFormat, content_problem, row_problem


def damaged(path: Path, problem: str) -> MemoryFileError:
    """Build the error for a database that is not what it was."""
    return MemoryFileError(f"{path}: {problem}; {fix(path)}")


def sealed_rows(database: Database, format: RowFormat, after: int = 0) -> Iterator[Row]:
    """Go through rows without their contents; the first that is not as it was is an error."""
    for row in database.rows(after):
        if problem := row_problem(row, format):
            raise damaged(database.path, f"entry {row.id} is damaged ({problem})")
        if row.id <= after:
            raise damaged(database.path, f"entry {row.id} is out of order")
        after = row.id
        yield row


def whole_rows(database: Database, format: RowFormat) -> Iterator[Row]:
    """Go through all rows with their contents; the first damaged one is an error."""
    for row in database.rows(contents=True):
        if problem := content_problem(row, format):
            raise damaged(database.path, f"entry {row.id} is damaged ({problem})")
        yield row


def check_count(path: Path, state: State, count: int, last_id: int) -> None:
    """Refuse a database that holds other entries than its state says."""
    if count != state.entries:
        raise damaged(path, f"{state.entries} entries are expected, {count} were found")
    if last_id > state.last_id:
        raise damaged(path, "it holds entries that were never acknowledged")


def check_writes(path: Path, state: State, promised: Acknowledged) -> None:
    """Refuse a database that lacks writes which were promised to be in it."""
    if missing := max(0, promised.writes - state.writes):
        raise damaged(path, f"its last {missing} acknowledged writes are missing")
