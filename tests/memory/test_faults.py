"""Mutilated files, full disks, threads and processes: nothing acknowledged is lost."""

from __future__ import annotations

import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from radt.memory.folder.store import FolderStore
from radt.memory.folder.verify import repair, verify
from radt.memory.identity import MemoryFileError
from tests.memory import faults
from tests.memory.conftest import Tally
from tests.memory.faults import WHO, assert_holds, assert_true, operate, trajectory
from tests.memory.stores import contents, write

FILES = [pytest.param(100, id="100"), pytest.param(1000, id="1000", marks=pytest.mark.long)]
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


def whole_folder(folder: Path) -> int:
    """Make a folder as a killed writer leaves it, with a log, and return its writes."""
    store = FolderStore(folder / "open", WHO, writing=True)
    while store.state.writes < 2 * faults.COMPACT + 20:
        store = operate(store, store.state.writes)
    shutil.copytree(folder / "open", folder / "whole")
    store.close()
    return store.state.writes


def mutate(path: Path, rng: np.random.Generator) -> str:
    """Change a file in some way and say in which."""
    content = np.frombuffer(path.read_bytes(), np.uint8).copy()
    size = max(1, len(content))
    place = int(rng.integers(size))
    kind = str(rng.choice(["cut", "bit", "bits", "zeros", "noise", "gone", "tail", "swap"]))
    if kind == "gone":
        path.unlink()
        return kind
    if kind == "cut" or not len(content):
        content = content[:place]
    elif kind == "bit":
        content[place] ^= 1 << int(rng.integers(8))
    elif kind == "bits":
        content[rng.integers(size, size=20)] ^= rng.integers(1, 256, 20).astype(np.uint8)
    elif kind == "zeros":
        content[place : place + 8192] = 0
    elif kind == "noise":
        span = content[place : place + int(rng.integers(1, 8192))]
        span[:] = rng.integers(0, 256, len(span))
    elif kind == "tail":
        content = np.concatenate([content, rng.integers(0, 256, 5000).astype(np.uint8)])
    elif size >= 2 * 8192:
        one, other = (8192 * int(page) for page in rng.integers(size // 8192, size=2))
        first, second = content[one : one + 8192].copy(), content[other : other + 8192].copy()
        content[one : one + 8192], content[other : other + 8192] = second, first
    path.write_bytes(content.tobytes())
    return kind


def look(folder: Path, writes: int) -> bool:
    """Return whether a folder still gives all that was written; anything else is an error."""
    try:
        with closing(FolderStore(folder, WHO, writing=False)) as store:
            assert_holds(store, writes)
        return True
    except MemoryFileError as error:
        told = str(error)
    assert "radt memory" in told  # what to do next
    return False


def mend(folder: Path, writes: int, total: int) -> str:
    """Repair a folder; what it gives afterwards is true, and the rest was said to be lost."""
    try:
        done = repair(folder)
    except MemoryFileError:
        return "hopeless"
    assert verify(folder).is_sound
    with closing(FolderStore(folder, WHO, writing=True)) as store:
        found = contents(store)
        assert_true(found)
        assert len(found) == done.kept
        assert done.missing_writes or done.kept <= total <= done.kept + len(done.lost)
        write(store, [trajectory(1000)], WHO)
    if done.kept == total and not done.lost:
        return "saved whole"
    return "saved in part"


@pytest.mark.parametrize("files", FILES)
def test_mutated_files(files: int, tmp_path: Path, tally: Tally) -> None:
    writes = whole_folder(tmp_path)
    (path,) = (tmp_path / "whole").glob("*.sqlite3")
    names = [path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.stem}.json", "acknowledged"]
    shares = [0.45, 0.3, 0.05, 0.05, 0.15]
    shutil.copytree(tmp_path / "whole", tmp_path / "try")
    with closing(FolderStore(tmp_path / "try", WHO, writing=True)) as store:
        assert_holds(store, writes)
        total = len(store.entries)
    rng, counts = np.random.default_rng(files), Counter[str]()
    for _ in range(files):
        shutil.rmtree(tmp_path / "try")
        shutil.copytree(tmp_path / "whole", tmp_path / "try")
        kind = mutate(tmp_path / "try" / str(rng.choice(names, p=shares)), rng)
        if look(tmp_path / "try", writes):
            counts["harmless"] += 1
        else:
            counts["refused"] += 1
            outcome = mend(tmp_path / "try", writes, total)
            counts["deleted" if (kind, outcome) == ("gone", "hopeless") else outcome] += 1
    assert counts["harmless"]
    saved, damaged = counts["saved whole"] + counts["saved in part"], counts["refused"]
    assert saved > 0.95 * (damaged - counts["deleted"])
    tally({"mutated or truncated files": files, "wrong answers": 0, **dict(sorted(counts.items()))})


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
