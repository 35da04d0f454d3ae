"""Work on a folder that can be done over again, for the tests that break it off."""

from __future__ import annotations

import resource
import signal
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from radt.memory.entries import stack
from radt.memory.folder.rewrite import compact
from radt.memory.folder.store import FolderStore
from radt.memory.identity import MemoryFileError
from radt.memory.store import NewEntries
from radt.trajectory import Trajectory
from tests.contracts.store import assert_same_steps
from tests.memory.stores import contents, identity, keys_of, write
from tests.toys import TOY_GRID

WHO = identity(TOY_GRID.spaces)
FORGET, COMPACT = 7, 23  # every so many operations


def trajectory(number: int) -> Trajectory:
    """Make up the trajectory that operation `number` writes."""
    rng = np.random.default_rng(number)
    length = int(rng.integers(1, 13))
    return Trajectory(
        states=rng.integers(0, (3, 4), (length, 2)).astype(np.uint8),
        actions=rng.integers(0, 5, length).astype(np.uint8),
        rewards=rng.integers(0, 2, length).astype(np.float32),
        task=number % 3,
        episode=number,
    )


def operate(store: FolderStore, number: int) -> FolderStore:
    """Do operation `number`: mostly write, sometimes forget, rarely compact; each is one write."""
    if number % COMPACT == COMPACT - 1:
        store.close()
        compact(store.folder)
        return FolderStore(store.folder, WHO, writing=True)
    if number % FORGET == FORGET - 1:
        store.keep(store.entries.age > number - 2 * FORGET)
    else:
        write(store, [trajectory(number)], WHO)
    return store


def alive(operations: int) -> list[int]:
    """List the trajectories that a store holds after so many operations."""
    left: list[int] = []
    for number in range(operations):
        if number % COMPACT == COMPACT - 1:
            continue
        if number % FORGET == FORGET - 1:
            left = [age for age in left if age > number - 2 * FORGET]
        else:
            left.append(number)
    return left


def assert_true(found: NewEntries) -> None:
    """Every entry is what was written, whichever they are."""
    entries = found.entries
    lived = [trajectory(int(age)) for age in entries.age]
    pieces = [
        t.cut(int(start), int(stop))
        for t, start, stop in zip(lived, entries.start, entries.stop, strict=True)
    ]
    assert entries.task.tolist() == [t.task for t in lived]
    assert entries.total_return.tolist() == [t.total_return for t in lived]
    assert torch.equal(found.keys, keys_of(entries))
    assert_same_steps(found.chunks, stack(pieces, TOY_GRID.spaces, 8))


def assert_holds(store: FolderStore, operations: int) -> None:
    """A store holds what so many operations leave, and nothing else."""
    found = contents(store)
    assert_true(found)
    expected = [
        (age, position)
        for age in alive(operations)
        for position in range(0, len(trajectory(age)), 4)
    ]
    pairs = zip(found.entries.age.tolist(), found.entries.position.tolist(), strict=True)
    assert list(pairs) == expected


def operate_for_ever(folder: Path, told: Connection) -> None:
    """Go on where the folder is, and tell the number of writes after each that is acknowledged."""
    store = FolderStore(folder, WHO, writing=True)
    told.send_bytes(str(store.state.writes).encode())
    while True:
        store = operate(store, store.state.writes)
        told.send_bytes(str(store.state.writes).encode())


def fill_the_disk(folder: Path, told: Connection) -> None:
    """Write until no file may grow any more, and tell how many writes were acknowledged."""
    store = FolderStore(folder, WHO, writing=True)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    most = max(path.stat().st_size for path in folder.iterdir()) + 200_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        while True:
            write(store, [trajectory(store.state.writes)], WHO)
    except MemoryFileError as error:
        told.send_bytes(f"{store.state.writes} {error}".encode())


def follow(folder: Path, entries: int, told: Connection) -> None:
    """Read along until there are so many entries; all that is ever seen must be true."""
    with closing(FolderStore(folder, WHO, writing=False)) as store:
        seen, looks = 0, 0
        told.send_bytes(b"ready")
        while seen < entries:
            store.refresh()
            assert len(store.entries) >= seen
            fresh = torch.arange(seen, len(store.entries))[:, None]
            rows = store.entries.rows(fresh.flatten())
            assert_true(NewEntries(rows, store.keys[seen:], store.chunks(fresh)))
            seen, looks = len(store.entries), looks + 1
        told.send_bytes(str(looks).encode())
