"""Memories on a server whose rows somebody changed, or whose connections drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import torch

from radt.errors import RadtError
from radt.memory.postgres.server import Connection, Patience
from radt.memory.postgres.store import PostgresStore, look_through
from tests.faults.battery import Case, judged
from tests.faults.damage import hashed
from tests.memory import postgres
from tests.memory.faults import FORGET, WHO, assert_holds, operate
from tests.memory.stores import contents

WRITES = 10
QUERIES = torch.randn(3, WHO.key_width, generator=torch.Generator().manual_seed(0))
PATIENT = Patience(total=20.0)
Changed = Callable[[np.random.Generator], str]  # a statement; {a} and {b} stand for ids


def number(rng: np.random.Generator) -> int:
    return int(rng.choice([-1, 0, 1, 2, 3, 7, 10**6, 2**62]))


def column(rng: np.random.Generator) -> str:
    return str(
        rng.choice(["task", "episode", "age", "position", "start", "stop", "id", "total_return"])
    )


def flipped(name: str) -> Changed:
    """Change one byte of a column of bytes."""
    return lambda rng: (
        f"UPDATE entries SET {name} = set_byte({name}, {int(rng.integers(1 << 16))} % "
        f"length({name}), {int(rng.integers(256))}) WHERE id = {{a}}"
    )


def moved(table: str, what: str) -> str:
    """Let two rows change places in what they say."""
    return (
        f"UPDATE {table} SET {what} = other.{what} FROM {table} AS other "
        f"WHERE ({table}.id, other.id) IN (({{a}}, {{b}}), ({{b}}, {{a}}))"
    )


CHANGES: Mapping[str, Changed] = {
    "key": flipped("key"),
    "content": flipped("content"),
    "digest": flipped("digest"),
    "seal": flipped("seal"),
    "column": lambda rng: f"UPDATE entries SET {column(rng)} = {number(rng)} WHERE id = {{a}}",
    "cut": lambda rng: (
        f"UPDATE entries SET content = substr(content, 1, {int(rng.integers(9))}) WHERE id = {{a}}"
    ),
    "row gone": lambda rng: "DELETE FROM entries WHERE id = {a}",
    "rows gone": lambda rng: "DELETE FROM entries WHERE id >= {a}",
    "contents moved": lambda rng: moved("entries", "content"),
    "keys moved": lambda rng: moved("entries", "key"),
    "entry copied": lambda rng: (
        f"INSERT INTO entries SELECT {2 + int(rng.integers(9**9))} + id, task, episode, age, "
        "position, start, stop, total_return, key, digest, seal, content FROM entries "
        "WHERE id = {a}"
    ),
    "direction": lambda rng: (
        f"UPDATE directions SET direction = '{list(rng.normal(size=6).round(3))}'"
        "::vector WHERE id = {a}"
    ),
    "direction of another task": lambda rng: (
        f"UPDATE directions SET task = {number(rng)} WHERE id = {{a}}"
    ),
    "direction gone": lambda rng: "DELETE FROM directions WHERE id = {a}",
    "directions gone": lambda rng: "DELETE FROM directions",
    "directions moved": lambda rng: moved("directions", "direction"),
    "direction copied": lambda rng: (
        f"INSERT INTO directions SELECT {2 + int(rng.integers(9**9))} + id, task, direction "
        "FROM directions WHERE id = {a}"
    ),
    "about": lambda rng: (
        "UPDATE about SET value = replace(value, '"
        f"{int(rng.integers(10))}', '{int(rng.integers(10))}') "
        f"WHERE name = '{rng.choice(['state', 'identity', 'format'])}'"
    ),
    "about gone": lambda rng: (
        f"DELETE FROM about WHERE name = '{rng.choice(['state', 'identity', 'format'])}'"
    ),
    "about is nonsense": lambda rng: (
        f"UPDATE about SET value = '{'[' * int(rng.integers(1, 9999))}' WHERE name = 'state'"
    ),
    "forgotten again": lambda rng: f"INSERT INTO forgotten VALUES ({{a}}, {number(rng)})",
    "forgotten is forgotten": lambda rng: "DELETE FROM forgotten",
    "table gone": lambda rng: (
        f"DROP TABLE {rng.choice(['entries', 'directions', 'forgotten', 'about'])}"
    ),
}


def opened(place: str, writing: bool = False) -> PostgresStore:
    return PostgresStore(place.removeprefix("postgres:"), WHO, writing, PATIENT)


def filled(place: str, writes: int = WRITES) -> PostgresStore:
    """Write and forget so often."""
    store: Any = opened(place, writing=True)
    for done in range(writes):
        store = operate(store, done)
    return store


def read(store: PostgresStore) -> str:
    """Read and search in every way, and hash what is found."""
    found = contents(store)
    tasks = torch.arange(3)
    searches = [store.search(QUERIES, k, part) for k in (1, 4) for part in (None, tasks)]
    flat = [tensor for pair in searches for tensor in pair]
    rows = [*vars(found.entries).values(), found.keys, *vars(found.chunks).values()]
    return hashed(*rows, *flat)


TABLES = ("about", "entries", "directions", "forgotten", "clients")


def changed(source: str, name: str, ids: list[int], rng: np.random.Generator) -> str:
    """Copy a memory on the server, change something in it, and return the copy's place."""
    place = postgres.place(Path(f"{source}-{name}-{rng.integers(1 << 60)}"))
    a, b = (str(id) for id in rng.choice(ids, 2, replace=False))
    statement = CHANGES[name](rng).replace("{a}", a).replace("{b}", b)
    old, new = (f'"radt_{each.removeprefix("postgres:")}"' for each in (source, place))
    with psycopg.connect(postgres.running_server().dsn(), autocommit=True) as session:
        session.execute(f"CREATE SCHEMA {new}")
        for table in TABLES:
            session.execute(f"CREATE TABLE {new}.{table} (LIKE {old}.{table} INCLUDING ALL)")
            session.execute(f"INSERT INTO {new}.{table} SELECT * FROM {old}.{table}")
        session.execute(f"SET search_path = {new}, public")
        # Where the server itself refuses a change, nothing is damaged.
        with suppress(psycopg.IntegrityError, psycopg.DataError):
            session.execute(statement)
    return place


