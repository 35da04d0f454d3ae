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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import tyro

from radt.bench.memory_filled import K
from radt.bench.memory_reads import Search, milliseconds
from radt.experiments.provenance import machine
from radt.files import atomic_write
from radt.loading import load, shipped
from radt.memory.chunks import blank
from radt.memory.entries import Entries
from radt.memory.memory import Memory
from radt.memory.postgres import open_postgres
from radt.memory.store import NewEntries
from radt.version import code_version

if TYPE_CHECKING:
    from radt.memory.postgres.store import PostgresStore

AT_ONCE = 4096  # entries that are written together while a memory is filled
PER_TRIAL = 2  # entries of a trial of 2C steps


@dataclass(frozen=True)
class Ask:
    """What is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)  # entries of each task
    reads: int = 200  # searches of each task, and trials that are written
    out: Path = Path("results/memory/server.json")


@dataclass(frozen=True)
class TaskCost:
    """What one exact search in a task takes."""

    entries: int  # of the task
    p50_ms: float
    p99_ms: float


def measure_server(like: Memory, ask: Ask) -> dict[str, Any]:
    """Fill a memory on the server, write to it and search it."""
    with memory_for_a_while(like) as (memory, store):
        for task, size in enumerate(ask.sizes):
            for start in range(0, size, AT_ONCE):
                memory.add(made_up(memory, task, min(AT_ONCE, size - start)))
        entries = len(memory)
        disk, settings = disk_bytes(store), server_settings(store)
        searched = [search_cost(memory, task, size, ask) for task, size in enumerate(ask.sizes)]
        ids = torch.from_numpy(np.random.default_rng(0).integers(entries, size=(ask.reads, 1, 1)))
        read = _middle(lambda at: memory.chunks(ids[at]), ask.reads)
        trial = made_up(memory, len(ask.sizes), PER_TRIAL)
        written = _middle(lambda at: memory.add(trial), ask.reads)
        begun = time.perf_counter()
        memory.at(memory.store.place, writing=False).close()
        opened = time.perf_counter() - begun
    return {
        "entries": entries,
        "key_width": like.embedder.width,
        "disk_bytes_per_entry": disk / entries,
        "search_in_task": [asdict(cost) for cost in searched],
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


def search_cost(memory: Memory, task: int, size: int, ask: Ask) -> TaskCost:
    """Time exact searches in one task."""
    noise = torch.randn(ask.reads, 1, memory.embedder.width)
    own = torch.tensor([task])
    spent = milliseconds(lambda at: memory.search(noise[at], K, own), ask.reads)
    return TaskCost(size, float(np.quantile(spent, 0.5)), float(np.quantile(spent, 0.99)))


def _middle(action: Search, count: int) -> float:
    return float(np.quantile(milliseconds(action, count), 0.5))


def main(ask: Ask) -> None:
    """Measure and write the record."""
    measured = measure_server(load(shipped()).memory(), ask)
    record = {**measured, "code_version": code_version(), "machine": machine()}
    content = json.dumps(record, allow_nan=False, indent=1)
    atomic_write(ask.out, f"{content}\n".encode())
    print(content)


if __name__ == "__main__":
    main(tyro.cli(Ask))
