"""Servers that stop, crash, freeze and lose connections: nothing acknowledged is lost."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from radt.memory.identity import StoreError
from radt.memory.store import open_store
from tests.memory.conftest import Tally
from tests.memory.faults import WHO
from tests.memory.postgres import DATABASE, USER, TestServer, needs_server, place, running_server
from tests.memory.stores import contents, some_trajectories, write
from tests.memory.test_faults import start
from tests.memory.test_fleet_faults import PATIENT, act, assert_written, lived, wait_for
from tests.toys import TOY_GRID

pytestmark = needs_server
LIVED = some_trajectories(TOY_GRID)
RESTARTS = [pytest.param(2, id="two"), pytest.param(20, id="twenty", marks=pytest.mark.long)]


@pytest.fixture
def server() -> Iterator[TestServer]:
    """The server of all tests, running again after this one."""
    server = running_server()
    yield server
    server.wait()


def opened(folder: Path, **seconds: float) -> Any:
    """Open a memory as a client with some patience."""
    from radt.memory.postgres.server import Patience
    from radt.memory.postgres.store import PostgresStore

    name = place(folder).removeprefix("postgres:")
    return PostgresStore(name, WHO, True, Patience(**seconds))


@contextmanager
def hurried(store: Any, **seconds: float) -> Iterator[None]:
    """Let a client that is at work not wait long."""
    server, patient = store.server, store.server.patience
    server.close()  # the next connection knows
    server.patience = replace(patient, **{"total": 0.4, **seconds})
    yield
    server.close()
    server.patience = patient


def break_commits(patch: pytest.MonkeyPatch, before: bool, times: int = 1) -> Counter[str]:
    """Lose the connection some times, right before or right after a commit."""
    import psycopg

    from radt.memory.postgres.server import Connection

    real, seen = Connection.execute, Counter[str]()

    def execute(self: Connection, query: Any, *rest: Any, **named: Any) -> Any:
        seen[str(query)] += 1
        if query != "COMMIT" or seen["COMMIT"] > times:
            return real(self, query, *rest, **named)
        if not before:
            real(self, query, *rest, **named)
        self.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    patch.setattr(Connection, "execute", execute)
    return seen


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_write_whose_commit_was_not_answered_is_done_once(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(place(tmp_path), WHO)) as store:
        write(store, LIVED[:1], WHO)
        with monkeypatch.context() as patch:
            seen = break_commits(patch, before)
            write(store, LIVED[1:2], WHO)
        assert seen["COMMIT"] == 2
        assert store.entries.episode.unique().tolist() == [0, 1]
        with monkeypatch.context() as patch:
            break_commits(patch, before)
            store.keep(store.entries.episode == 0)
        write(store, LIVED[2:], WHO)
        assert store.entries.episode.unique().tolist() == [0, 2, 3]
        with closing(open_store(place(tmp_path), WHO, writing=False)) as again:
            assert torch.equal(again.numbers, store.numbers)


def test_a_commit_that_is_never_answered_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(tmp_path)) as store:
        with monkeypatch.context() as patch, hurried(store):
            break_commits(patch, before=False, times=1000)
            with pytest.raises(StoreError, match="whether this write was kept is not known"):
                write(store, LIVED[:1], WHO)
        assert len(store.entries) == 0
        store.refresh()
        assert store.entries.episode.unique().tolist() == [0]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_a_restart_is_not_noticed(how: signal.Signals, tmp_path: Path, server: TestServer) -> None:
    with closing(open_store(place(tmp_path), WHO)) as store:
        work: list[Callable[[], object]] = [
            lambda: write(store, LIVED, WHO),
            lambda: store.search(torch.ones(1, 6), 3, torch.tensor([1])),
            lambda: store.chunks(torch.tensor([[1]])),
            store.refresh,
            lambda: store.keep(store.entries.task == 1),
        ]
        for number, each in enumerate(work):
            server.restart(how) if number == 0 else server.drop_connections()
            each()
        assert set(store.entries.task.tolist()) == {1}


def test_a_server_that_stays_away_is_an_error_that_says_what_to_do(
    tmp_path: Path, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(tmp_path)) as store:
        write(store, LIVED[:1], WHO)
        server.stop()
        try:
            for work in (store.refresh, lambda: write(store, LIVED[1:], WHO)):
                says = (
                    r"failed \d+ times in \d+ s: nobody listens at the address. Next: check RADT_"
                )
                with hurried(store), pytest.raises(StoreError, match=says):
                    work()
        finally:
            server.start()
        with monkeypatch.context() as patch:
            patch.setenv("RADT_MEMORY_DSN", "host=nobody.invalid")
            with pytest.raises(StoreError, match="the name of its host is not known"):
                opened(tmp_path, total=0.4)
        assert len(store.entries) == 3
        write(store, LIVED[1:], WHO)
        assert store.episodes == 4


def test_a_server_that_says_nothing_is_not_waited_for(tmp_path: Path, server: TestServer) -> None:
    """Its machine answers and its connections stay open, but nothing comes."""
    with closing(opened(tmp_path)) as store:
        write(store, LIVED[:1], WHO)
        with hurried(store, answer=1.0, connect=1.0):
            store.refresh()
            server.freeze()
            try:
                with pytest.raises(StoreError, match="did not answer in time"):
                    store.search(torch.ones(1, 6), 3)
            finally:
                server.thaw()
        write(store, LIVED[1:], WHO)
        assert store.episodes == 4


def test_a_writer_that_holds_the_others_up_is_waited_for_but_not_for_ever(
    tmp_path: Path, server: TestServer
) -> None:
    import psycopg

    with closing(opened(tmp_path)) as store:
        schema = f'"{store.server.schema}"'
        with psycopg.connect(server.dsn()) as other:
            other.execute(f"SELECT * FROM {schema}.about FOR UPDATE")
            says = r"lock timeout \(LockNotAvailable, 55P03\)"
            with hurried(store, answer=1.0), pytest.raises(StoreError, match=says):
                write(store, LIVED, WHO)
            store.refresh()  # readers do not wait for writers
        write(store, LIVED, WHO)
        says = r"statement timeout \(QueryCanceled, 57014\)"
        with hurried(store, answer=0.5), pytest.raises(StoreError, match=says):
            store.server.run(lambda session: session.execute("SELECT pg_sleep(9)"))


def test_an_old_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running_server()
    monkeypatch.setattr("radt.memory.postgres.server.OLDEST", 99)
    with pytest.raises(StoreError, match="the server is PostgreSQL 16; 99 or newer is needed"):
        opened(tmp_path)


def test_writes_are_on_the_disk_also_where_the_server_does_not_wait_for_it(
    tmp_path: Path, server: TestServer
) -> None:
    server.admin(f"ALTER ROLE {USER} IN DATABASE {DATABASE} SET synchronous_commit = off")
    try:
        with closing(opened(tmp_path)) as store:
            shown = store.server.run(lambda session: session.execute("SHOW synchronous_commit"))
            assert shown.fetchone() == ("on",)
    finally:
        server.admin(f"ALTER ROLE {USER} IN DATABASE {DATABASE} RESET synchronous_commit")


def test_another_memory_in_its_place_is_noticed(tmp_path: Path, server: TestServer) -> None:
    with closing(opened(tmp_path)) as store:
        write(store, LIVED, WHO)
        server.admin(f'DROP SCHEMA "{store.server.schema}" CASCADE')
        opened(tmp_path).close()
        for use in (store.refresh, lambda: write(store, LIVED, WHO)):
            with pytest.raises(StoreError, match="holds 0 writes and held 1 before"):
                use()


@pytest.mark.parametrize("restarts", RESTARTS)
def test_two_writing_processes_and_restarts(
    restarts: int, tmp_path: Path, server: TestServer, tally: Tally
) -> None:
    count = 10 * restarts
    jobs: list[Any] = [
        start(act, place(tmp_path), server.dsn(), client, count) for client in (0, 1)
    ]
    for number in range(restarts):
        for receiver, _ in jobs:
            wait_for(receiver, 10 * number + 5)
        server.restart(signal.SIGQUIT if number % 2 else signal.SIGINT)
    for receiver, process in jobs:
        wait_for(receiver, count)
        process.join(PATIENT)
        assert process.exitcode == 0
    with closing(open_store(place(tmp_path), WHO, writing=False)) as store:
        found = contents(store)
    assert_written(found, [lived(client, n) for client in (0, 1) for n in range(count)])
    tally(
        {
            "writing processes": len(jobs),
            "restarts of the server": restarts,
            "acknowledged writes": 2 * count,
            "acknowledged writes lost": 0,
            "written twice": 0,
        }
    )
