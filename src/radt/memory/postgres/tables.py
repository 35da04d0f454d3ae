"""The tables of a memory on the server, and how they are read, written and searched.

A memory `room` is the schema `radt_room`. Its rows are those of a folder, with the same seals:

    about       what the memory is, and how far it has come; writers take turns by locking it
    entries     entries with their keys and contents
    directions  the keys as unit vectors: what is searched, made from the entries
    forgotten   which entries were removed, and by which write
    clients     how many writes of each client are in it, so that none is done twice

A search among the entries of a task is exact, one among all of them quick. PostgreSQL uses an index
of pgvector only for an order by its operator alone. The exact search orders by the relevance and
then by age, so that no approximate index, let alone one with a filter after it, can ever answer it.
The quick one uses a graph if somebody has made one, and is exact if not:

    CREATE INDEX ON radt_room.directions USING hnsw (direction vector_ip_ops)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import numpy as np
import torch
from numpy.typing import NDArray
from pgvector import Vector
from psycopg import sql
from torch import Tensor

from radt.memory.identity import Identity
from radt.memory.postgres.server import NEIGHBOURS, Connection
from radt.memory.rows import (
    COLUMNS,
    SEALED,
    About,
    Row,
    RowFormat,
    State,
    about_from,
    about_rows,
    state_row,
)
from radt.memory.similarity import GRID, best_first, unit
from radt.memory.store import NewEntries

AT_ONCE = 4096  # rows of one statement, so that none takes long
ONE_AT_A_TIME = 0x72616474  # an advisory lock: memories are made one after the other
KINDS = (*["int8"] * 7, "float8", *["bytea"] * 4)  # of a row's columns
TABLES = """
CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;
CREATE SCHEMA {schema};
CREATE TABLE {schema}.about (name text PRIMARY KEY, value text NOT NULL, seal bytea NOT NULL);
CREATE TABLE {schema}.entries (
    id bigint PRIMARY KEY, task bigint NOT NULL, episode bigint NOT NULL, age bigint NOT NULL,
    position bigint NOT NULL, start bigint NOT NULL, stop bigint NOT NULL,
    total_return double precision NOT NULL, key bytea NOT NULL, digest bytea NOT NULL,
    seal bytea NOT NULL, content bytea NOT NULL
);
CREATE TABLE {schema}.directions (
    id bigint PRIMARY KEY, task bigint NOT NULL, direction vector({width}) NOT NULL
);
CREATE INDEX ON {schema}.directions (task);
CREATE TABLE {schema}.forgotten (id bigint PRIMARY KEY, at_write bigint NOT NULL);
CREATE INDEX ON {schema}.forgotten (at_write);
CREATE TABLE {schema}.clients (client uuid PRIMARY KEY, writes bigint NOT NULL);
"""
EXACT = """
SELECT asked.n, found.id, found.relevance
FROM unnest(%(vectors)s::vector[], %(tasks)s::bigint[]) WITH ORDINALITY AS asked(vector, task, n)
CROSS JOIN LATERAL (
    SELECT id, round(-(direction <#> asked.vector) * {grid}) / {grid} AS relevance FROM directions
    WHERE {scope} id <= %(newest)s
    ORDER BY relevance DESC, id DESC LIMIT %(k)s
) AS found ORDER BY asked.n, found.id
"""
QUICK = """
SELECT asked.n, found.id, found.relevance
FROM unnest(%(vectors)s::vector[]) WITH ORDINALITY AS asked(vector, n)
CROSS JOIN LATERAL (
    SELECT id, -(direction <#> asked.vector) AS relevance FROM directions
    WHERE id <= %(newest)s ORDER BY direction <#> asked.vector LIMIT %(k)s
) AS found ORDER BY asked.n, found.id
"""
IN_TASK = EXACT.format(grid=GRID, scope="task = asked.task AND")
ANYWHERE = EXACT.format(grid=GRID, scope="")
STRANGE = """
SELECT made.id FROM unnest(%s::bigint[], %s::bigint[], %s::vector[]) AS made(id, task, direction)
LEFT JOIN directions USING (id)
WHERE directions.task IS DISTINCT FROM made.task OR directions.direction <-> made.direction > 1e-5
"""


def exists(connection: Connection, schema: str) -> bool:
    """Tell whether there is a memory in a schema."""
    asked = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = 'about'"
    return connection.execute(asked, (schema,)).fetchone() == (1,)


def create_tables(connection: Connection, schema: str, identity: Identity) -> None:
    """Make the tables of a memory in this transaction, unless somebody was faster."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (ONE_AT_A_TIME,))
    if exists(connection, schema):
        return
    names = {"schema": sql.Identifier(schema), "width": sql.Literal(identity.key_width)}
    connection.execute(sql.SQL(TABLES).format(**names))
    connection.cursor().executemany(
        "INSERT INTO about VALUES (%s, %s, %s)", about_rows(identity, State())
    )


def read_about(connection: Connection, lock: bool = False) -> About:
    """Read what the memory says of itself; with a `lock`, other writers wait from here on.

    What cannot be is a ValueError.
    """
    asked = f"SELECT name, value, seal FROM about ORDER BY name {'FOR UPDATE' if lock else ''}"
    return about_from(connection.execute(asked).fetchall())


def read_sealed(connection: Connection, after: int) -> Iterator[list[Row]]:
    """Go through the rows with ids above `after`, some at a time, without their contents."""
    asked = f"SELECT {SEALED} FROM entries WHERE id > %s ORDER BY id LIMIT {AT_ONCE}"
    while found := connection.execute(asked, (after,), binary=True).fetchall():
        yield [Row(*values) for values in found]
        after = found[-1][0]


def read_rows(connection: Connection, ids: Sequence[int], contents: bool) -> dict[int, Row]:
    """Read rows by id, with or without their contents; those that are gone are left out."""
    asked = f"SELECT {COLUMNS if contents else SEALED} FROM entries WHERE id = ANY(%s)"
    found: dict[int, Row] = {}
    for part in _parts(ids):
        for values in connection.execute(asked, (part,), binary=True):
            found[values[0]] = Row(*values)
    return found


def whole_rows(connection: Connection) -> Iterator[list[Row]]:
    """Go through all rows with their contents, some at a time, in the order of their ids."""
    for part in read_sealed(connection, after=0):
        found = read_rows(connection, [row.id for row in part], contents=True)
        yield [found[id] for id in sorted(found)]


def forgotten(connection: Connection, since: int = 0) -> set[int]:
    """Return the ids that were removed after a write."""
    asked = "SELECT id FROM forgotten WHERE at_write > %s"
    return {id for (id,) in connection.execute(asked, (since,), binary=True)}


def searched_in(connection: Connection, tasks: Sequence[int], newest: int) -> dict[int, int]:
    """Count the entries that a search in each of some tasks goes through, up to the newest."""
    asked = "SELECT task, count(*) FROM directions WHERE task = ANY(%s) AND id <= %s GROUP BY task"
    return dict(connection.execute(asked, (list(tasks), newest), binary=True).fetchall())


def searched(connection: Connection) -> int:
    """Count the entries that a search goes through."""
    (count,) = connection.execute("SELECT count(*) FROM directions").fetchone() or (0,)
    return int(count)


def size(connection: Connection, schema: str) -> int:
    """Return the bytes that a memory takes on the server's disk, with its indexes."""
    asked = (
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n "
        "ON n.oid = relnamespace WHERE nspname = %s AND relkind = 'r'"
    )
    (taken,) = connection.execute(asked, (schema,)).fetchone() or (0,)
    return int(taken)


def write(
    connection: Connection, state: State, format: RowFormat, new: NewEntries, forget: Sequence[int]
) -> None:
    """Add and remove rows of a locked memory that has come as far as `state`."""
    for first in range(0, len(new), AT_ONCE):
        part = new.rows(torch.arange(first, min(first + AT_ONCE, len(new))))
        _insert(connection, format, part, state.last_id + 1 + first)
    writes = state.writes + 1
    gone = sum(_remove(connection, part, writes) for part in _parts(forget))
    name, value, seal = state_row(state.after(new.entries, gone))
    changed = "UPDATE about SET value = %s, seal = %s WHERE name = %s"
    connection.execute(changed, (value, seal, name))


def begin_write(connection: Connection, client: UUID, write: int) -> bool:
    """Note a client's write in a locked memory; return whether it is to be done, not done yet."""
    noted = (
        "INSERT INTO clients AS known VALUES (%s, %s) ON CONFLICT (client) "
        "DO UPDATE SET writes = excluded.writes WHERE known.writes < excluded.writes"
    )
    return connection.execute(noted, (client, write)).rowcount == 1


def _insert(connection: Connection, format: RowFormat, new: NewEntries, first_id: int) -> None:
    cursor, directions = connection.cursor(), unit(new.keys).float().numpy()
    with cursor.copy(f"COPY entries ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(KINDS)
        for row in format.rows(new, first_id):
            copy.write_row(row)
    with cursor.copy("COPY directions FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(("int8", "int8", "vector"))
        for n, task in enumerate(new.entries.task.tolist()):
            copy.write_row((first_id + n, task, Vector(directions[n])))


def _remove(connection: Connection, ids: list[int], at_write: int) -> int:
    """Remove rows that are still there; return how many were."""
    removed = "DELETE FROM entries WHERE id = ANY(%s) RETURNING id"
    gone = [id for (id,) in connection.execute(removed, (ids,))]
    connection.execute("DELETE FROM directions WHERE id = ANY(%s)", (gone,))
    noted = "INSERT INTO forgotten SELECT id, %s FROM unnest(%s::bigint[]) AS id"
    connection.execute(noted, (at_write, gone))
    return len(gone)


def _parts(ids: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), AT_ONCE):
        yield list(ids[start : start + AT_ONCE])


def strange_directions(connection: Connection, format: RowFormat, rows: list[Row]) -> list[int]:
    """Name entries whose direction is not that of their key, or is not there."""
    if not rows:
        return []
    directions = [Vector(each) for each in unit(format.keys(rows)).float().numpy()]
    asked = ([row.id for row in rows], [row.task for row in rows], directions)
    return [id for (id,) in connection.execute(STRANGE, asked, binary=True)]


def search(
    connection: Connection, queries: Tensor, k: int, partition: Tensor | None, newest: int
) -> tuple[Tensor, Tensor]:
    """Find the k best entries up to the `newest` id of each query's task, or of all tasks.

    Returns relevance and ids of the server, both [B, k], best first; absent: -inf and -1.
    """
    directions = unit(queries).float().numpy()
    values = {
        "vectors": [Vector(direction) for direction in directions],
        "tasks": [0] * len(queries) if partition is None else partition.tolist(),
        "newest": newest,
        "k": k,
    }
    asked = IN_TASK if partition is not None else QUICK if 2 * k <= NEIGHBOURS else ANYWHERE
    found = connection.execute(asked, values, binary=True).fetchall()
    if asked is QUICK and len(found) < k * len(queries):  # few entries, or many newer ones
        found = connection.execute(ANYWHERE, values, binary=True).fetchall()
    return _arranged(np.array(found, np.float64).reshape(-1, 3), len(queries), k)


def _arranged(found: NDArray[np.float64], rows: int, k: int) -> tuple[Tensor, Tensor]:
    """Lay what was found, by row and id, into [B, k], best first and of equal ones the newest."""
    row = found[:, 0].astype(np.int64) - 1
    column = np.arange(len(row)) - np.searchsorted(row, row)
    scores = torch.full((rows, k), -torch.inf)
    ids = torch.full((rows, k), -1)
    scores[row, column] = torch.from_numpy((found[:, 2] * GRID).round() / GRID).float()
    ids[row, column] = torch.from_numpy(found[:, 1]).long()
    best, order = best_first(scores, k)
    return best, ids.gather(1, order)
