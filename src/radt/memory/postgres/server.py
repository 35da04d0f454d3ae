"""A connection to the memory server that outlives restarts, lost connections and slow answers.

Each piece of work is tried again, as a whole and after growing pauses, as long as its failure may
pass; then there is one clear error. Work that writes must therefore be safe to repeat.
"""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from pgvector.psycopg import register_vector
from psycopg.abc import PQGen

from radt.memory.identity import refuse_child
from radt.memory.postgres.address import Address, MemoryServerError, RedactedLog
from radt.memory.postgres.errors import Failure, explain

OLDEST = 16  # version of PostgreSQL
IDLE = 600  # seconds after which the server may close a silent connection
NEIGHBOURS = 400  # that an approximate search looks at, and the most that it returns
IN_DOUBT = "; whether this write was kept is not known, so look before you write it again"
Result = TypeVar("Result")


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    connect: float = 5.0  # for a connection
    answer: float = 30.0  # for one statement
    total: float = 60.0  # after which nothing is tried again
    first_pause: float = 0.05  # doubles each time
    longest_pause: float = 5.0


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever for a server that is there and says nothing."""

    longest_wait = 60.0

    def __repr__(self) -> str:
        return "<a connection to the memory server>"  # psycopg would say where it is

    def wait(
        self, gen: PQGen[Result], interval: float = 0.1, timeout: float | None = None
    ) -> Result:
        """Wait for the server, but no longer than it may take."""
        return super().wait(gen, interval, timeout or self.longest_wait)


class Server:
    """One connection, made when it is needed and made anew when it is lost."""

    def __init__(self, place: str, schema: str, address: Address, patience: Patience) -> None:
        self.place, self.schema, self.patience = place, schema, patience
        self.client = uuid.uuid4()  # by which the server knows whose write it has already
        self._address, self._process = address, os.getpid()
        self._connection: Connection | None = None
        self._release: Callable[[], object] = lambda: None
        self._doubt = ""  # what the error says if the work fails now
        log, hidden = logging.getLogger("psycopg"), RedactedLog(address)
        log.addFilter(hidden)
        weakref.finalize(self, log.removeFilter, hidden)

    def close(self) -> None:
        """Give the connection back; the next work makes a new one."""
        self._release()
        self._connection = None

    def transact(self, work: Callable[[Connection], Result], reading: bool = False) -> Result:
        """Do work in one transaction; work that only reads sees one moment of the memory."""

        def whole(connection: Connection) -> Result:
            moment = "ISOLATION LEVEL REPEATABLE READ READ ONLY" if reading else ""
            connection.execute(f"BEGIN {moment}")
            result = work(connection)
            self._doubt = "" if reading else IN_DOUBT
            connection.execute("COMMIT")
            return result

        return self.run(whole)

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Do work, again if its failure may pass."""
        refuse_child(self.place, self._process)
        self._doubt = ""
        started = time.monotonic()
        for tries, pause in enumerate(self._pauses(), start=1):
            try:
                return work(self._connected())
            except psycopg.Error as error:
                failure = explain(error, self._address)
                self.close()
            except BaseException:
                self.close()
                raise
            # Raised here, not above: libpq's error names the address and would come as context.
            seconds = time.monotonic() - started
            if not failure.passes:
                raise self._error("the server refuses", failure)
            if seconds + pause > self.patience.total:
                what = f"the server failed {tries} times in {seconds:.0f} s"
                raise self._error(what, failure)
            time.sleep(pause)
        raise AssertionError("pauses have no end")

    def _error(self, what: str, failure: Failure) -> MemoryServerError:
        return MemoryServerError(
            f"{self.place}: {what}: {failure.reason}{self._doubt}. Next: {failure.next_step}"
        )

    def _pauses(self) -> Iterator[float]:
        """Double the pause each time; chance keeps a thousand agents from coming back at once."""
        chance, pause = random.Random(self.client.int), self.patience.first_pause
        while True:
            yield pause * chance.uniform(0.5, 1.0)
            pause = min(2 * pause, self.patience.longest_pause)

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection.connect(
                self._address.reveal(),
                autocommit=True,
                connect_timeout=max(2, round(self.patience.connect)),
                fallback_application_name="radt",
            )
            self._release = weakref.finalize(self, _close, connection, self._process)
            connection.longest_wait = self.patience.answer + self.patience.connect
            self._prepare(connection)
            self._connection = connection
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        """Check what the server is, and tell it how long things may take."""
        if (version := connection.info.server_version // 10_000) < OLDEST:
            raise MemoryServerError(
                f"{self.place}: the server is PostgreSQL {version}; {OLDEST} or newer is needed"
            )
        found = connection.execute(
            "SELECT nspname FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace "
            "WHERE extname = 'vector'"
        ).fetchone()
        milliseconds = round(1000 * self.patience.answer)
        settings = {
            "search_path": f'"{self.schema}", "{found[0] if found else "public"}"',
            "statement_timeout": milliseconds,
            "lock_timeout": milliseconds // 2,  # how long to wait for another writer
            "idle_in_transaction_session_timeout": milliseconds,
            "idle_session_timeout": 1000 * IDLE,
            "hnsw.ef_search": NEIGHBOURS,
        }
        connection.execute(
            "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) "
            "AS setting(name, value)",
            (list(settings), [str(value) for value in settings.values()]),
        )
        connection.execute(  # an acknowledged write is on the disk; stricter settings stay
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        if found:
            register_vector(connection)


def greeting(address: Address) -> str:
    """Ask the server who it is, for somebody who wants to know whether it works."""
    server = Server("the memory server", "public", address, Patience(total=10.0))

    def ask(connection: Connection) -> str:
        asked = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        found = connection.execute(asked).fetchone()
        vectors = (
            f"with pgvector {found[0]}" if found else "without pgvector: CREATE EXTENSION vector"
        )
        return f"PostgreSQL {connection.info.parameter_status('server_version')} {vectors}"

    try:
        return server.run(ask)
    finally:
        server.close()


def _close(connection: Connection, process: int) -> None:
    if os.getpid() == process:  # a child leaves its parent's connection alone
        connection.close()
