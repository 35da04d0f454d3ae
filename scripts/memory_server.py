"""What a memory costs on a server: bytes on its disk, and milliseconds of writes and searches.

The server is the one that $RADT_MEMORY_DSN names. Tasks of different sizes are written to a memory
that is removed afterwards; then trials are added one by one, and every task is searched. Keys are
made up: an exact search takes as long whatever they are.

    python scripts/memory_server.py --out results/memory/server.json
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import tyro
from torch import Tensor

from radt.bench.common import with_provenance
from radt.bench.memory import K, Search, take_turns
from radt.files import atomic_write
from radt.loading import load, shipped
from radt.memory.entries import Entries, blank
from radt.memory.memory import Memory
from radt.memory.postgres import open_postgres
from radt.memory.store import NewEntries

AT_ONCE = 4096  # entries that are written together while a memory is filled
PER_TRIAL = 2  # entries of a trial of 2C steps
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'server_version')"


@dataclass(frozen=True)
class ServerArguments:
    """What is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)  # entries of each task
    reads: int = 200  # searches of each task, and trials that are written
    out: Path = Path("results/memory/server.json")


def measure_server(like: Memory, arguments: ServerArguments) -> dict[str, Any]:
    """Make a memory on the server, measure it, and remove it with all that is in it."""
    from psycopg import sql

    store = open_postgres(f"bench-{uuid.uuid4().hex[:12]}", like.identity(), writing=True)
    with Memory(like.embedder, like.spaces, like.config, store) as memory:
        try:
            return measure_memory(memory, store.server, arguments)
        finally:
            remove = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(store.server.schema))
            store.server.run(lambda connection: connection.execute(remove))


def measure_memory(memory: Memory, server: Any, arguments: ServerArguments) -> dict[str, Any]:
    """Fill a memory on the server, write to it and search it."""
    from radt.memory.postgres import tables

    sizes, reads = arguments.sizes, arguments.reads
    for task, size in enumerate(sizes):
        for start in range(0, size, AT_ONCE):
            memory.add(made_up(memory, task, min(AT_ONCE, size - start)))
    entries = len(memory)
    disk = server.run(lambda connection: tables.size(connection, server.schema))
    settings = server.run(lambda connection: connection.execute(SETTINGS).fetchall())
    queries = torch.randn(reads, 1, memory.embedder.width)
    searched = [
        {"entries": size, **_times(search_within(memory, task, queries), reads)}
        for task, size in enumerate(sizes)
    ]
    ids = torch.from_numpy(np.random.default_rng(0).integers(entries, size=(reads, 1, 1)))
    read = _times(lambda at: memory.chunks(ids[at]), reads)
    trial = made_up(memory, len(sizes), PER_TRIAL)
    written = _times(lambda at: memory.add(trial), reads)
    begun = time.perf_counter()
    memory.at(memory.store.place, writing=False).close()
    return {
        "open_seconds": time.perf_counter() - begun,
        "entries": entries,
        "key_width": memory.embedder.width,
        "disk_bytes_per_entry": disk / entries,
        "search_in_task": searched,
        "read_chunk_p50_ms": read["p50_ms"],
        "write_trial_p50_ms": written["p50_ms"],
        "entries_per_trial": PER_TRIAL,
        **dict(settings),
    }


def search_within(memory: Memory, task: int, queries: Tensor) -> Search:
    """Return a search of one task by the server, told for which of the queries [Q, 1, d]."""
    own, store = torch.tensor([task]), cast(Any, memory.store)
    return lambda at: store.search_there(queries[at], K, own)


def made_up(memory: Memory, task: int, count: int) -> NewEntries:
    """Make up entries of one new episode of a task, with whole chunks."""
    steps, zero = memory.config.halves.chunk_len, torch.zeros(count, dtype=torch.int64)
    first = memory.store.episodes
    noise = torch.Generator().manual_seed(first)
    keys = torch.randn(count, memory.embedder.width, generator=noise)
    entries = Entries(
        zero + task, zero + first, zero, zero + steps // 2, zero, zero + steps, zero.float()
    )
    return NewEntries(entries, keys, blank(memory.spaces, count, steps))


def _times(action: Search, count: int) -> dict[str, float]:
    spent = take_turns({"": action}, count)[""]
    return {"p50_ms": float(np.median(spent)), "p99_ms": float(np.quantile(spent, 0.99))}


if __name__ == "__main__":
    arguments = tyro.cli(ServerArguments)
    measured = measure_server(load(shipped()).memory(), arguments)
    content = json.dumps(with_provenance("memory-server", measured), allow_nan=False, indent=1)
    atomic_write(arguments.out, f"{content}\n".encode())
    print(content)
