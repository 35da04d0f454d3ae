"""A fleet on one memory, of which members are killed: nothing acknowledged is lost, all go on."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.memory.store import NewEntries, open_store
from radt.trajectory import Trajectory
from tests.memory import postgres
from tests.memory.conftest import Tally
from tests.memory.faults import WHO, assert_true, trajectory
from tests.memory.stores import contents, place_of, write
from tests.memory.test_faults import last_word, start

MEMBERS, KILLED = 8, (2, 5)
PATIENT = 300  # seconds after which a test gives up on its processes
KINDS = (
    "shared-folder",
    "copy:shared-folder",
    pytest.param("postgres", marks=postgres.needs_server),
)
WRITES = [pytest.param(8, id="eight"), pytest.param(80, id="eighty", marks=pytest.mark.long)]


def lived(member: int, number: int) -> Trajectory:
    """Make up what a member writes; its age tells everything about it."""
    return trajectory(MEMBERS * number + member)


def act(place: str, dsn: str | None, member: int, count: int, told: Connection) -> None:
    """See what others have written, write, and tell of each write that is acknowledged."""
    if dsn is not None:
        os.environ["RADT_MEMORY_DSN"] = dsn
    with closing(open_store(place, WHO)) as store:
        for number in range(count):
            seen = len(store.entries)
            store.refresh()
            assert len(store.entries) >= seen
            write(store, [lived(member, number)], WHO)
            told.send_bytes(str(number + 1).encode())
        if member in KILLED:
            signal.pause()  # however late the kill is, it comes before the end


def wait_for(receiver: Connection, number: int) -> int:
    """Wait until a member has written so often, and return how often it has."""
    told = 0
    while told < number:
        assert receiver.poll(PATIENT), "a member hangs"
        told = int(receiver.recv_bytes())
    return told


def assert_written(found: NewEntries, written: Sequence[Trajectory]) -> None:
    """A memory holds what was written, each of them once."""
    steps = {one.episode: -(-len(one) // WHO.context_len) for one in written}
    assert Counter(found.entries.age.tolist()) == steps
    assert len(found.entries.episode.unique()) == len(written)
    assert_true(found)


@pytest.mark.parametrize("count", WRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_members_are_killed(kind: str, count: int, tmp_path: Path, tally: Tally) -> None:
    place, rng = place_of(kind, tmp_path / "memory"), np.random.default_rng(count)
    dsn = postgres.running_server().dsn() if kind == "postgres" else None
    started: list[Any] = [start(act, place, dsn, member, count) for member in range(MEMBERS)]
    least = [0] * MEMBERS  # writes that were acknowledged
    for member in KILLED:
        receiver, process = started[member]
        least[member] = wait_for(receiver, int(rng.integers(1, count // 2)))
        time.sleep(0.02 * rng.random())
        os.kill(process.pid, signal.SIGKILL)
    least = [int(last_word(each) or n) for n, (each, _) in zip(least, started, strict=True)]
    for _, process in started:
        process.join(PATIENT)
    codes = [process.exitcode for _, process in started]
    assert codes == [-signal.SIGKILL if n in KILLED else 0 for n in range(MEMBERS)]
    with closing(open_store(place, WHO, writing=False)) as store:
        found = contents(store)
    there = [
        [number for number in range(count) if lived(member, number).episode in found.entries.age]
        for member in range(MEMBERS)
    ]
    for member, numbers in enumerate(there):  # the last may be whole before it is acknowledged
        assert numbers in (list(range(least[member])), list(range(least[member] + 1)))
    written = [lived(member, number) for member, numbers in enumerate(there) for number in numbers]
    assert_written(found, written)
    tally(
        {
            "members": MEMBERS,
            "killed": len(KILLED),
            "acknowledged writes": sum(least),
            "acknowledged writes lost": 0,
            "written twice": 0,
        }
    )
