"""What a memory costs on a server: bytes on its disk, and milliseconds of writes and searches.

The server is the one that $RADT_MEMORY_DSN names. Tasks of different sizes are written to a memory
that is removed afterwards; then trials are added one by one, and every task is searched. Keys are
made up: an exact search takes as long whatever they are.

    python -m radt.bench.memory_server --out results/memory/server.json
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from radt.bench.memory import Search, taking_turns
from radt.bench.memory_keys import K
from radt.experiments.provenance import machine
from radt.files import atomic_write
from radt.loading import load, shipped
from radt.memory.entries import Entries, blank
from radt.memory.memory import Memory
from radt.memory.postgres import open_postgres
from radt.memory.store import NewEntries
from radt.version import code_version

if TYPE_CHECKING:
    from radt.memory.postgres.store import PostgresStore

AT_ONCE = 4096  # entries that are written together while a memory is filled
PER_TRIAL = 2  # entries of a trial of 2C steps


@dataclass(frozen=True)
class ServerArguments:
    """What is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)  # entries of each task
    reads: int = 200  # searches of each task, and trials that are written
    out: Path = Path("results/memory/server.json")


def measure_server(like: Memory, arguments: ServerArguments) -> dict[str, Any]:
    """Fill a memory on the server, write to it and search it."""
    with memory_for_a_while(like) as (memory, store):
        for task, size in enumerate(arguments.sizes):
            for start in range(0, size, AT_ONCE):
                memory.add(made_up(memory, task, min(AT_ONCE, size - start)))
        entries = len(memory)
        disk, settings = disk_bytes(store), server_settings(store)
        searched = [
            search_cost(memory, task, size, arguments.reads)
            for task, size in enumerate(arguments.sizes)
        ]
        ids = torch.from_numpy(
            np.random.default_rng(0).integers(entries, size=(arguments.reads, 1, 1))
        )
        read = _p50(lambda at: memory.chunks(ids[at]), arguments.reads)
        trial = made_up(memory, len(arguments.sizes), PER_TRIAL)
        written = _p50(lambda at: memory.add(trial), arguments.reads)
        begun = time.perf_counter()
        memory.at(memory.store.place, writing=False).close()
        opened = time.perf_counter() - begun
    return {
        "entries": entries,
        "key_width": like.embedder.width,
        "disk_bytes_per_entry": disk / entries,
        "search_in_task": searched,
        "read_chunk_p50_ms": read,
        "write_trial_p50_ms": written,
        "entries_per_trial": PER_TRIAL,
        "open_seconds": opened,
        **settings,
    }


def disk_bytes(store: PostgresStore) -> int:
    """Ask the server how much room a memory takes."""
    from radt.memory.postgres import tables

    return store.server.run(lambda connection: tables.size(connection, store.server.schema))


def server_settings(store: PostgresStore) -> dict[str, str]:
    """Ask the server what it is, and whether it waits for its disk."""
    asked = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'server_version')"
    return dict(store.server.run(lambda connection: connection.execute(asked).fetchall()))


@contextmanager
def memory_for_a_while(like: Memory) -> Iterator[tuple[Memory, PostgresStore]]:
    """Make a memory on the server and remove it with all that is in it."""
    from psycopg import sql

    store = open_postgres(f"bench-{uuid.uuid4().hex[:12]}", like.identity(), writing=True)
    with Memory(like.embedder, like.spaces, like.config, store) as memory:
        try:
            yield memory, store
        finally:
            remove = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(store.server.schema))
            store.server.run(lambda connection: connection.execute(remove))


def made_up(memory: Memory, task: int, count: int) -> NewEntries:
    """Make up entries of one new episode of a task, with whole chunks."""
    context_len, zero = memory.config.context_len, torch.zeros(count, dtype=torch.int64)
    first = memory.store.episodes
    noise = torch.randn(
        count, memory.embedder.width, generator=torch.Generator().manual_seed(first)
    )
    entries = Entries(
        task=zero + task,
        episode=zero + first,
        age=zero,
        position=zero + context_len,
        start=zero,
        stop=zero + 2 * context_len,
        total_return=zero.float(),
    )
    return NewEntries(entries, noise, blank(memory.spaces, count, 2 * context_len))


def search_cost(memory: Memory, task: int, size: int, reads: int) -> dict[str, Any]:
    """Time exact searches in one task."""
    noise, own = torch.randn(reads, 1, memory.embedder.width), torch.tensor([task])
    spent = _milliseconds(lambda at: memory.search(noise[at], K, own), reads)
    p50, p99 = (float(np.quantile(spent, share)) for share in (0.5, 0.99))
    return {"entries": size, "p50_ms": p50, "p99_ms": p99}


def _p50(action: Search, count: int) -> float:
    return float(np.quantile(_milliseconds(action, count), 0.5))


def _milliseconds(action: Search, count: int) -> NDArray[np.float64]:
    return taking_turns({"": action}, count)[""]


if __name__ == "__main__":
    arguments = tyro.cli(ServerArguments)
    measured = measure_server(load(shipped()).memory(), arguments)
    record = {**measured, "code_version": code_version(), "machine": machine()}
    content = json.dumps(record, allow_nan=False, indent=1)
    atomic_write(arguments.out, f"{content}\n".encode())
    print(content)
