"""Full disks, and a process that reads beside one that writes: nothing acknowledged is lost."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from radt.memory.folder.store import FolderStore
from radt.memory.folder.verify import verify
from radt.memory.identity import MemoryFileError
from tests.memory import faults
from tests.memory.conftest import Tally
from tests.memory.faults import WHO, assert_true, trajectory
from tests.memory.stores import contents, write

WRITES = [pytest.param(4, id="short"), pytest.param(40, id="long", marks=pytest.mark.long)]

processes = multiprocessing.get_context("forkserver")  # imports once, not at every start
processes.set_forkserver_preload(["tests.memory.faults"])


def start(work: Callable[..., None], *arguments: object) -> tuple[Connection, object]:
    """Start work in a process of its own; return what it says, and the process."""
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=work, args=(*arguments, sender))
    process.start()
    sender.close()
    return receiver, process


def last_word(receiver: Connection) -> str:
    """Read all that was said before the other end closed."""
    said = b""
    while True:
        try:
            said = receiver.recv_bytes()
        except EOFError:
            return said.decode()


def test_a_full_database_keeps_what_it_has(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, WHO, writing=True)
    run = store.database.connection.execute
    run("PRAGMA max_page_count = 12")

    def write_on() -> None:
        while True:
            write(store, [trajectory(store.state.writes)], WHO)

    with pytest.raises(MemoryFileError, match=r"nothing of this write was kept.*Free some space"):
        write_on()
    writes = store.state.writes
    assert writes > 10
    assert_true(contents(store))
    assert store.entries.age.unique().tolist() == list(range(writes))
    run("PRAGMA max_page_count = 1000000")
    write(store, [trajectory(writes)], WHO)
    assert store.entries.age.unique().tolist() == list(range(writes + 1))
    store.close()
    assert verify(tmp_path).is_sound


def test_a_full_disk_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    receiver, process = start(faults.fill_the_disk, tmp_path)
    writes, _, error = last_word(receiver).partition(" ")
    process.join()
    assert process.exitcode == 0
    assert "could not be written" in error
    with closing(FolderStore(tmp_path, WHO, writing=True)) as store:
        assert store.state.writes == int(writes) > 10
        assert_true(contents(store))
        write(store, [trajectory(0)], WHO)
    assert verify(tmp_path).is_sound


@pytest.mark.parametrize("writes", WRITES)
def test_one_process_writes_and_one_reads(writes: int, tmp_path: Path, tally: Tally) -> None:
    store = FolderStore(tmp_path, WHO, writing=True)
    total = sum(-(-len(trajectory(n)) // 4) for n in range(10 * writes))
    receiver, process = start(faults.follow, tmp_path, total)
    assert receiver.recv_bytes() == b"ready"
    for number in range(10 * writes):
        write(store, [trajectory(number)], WHO)
    looks = int(last_word(receiver))
    process.join()
    store.close()
    assert process.exitcode == 0
    tally({"writes by one process": 10 * writes, "looks by another": looks, "wrong answers": 0})
