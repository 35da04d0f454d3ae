"""A memory on a server as a whole: looked through for damage, and copied to one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pgvector import Vector

from radt.files import atomic_write
from radt.memory.folder.database import create_database
from radt.memory.folder.verify import Findings
from radt.memory.postgres import tables
from radt.memory.postgres.address import read_address
from radt.memory.postgres.server import Connection, Patience, Server
from radt.memory.postgres.store import PostgresStore, no_memory
from radt.memory.rows import Row, RowFormat, content_problem, some
from radt.memory.similarity import unit

STRANGE = """
SELECT made.id FROM unnest(%s::bigint[], %s::bigint[], %s::vector[]) AS made(id, task, direction)
LEFT JOIN directions USING (id)
WHERE directions.task IS DISTINCT FROM made.task OR directions.direction <-> made.direction > 1e-5
"""


def verify(name: str) -> Findings:
    """Read everything that the server holds of a memory, as it is at one moment."""
    place, schema = f"postgres:{name}", f"radt_{name}"
    with closing(Server(place, schema, read_address(), Patience())) as server:
        if not server.run(lambda connection: tables.exists(connection, schema)):
            raise no_memory(place)
        return server.transact(_verified, reading=True)


def _verified(connection: Connection) -> Findings:
    try:
        about = tables.read_about(connection)
    except ValueError as error:
        return Findings(0, (), (str(error),))
    state, format, problems, good = about.state, RowFormat(about.identity), list[str](), set[int]()
    for rows in _parts(connection):
        whole = []
        for row in rows:
            if problem := content_problem(row, format):
                problems.append(f"entry {row.id}: {problem}")
            else:
                whole.append(row)
        good |= {row.id for row in whole}
        if strange := _strange(connection, format, whole):
            problems.append(f"entries {some(strange)} are searched by other keys than theirs")
    expected = {*range(1, state.last_id + 1)} - tables.forgotten(connection, since=0)
    if len(expected) != state.entries:
        problems.append(f"{state.entries} entries are expected, {len(expected)} are known")
    if (count := tables.searched(connection)) != state.entries:
        problems.append(f"{state.entries} entries are expected, {count} are searched")
    if unknown := good - expected:
        problems.append(f"entries {some(unknown)} were forgotten, or never written")
    return Findings(len(good & expected), tuple(sorted(expected - good)), tuple(problems))


def export_server(store: PostgresStore, file: Path) -> int:
    """Write a memory as it is at one moment to one file; return how many entries it has."""

    def copy(connection: Connection) -> int:
        now = tables.read_about(connection).state
        state = replace(now, last_id=now.entries)
        rows = (store.whole(row) for part in _parts(connection) for row in part)
        atomic_write(file, lambda path: create_database(path, store.identity, rows, state))
        return state.entries

    return store.server.transact(copy, reading=True)


def _parts(connection: Connection) -> Iterator[list[Row]]:
    """Go through all rows with their contents, some at a time, in the order of their ids."""
    for part in tables.numbers(connection, after=0):
        found = tables.rows(connection, [row.id for row in part], contents=True)
        yield [found[id] for id in sorted(found)]


def _strange(connection: Connection, format: RowFormat, rows: list[Row]) -> list[int]:
    """Name entries whose direction is not that of their key, or is not there."""
    if not rows:
        return []
    directions = [Vector(each) for each in unit(format.keys(rows)).float().numpy()]
    asked = ([row.id for row in rows], [row.task for row in rows], directions)
    return [id for (id,) in connection.execute(STRANGE, asked, binary=True)]
