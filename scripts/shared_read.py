"""What a read of a shared memory costs beside one in RAM, all of them taking turns in one run.

One task has many entries, somebody else writes a trial before each trial, and everybody refreshes
then. A read is a search in the task, the choice, and the chunk. The server is the one that
$RADT_MEMORY_DSN names; the memory there is removed afterwards.

    python scripts/shared_read.py --out results/memory/shared-read.json
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from radt.bench.common import with_provenance
from radt.bench.memory import K, take_turns
from radt.files import atomic_write
from radt.loading import load, shipped
from radt.memory.memory import Memory
from radt.memory.postgres import open_postgres
from scripts.memory_server import AT_ONCE, PER_TRIAL, made_up

TASK = 0
RAM, SERVER = "RAM", "server"
FREE = 0.1  # of the times: those in which a busy machine did nothing else


@dataclass(frozen=True)
class ReadArguments:
    """What is measured."""

    entries: int = 10_000  # of the task
    trials: int = 10
    steps: int = 100  # reads of a trial
    out: Path = Path("results/memory/shared-read.json")


def measure_reads(like: Memory, arguments: ReadArguments) -> dict[str, Any]:
    """Fill a memory in RAM, a folder and a server with the same entries, and read from each."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder, ExitStack() as opened:
        there = open_postgres(name, like.identity(), writing=True)
        opened.callback(_remove, there)
        writers = {
            RAM: like.at("ram:"),
            "folder": opened.enter_context(like.at(f"shared-folder:{folder}")),
            SERVER: opened.enter_context(Memory(like.embedder, like.spaces, like.config, there)),
        }
        for memory in writers.values():
            for start in range(0, arguments.entries, AT_ONCE):
                memory.add(made_up(memory, TASK, min(AT_ONCE, arguments.entries - start)))
        places = {"folder": f"folder:{folder}", SERVER: f"postgres:{name}"}
        readers = {RAM: writers[RAM]}
        for kind, place in places.items():
            readers[kind] = opened.enter_context(like.at(place, writing=False))
            readers[f"copy of the {kind}"] = opened.enter_context(
                like.at(f"copy:{place}", writing=False)
            )
        searched, costs = searches(readers, arguments), reads(readers, writers, arguments)
    return {
        "entries": arguments.entries,
        "key_width": like.embedder.width,
        "reads_of_a_trial": arguments.steps,
        "search": searched,
        "read": costs,
    }


def searches(readers: Mapping[str, Memory], arguments: ReadArguments) -> dict[str, Any]:
    """Time searches of the task: in RAM, by the server, and in the keys that its client holds."""
    queries, own = (
        torch.randn(arguments.steps, 1, readers[RAM].embedder.width),
        torch.tensor([TASK]),
    )
    store: Any = readers[SERVER].store
    spent = take_turns(
        {
            RAM: lambda at: readers[RAM].search(queries[at], K, own),
            "by the server": lambda at: store.search_there(queries[at], K, own),
            "in the keys that are held": lambda at: store.search(queries[at], K, own),
        },
        len(queries),
    )
    return compared(spent)


def reads(
    readers: Mapping[str, Memory], writers: Mapping[str, Memory], arguments: ReadArguments
) -> dict[str, Any]:
    """Time reads, trial after trial, each after a refresh that brings what somebody wrote."""
    width, own = readers[RAM].embedder.width, torch.tensor([TASK])
    spent: dict[str, list[float]] = {name: [] for name in readers}
    refreshed: dict[str, list[float]] = {name: [] for name in readers}

    def read(memory: Memory, query: torch.Tensor, step: int) -> None:
        memory.chunks(memory.retrieve(query, own, torch.tensor([step])).chosen)

    for trial in range(arguments.trials + 1):
        for memory in writers.values():
            memory.add(made_up(memory, TASK, PER_TRIAL))
        for name, memory in readers.items():
            refreshed[name].append(timed(memory.refresh))
            read(memory, torch.randn(1, width), 0)  # what is new is taken in by the first
        for step, query in enumerate(torch.randn(arguments.steps, 1, width)):
            turn = step % len(readers)  # so that a busy machine serves none better
            for name in [*readers][turn:] + [*readers][:turn]:
                spent[name].append(timed(partial(read, readers[name], query, step)))
        if trial == 0:  # to warm up
            spent, refreshed = ({name: [] for name in readers} for _ in range(2))
    found = compared({name: np.array(times) for name, times in spent.items()})
    for name, line in found.items():
        refresh = line["refresh_ms"] = float(np.quantile(refreshed[name], FREE))
        with_refresh = line["p10_ms"] + refresh / arguments.steps
        line["times_ram_with_refresh"] = with_refresh / found[RAM]["p10_ms"]
    return found


def timed(work: Any) -> float:
    """Return the milliseconds that something takes."""
    begun = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - begun)


def compared(spent: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Say how long each way takes, and how many times as long as RAM while nobody interrupts."""
    ram = np.quantile(spent[RAM], FREE)
    return {
        name: {
            "p10_ms": float(np.quantile(times, FREE)),
            "p50_ms": float(np.median(times)),
            "times_ram": float(np.quantile(times, FREE) / ram),
        }
        for name, times in spent.items()
    }


def _remove(store: Any) -> None:
    from psycopg import sql

    remove = sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(store.server.schema))
    store.server.run(lambda connection: connection.execute(remove))
    store.close()


if __name__ == "__main__":
    arguments = tyro.cli(ReadArguments)
    measured = measure_reads(load(shipped()).memory(), arguments)
    content = json.dumps(with_provenance("shared-read", measured), allow_nan=False, indent=1)
    atomic_write(arguments.out, f"{content}\n".encode())
    print(content)
