"""What a server's errors mean: whether they pass and what to do, but never where the server is.

What libpq says while it connects names the address, so it is only recognised, never repeated. What
the server itself says is repeated after every part of the address is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from radt.memory.postgres.address import VARIABLE, Address

PASSING = frozenset(  # of the server's codes; those of class 08 pass, too
    {
        *("40001", "40P01", "55P03"),  # another writer was in the way
        *("25P03", "57P05"),  # it gave up on a silent connection
        *("53300", "57P01", "57P02", "57P03"),  # too many clients, stopping, starting
        "57014",  # a statement took too long
    }
)
SAID_WHILE_CONNECTING = (  # what libpq says, what it means, whether it may pass
    ("password authentication failed", "it refuses the user or the password", False),
    ("no password supplied", "it asks for a password and got none", False),
    ("no pg_hba.conf entry", "it does not let this machine, user or database in", False),
    ("is not permitted to log in", "it refuses the user", False),
    ("does not exist", "it has no such user or database", False),
    ("service file", "the service is in no service file", False),
    ("certificate", "its certificate or ours is refused", False),
    ("SSL", "it does not agree on encryption", False),
    ("refused", "nobody listens at the address", True),
    ("too many clients", "it has too many clients", True),
    ("starting up", "it is starting", True),
    ("shutting down", "it is stopping", True),
    ("host name", "the name of its host is not known", True),
    ("resolve host", "the name of its host is not known", True),
    ("timeout", "it did not answer in time", True),
    ("closed the connection", "the connection was lost", True),
)
NEXT = {
    "42501": "let an administrator run CREATE EXTENSION vector in the database, and GRANT CREATE "
    "ON DATABASE, or the rights on this memory's schema, to the user",
    "0A000": "install pgvector on the server: the extension `vector` is not there",
    "58P01": "install pgvector on the server: the extension `vector` is not there",
    "53100": "free some space on its disk: nothing of this write was kept, all before it is",
    "25006": "name the server that accepts writes, or open the memory with writing=False",
}
CHECK = f"check {VARIABLE}, or PGHOST, PGUSER and ~/.pgpass if it is not set"


@dataclass(frozen=True)
class Failure:
    """Why something failed, whether it may pass by itself, and what to do if not."""

    reason: str
    passes: bool
    next_step: str


def explain(error: psycopg.Error, address: Address) -> Failure:
    """Say what an error means without naming the server."""
    code = error.sqlstate
    if code is None and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return _explain_connection(str(error))
    if code is None:  # not the server's fault
        return Failure(address.redacted(repr(error)), False, "report this as an error of radt")
    passes = code in PASSING or code.startswith("08")
    said = address.redacted(error.diag.message_primary or "nothing more is said")
    step = NEXT.get(code, "ask who looks after the server")
    return Failure(f"{said} ({type(error).__name__}, {code})", passes, step)


def _explain_connection(said: str) -> Failure:
    for text, meaning, passes in SAID_WHILE_CONNECTING:
        if text in said:
            return Failure(meaning, passes, CHECK)
    return Failure("the connection failed", True, CHECK)
