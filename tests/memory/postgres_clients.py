"""What clients of a memory server do in processes of their own."""

from __future__ import annotations

import os
from contextlib import closing
from multiprocessing.connection import Connection

import torch

from radt.memory.index import FlatIndex
from radt.memory.store import Store, open_store
from radt.trajectory import Trajectory
from tests.memory.faults import WHO, trajectory
from tests.memory.stores import WIDTH, write

PATIENT = 300  # seconds after which a test gives up on its processes


def lived(client: int, number: int) -> Trajectory:
    """Make up what a client writes; its age tells everything about it."""
    return trajectory(2 * number + client)


def write_some(place: str, dsn: str, client: int, count: int, told: Connection) -> None:
    """Write, and tell of each write that is acknowledged; look now and then what is there."""
    os.environ["RADT_MEMORY_DSN"] = dsn
    with closing(open_store(place, WHO)) as store:
        for number in range(count):
            write(store, [lived(client, number)], WHO)
            told.send_bytes(str(number).encode())
            if number % 5 == 4:
                check_answers(store)


def check_answers(store: Store) -> None:
    """All that is found is what an exact search in the same entries finds."""
    exact = FlatIndex(WIDTH)
    exact.add(store.keys, store.entries.task)
    queries = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
    asked = torch.tensor([0, 1, 2])
    theirs, ours = (index.search(queries, 4, asked) for index in (store, exact))
    torch.testing.assert_close(theirs[0], ours[0], rtol=0, atol=1e-4)
