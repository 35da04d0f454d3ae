"""Memories on a PostgreSQL server with pgvector (extra `radt[server]`): `postgres:NAME`.

The name is all that is ever written down; the address and the password come from the environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from radt.memory.identity import Identity, StoreError
from radt.memory.store import STORES

if TYPE_CHECKING:
    from radt.memory.postgres.store import PostgresStore

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")  # with `radt_` before it, a schema's name


def check_name(name: str) -> None:
    """Refuse what is no name, without repeating it: it may be an address with a password."""
    if not NAME.fullmatch(name):
        raise StoreError(
            "a memory on a server is named as in postgres:room, by up to 50 of the characters a-z, "
            "0-9, _ and - (what was given is not shown: it may hold a password). The server's "
            "address goes into RADT_MEMORY_DSN"
        )


def open_postgres(name: str, identity: Identity | None, writing: bool) -> PostgresStore:
    """Open a memory of the server whose address is in the environment; None: whosever it is."""
    check_name(name)
    try:
        from radt.memory.postgres.address import read_address
        from radt.memory.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        raise StoreError(
            f"a memory on a server needs {error.name}: pip install 'radt[server]'"
        ) from error
    return PostgresStore(name, identity, writing, read_address())


STORES.register("postgres", open_postgres)
