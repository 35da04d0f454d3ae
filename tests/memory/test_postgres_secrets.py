"""Where the server is and how to get in: used, and found in no text, log, file or message."""

from __future__ import annotations

import gc
import json
import logging
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from urllib.parse import quote

import pytest

from radt.api import preset
from radt.cli import main
from radt.commands.doctor import check_server, run_test
from radt.engine.on_ray import _shared_environment
from radt.memory.identity import StoreError
from radt.memory.memory import Memory, MemoryConfig
from radt.memory.store import open_store
from radt.runs.provenance import machine
from tests.memory.faults import WHO
from tests.memory.postgres import (
    DATABASE,
    PASSWORD,
    USER,
    TestServer,
    needs_server,
    place,
    running_server,
)
from tests.memory.stores import some_trajectories
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

pytestmark = needs_server
DSN = "RADT_MEMORY_DSN"


def secrets(server: TestServer) -> list[str]:
    host = ["127.0.0.1", str(server.port)]
    return [PASSWORD, quote(PASSWORD, ""), "s3cret", USER, DATABASE, *host]


def assert_hidden(server: TestServer, *texts: object) -> None:
    for text in texts:
        found = [secret for secret in secrets(server) if secret in str(text)]
        assert found == [], text


def told_by(error: BaseException) -> list[str]:
    """Return everything that an error can make somebody print."""
    assert error.__cause__ is None
    assert error.__context__ is None
    return [str(error), repr(error), *traceback.format_exception(error)]


def bare(server: TestServer) -> str:
    """Make a database without pgvector."""
    name = f"{DATABASE}_bare"
    server.admin(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    return server.dsn(database=name)


def closed(server: TestServer) -> str:
    """Make a database in which nobody may make a memory."""
    dsn = bare(server)
    server.admin("CREATE EXTENSION vector", database=f"{DATABASE}_bare")
    return dsn


FAILURES: dict[str, tuple[Callable[[TestServer], str], str]] = {
    "wrong password": (lambda s: s.dsn(password=f"{PASSWORD}x"), "the user or the password"),
    "no database": (lambda s: s.dsn(database=f"{DATABASE}_x"), "no such user or database"),
    "no user": (lambda s: s.dsn(user=f"{USER}_x"), "refuses: it refuses the user or the password"),
    "no extension": (bare, r"permission denied.*42501.*run CREATE EXTENSION vector"),
    "no encryption": (lambda s: f"{s.dsn()}?sslmode=require", "agree on encryption"),
    "no rights": (closed, r"permission denied for database \*\*\* \(Ins.*GRANT CREATE"),
    "no port": (lambda s: f"{s.dsn()}?port={PASSWORD}", "no connection string that libpq can read"),
    "no string": (lambda s: f"{PASSWORD} {USER}", "no connection string that libpq can read"),
    "bad encoding": (lambda s: f"postgresql://{USER}:%zz{PASSWORD}@x", "no connection string"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_errors_are_told_at_once_and_do_not_say_where_the_server_is(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, memory = running_server(), place(tmp_path)
    dsn, says = FAILURES[name]
    monkeypatch.setenv(DSN, dsn(server))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("what does not pass waits"))
    with caplog.at_level(logging.DEBUG, "psycopg"), pytest.raises(StoreError, match=says) as caught:
        open_store(memory, WHO)
    assert_hidden(server, *told_by(caught.value), caplog.text)
    assert_hidden(server, run_test("memory server", check_server))


def test_what_works_does_not_say_it_either(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server, spaces = running_server(), TOY_GRID.spaces
    config, memory_place = MemoryConfig(context_len=4, top_l=5), place(tmp_path)
    with caplog.at_level(logging.DEBUG, "psycopg"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        memory = Memory(toy_embedder(spaces), spaces, config).at(memory_place)
        memory.write(some_trajectories(TOY_GRID))
        shown = [repr(memory.store), memory.store.place, repr(memory.store.server._address)]  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match="not sent to other processes") as caught:
            ForkingPickler.dumps(memory.store.server._address)  # type: ignore[attr-defined]
        memory.save(tmp_path / "saved")
        del memory  # not closed
        gc.collect()
    assert [str(each.message) for each in warned if each.category is ResourceWarning] == []
    assert "connection" in caplog.text
    assert_hidden(server, caplog.text, *shown, *told_by(caught.value))
    assert_hidden(server, (tmp_path / "saved").read_bytes().decode("latin-1"))
    greeted = run_test("memory server", check_server)
    assert greeted["works"]
    assert greeted["detail"].startswith("PostgreSQL 16")
    assert main(["config", "show", "dark-room-10x10"]) == 0
    stored = json.dumps([preset("dark-room-10x10").to_json(), machine(), _shared_environment()])
    assert_hidden(server, greeted, capsys.readouterr(), stored)


def test_libpqs_own_variables_work_and_are_hidden_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, memory = running_server(), place(tmp_path)
    monkeypatch.delenv(DSN)
    assert "none is named" in check_server()
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:{USER}:{PASSWORD.replace(':', chr(92) + ':')}\n")
    passwords.chmod(0o600)
    for name, value in {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": USER,
        "PGDATABASE": DATABASE,
        "PGPASSFILE": str(passwords),
    }.items():
        monkeypatch.setenv(name, value)
    open_store(memory, WHO).close()
    monkeypatch.setenv("PGDATABASE", "postgres")
    with pytest.raises(StoreError, match="permission denied") as caught:
        open_store(memory, WHO)
    assert_hidden(server, *told_by(caught.value))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(StoreError, match="asks for a password and got none"):
        open_store(memory, WHO)
