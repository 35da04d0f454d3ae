"""The memory server: where it is, what its errors mean, and a connection that outlives them.

The address is the connection string in $RADT_MEMORY_DSN; what it leaves out, or all of it, comes
from libpq's own variables and files: PGHOST, PGUSER, PGSERVICE, ~/.pgpass and so on. It is never
shown: what libpq says while it connects names the address, so that is only recognised, never
repeated, and in what the server itself says every part of the address is hidden.

Each piece of work is tried again, as a whole and after growing pauses, as long as its failure may
pass; then there is one clear error. Work that writes must therefore be safe to repeat.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn, TypeVar

import psycopg
from pgvector.psycopg import register_vector
from psycopg import conninfo, pq
from psycopg.abc import PQGen

from radt.memory.identity import StoreError, refuse_child

LOG = logging.getLogger(__name__)
VARIABLE = "RADT_MEMORY_DSN"
HIDDEN = "***"
PRIVATE = (  # parts of a connection string that no text may hold
    *("host", "hostaddr", "port", "dbname", "user", "password", "service", "servicefile"),
    *("passfile", "sslcert", "sslkey", "sslpassword", "sslrootcert", "oauth_client_secret"),
)
SAID_WHILE_CONNECTING = (  # what libpq says, what it means, whether it may pass
    ("password authentication failed", "it refuses the user or the password", False),
    ("no password supplied", "it asks for a password and got none", False),
    ("no pg_hba.conf entry", "it does not let this machine, user or database in", False),
    ("not permitted to log in", "it refuses the user", False),
    ("does not exist", "it has no such user or database", False),
    ("service file", "the service is in no service file", False),
    ("certificate", "its certificate or ours is refused", False),
    ("SSL", "it does not agree on encryption", False),
    ("refused", "nobody listens at the address", True),
    ("resolve host", "the name of its host is not known", True),
    ("host name", "the name of its host is not known", True),
    ("timeout", "it did not answer in time", True),
    ("", "the connection failed", True),
)
SILENT = "25P03"  # it gave up on a connection that said nothing
NEXT = {
    "42501": "let an administrator run CREATE EXTENSION vector in the database, and GRANT CREATE "
    "ON DATABASE, or the rights on this memory's schema, to the user",
    "0A000": "install pgvector on the server: the extension `vector` is not there",
    "58P01": "install pgvector on the server: the extension `vector` is not there",
    "53100": "free some space on its disk: nothing of this write was kept, all before it is",
    "25006": "name the server that accepts writes, or open the memory with writing=False",
}
CHECK = f"check {VARIABLE}, or PGHOST, PGUSER and ~/.pgpass if it is not set"
OLDEST = 16  # version of PostgreSQL
PAUSES = 0.05, 5.0  # seconds before the next try: the first, which doubles, and the longest
IDLE = 600  # seconds after which the server may close a silent connection
NEIGHBOURS = 400  # that an approximate search looks at, and the most that it returns
IN_DOUBT = "; whether this write was kept is not known, so look before you write it again"
Result = TypeVar("Result")


class MemoryServerError(StoreError):
    """A server that cannot be reached, refuses, or answers too late; it is never named."""


class Address:
    """A connection string that can be used, but neither printed nor sent to another process."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        words = sorted(_private_words(dsn), key=len, reverse=True)
        self._private = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)") for word in words]

    def __repr__(self) -> str:
        return f"Address({HIDDEN})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "the address of a memory server is not sent to other processes; set "
            f"{VARIABLE} where they run and open the memory there by its name"
        )

    def reveal(self) -> str:
        """Return the connection string, for the one call that connects."""
        return self._dsn

    def redacted(self, text: str) -> str:
        """Hide every private part in a text that the server or its library wrote."""
        for word in self._private:
            text = word.sub(HIDDEN, text)
        return text

    def redact_record(self, record: logging.LogRecord) -> bool:
        """Hide them in what the library logs; all records are kept."""
        record.msg, record.args = self.redacted(record.getMessage()), ()
        return True


def read_address(environ: Mapping[str, str] = os.environ) -> Address:
    """Read the address from the environment; empty means that libpq finds it by itself."""
    return Address(environ.get(VARIABLE, ""))


def _private_words(dsn: str) -> set[str]:
    """Return what must not be shown: of the connection string and of libpq's own variables."""
    try:
        said = conninfo.conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, UnicodeEncodeError):  # whose message quotes the string
        said = None
    if said is None:
        raise MemoryServerError(
            f"{VARIABLE} is no connection string that libpq can read (it is not shown here); write "
            "it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX"
        )
    values = {option.keyword.decode(): option.val for option in pq.Conninfo.get_defaults()}
    found = {name: value.decode() for name, value in values.items() if value}
    found |= {name: str(value) for name, value in said.items()}
    words = {word for name in PRIVATE for word in found.get(name, "").split(",")}
    return {*words, found.get("password", "")} - {""}


@dataclass(frozen=True)
class Failure:
    """Why something failed, whether it may pass by itself, and what to do if not."""

    reason: str
    passes: bool
    next_step: str


def explain(error: psycopg.Error, address: Address) -> Failure:
    """Say what an error means without naming the server."""
    code, is_operational = error.sqlstate, isinstance(error, psycopg.OperationalError)
    if code is None and (is_operational or isinstance(error, psycopg.InterfaceError)):
        known = (rest for text, *rest in SAID_WHILE_CONNECTING if text in str(error))
        meaning, passes = next(known)
        return Failure(str(meaning), bool(passes), CHECK)
    if code is None:  # not the server's fault
        return Failure(address.redacted(repr(error)), False, "report this as an error of radt")
    said = address.redacted(error.diag.message_primary or "nothing more is said")
    passes = (is_operational or code == SILENT) and code not in NEXT
    step = NEXT.get(code, "ask who looks after the server")
    return Failure(f"{said} ({type(error).__name__}, {code})", passes, step)


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds."""

    connect: float = 5.0  # for a connection
    answer: float = 30.0  # for one statement
    total: float = 60.0  # after which nothing is tried again


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
        log = logging.getLogger("psycopg")
        log.addFilter(address.redact_record)
        weakref.finalize(self, log.removeFilter, address.redact_record)

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
        started, pause = time.monotonic(), PAUSES[0]
        for tries in count(1):
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
                raise self._error(f"the server failed {tries} times in {seconds:.0f} s", failure)
            if tries == 1:
                most = self.patience.total
                LOG.warning("%s: %s; trying for %.0f s", self.place, failure.reason, most)
            time.sleep(pause * random.Random().uniform(0.5, 1.0))  # not all clients at once
            pause = min(2 * pause, PAUSES[1])
        raise AssertionError("tries have no end")

    def _error(self, what: str, failure: Failure) -> MemoryServerError:
        error = MemoryServerError(
            f"{self.place}: {what}: {failure.reason}{self._doubt}. Next: {failure.next_step}"
        )
        error.in_doubt = bool(self._doubt)
        return error

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