def change_rows(folder: Path, cases: range) -> Iterator[Case]:
    """Change rows of a memory that nobody has open."""
    source = postgres.place(folder / "good")
    with closing(filled(source)) as whole:
        good, ids = read(whole), whole.numbers.tolist()
    for case in cases:
        name = list(CHANGES)[case % len(CHANGES)]
        place = changed(source, name, ids, np.random.default_rng(case))
        yield case, name, judged(lambda: looked(place, good))  # noqa: B023


def looked(place: str, good: str) -> bool:
    """Open a memory, read and search it; what `verify` says of it is no traceback."""
    with suppress(RadtError):
        look_through(place.removeprefix("postgres:"))
    with closing(opened(place)) as store:
        return read(store) == good


def drop_connections(folder: Path, cases: range) -> Iterator[Case]:
    """End a connection at some statement, before or after the server has done it."""
    for case in cases:
        place, rng = postgres.place(folder / f"drop-{case}"), np.random.default_rng(case)
        done = int(rng.integers(1, FORGET))
        with closing(filled(place, done)) as store:
            when, before = int(rng.integers(1, 12)), bool(rng.integers(2))
            end = judged(lambda: dropped(store, done, when, before))  # noqa: B023
        yield case, f"statement {when}, {'before' if before else 'after'} it is done", end


def dropped(store: PostgresStore, done: int, when: int, before: bool) -> bool:
    """Go on with a memory whose connection ends; all of it must be there, and once."""
    with pytest.MonkeyPatch.context() as patch:
        end_at(patch, when, before)
        for later in range(done, done + 3):
            operate(store, later)  # type: ignore[arg-type]
            store.refresh()
            store.search(QUERIES, 4, torch.arange(3))
    assert_true_on(store, done + 3)
    with closing(opened(store.place)) as again:
        assert_true_on(again, done + 3)
    return True


def assert_true_on(store: Any, operations: int) -> None:
    assert store.state.writes == operations
    assert_holds(store, operations)


def end_at(patch: pytest.MonkeyPatch, when: int, before: bool) -> None:
    """Let the server end the connection around its n-th statement from now."""
    real, left, server = Connection.execute, [when], postgres.running_server()

    def execute(self: Connection, query: Any, *rest: Any, **named: Any) -> Any:
        left[0] -= 1
        ends = left[0] == 0
        if ends and before:
            server.admin(f"SELECT pg_terminate_backend({self.info.backend_pid})")
        found = real(self, query, *rest, **named)
        if ends and not before:
            server.admin(f"SELECT pg_terminate_backend({self.info.backend_pid})")
        return found

    patch.setattr(Connection, "execute", execute)
