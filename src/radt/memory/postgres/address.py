"""Where the memory server is and who may enter it: read from the environment, and never shown.

The address is the connection string in $RADT_MEMORY_DSN. What it leaves out, or all of it, comes
from libpq's own variables and files: PGHOST, PGUSER, PGSERVICE, ~/.pgpass and so on.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import NoReturn

from psycopg import ProgrammingError, conninfo, pq

from radt.memory.identity import StoreError

VARIABLE = "RADT_MEMORY_DSN"
HIDDEN = "***"
PRIVATE = (  # parts of a connection string that no text may hold
    *("host", "hostaddr", "port", "dbname", "user", "password", "service", "servicefile"),
    *("passfile", "sslcert", "sslkey", "sslpassword", "sslrootcert", "oauth_client_secret"),
)


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


class RedactedLog(logging.Filter):
    """Hides an address in what the library logs while a connection is in use."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record; all of them are kept."""
        record.msg, record.args = self._address.redacted(record.getMessage()), ()
        return True


def read_address(environ: Mapping[str, str] = os.environ) -> Address:
    """Read the address from the environment; empty means that libpq finds it by itself."""
    return Address(environ.get(VARIABLE, ""))


def _private_words(dsn: str) -> set[str]:
    """Return what must not be shown: of the connection string and of libpq's own variables."""
    try:
        said = conninfo.conninfo_to_dict(dsn)
    except (ProgrammingError, UnicodeEncodeError):  # whose message quotes the string
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
