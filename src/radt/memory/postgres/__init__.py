"""Memories on a PostgreSQL server with pgvector (extra `radt[server]`): `postgres:NAME`.

The name is all that is ever written down; the address and the password come from the environment.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from radt.memory.identity import Identity, StoreError
from radt.memory.store import STORES

if TYPE_CHECKING:
    from radt.memory.postgres.store import PostgresStore
    from radt.memory.rows import Findings

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")  # with `radt_` before it, a schema's name


def check_name(name: str) -> None:
    """Refuse what is no name, without repeating it: it may be an address with a password."""
    if not NAME.fullmatch(name):
        raise StoreError(
            "a memory on a server is named as in postgres:room, by up to 50 of the characters a-z, "
            "0-9, _ and - (what was given is not shown: it may hold a password). The server's "
            "address goes into RADT_MEMORY_DSN"
        )


def server_name(place: object) -> str | None:
    """Return the name of a memory on a server, checked; None: the place is another one."""
    kind, _, name = str(place).partition(":")
    if kind != "postgres":
        return None
    check_name(name)
    return name


def open_postgres(name: str, identity: Identity | None, writing: bool) -> PostgresStore:
    """Open a memory of the server whose address is in the environment; None: whosever it is."""
    check_name(name)
    store: PostgresStore = _client().PostgresStore(name, identity, writing)
    return store


def verify_server(name: str) -> Findings:
    """Read everything that the server holds of a memory, as it is at one moment."""
    found: Findings = _client().look_through(name)
    return found


def _client() -> Any:
    """Import what talks to a server, or say how to get its libraries."""
    try:
        return importlib.import_module("radt.memory.postgres.store")
    except ModuleNotFoundError as error:
        raise StoreError(
            f"a memory on a server needs {error.name}: pip install 'radt[server]'"
        ) from error


STORES.register("postgres", open_postgres)
