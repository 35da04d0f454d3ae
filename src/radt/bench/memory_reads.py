"""Measuring one read of a memory: how long it takes and how much it finds, beside the raw index."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.bench.memory_bytes import held_bytes
from radt.bench.memory_filled import K, filled_index, filled_memory
from radt.bench.memory_keys import RealKeys
from radt.memory.index import FlatIndex, Index, unit
from radt.memory.index.approximate import TRUSTED, ApproximateIndex, Finder
from radt.memory.index.faiss_indexes import faiss_library
from radt.memory.index.table import KeyTable
from radt.memory.memory import Memory
from radt.version import code_version

CLOSE = 1e-6  # an entry that is this close to the exact k-th counts as found
WARM_UP = 20  # reads before those that are timed
LEAST, LONGEST = 20, 30.0  # reads that are timed at least, and seconds after which it is enough
Search = Callable[[int], object]  # told which query it is for


@dataclass(frozen=True)
class Read:
    """One read of the k most similar entries, through one index at one size."""

    index: str
    size: int
    width: int
    real: int  # keys that are real ones
    searched: str  # how the index searches at this size
    recall: float  # share of k that is as similar as the exact k-th, or closer than 1e-6 to it
    p50_ms: float  # of the memory's search over all tasks
    p99_ms: float
    raw_p50_ms: float  # of the raw index: Faiss itself, or a product and top-k in torch
    own_task_p50_ms: float  # of the memory's search within the task of the query
    own_task_p99_ms: float
    own_task_raw_p50_ms: float  # the task's keys taken out, a product and top-k in torch
    retrieve_p50_ms: float  # within the task, with relevance and utility weighed, Eq. 3 to 5
    reads: int  # that were timed
    build_seconds: float
    ram_bytes: int  # of index and entries, without chunks and without room to grow
    bytes_per_entry: float
    code_version: str

    @property
    def interface_fits(self) -> bool:
        """Whether a search over all tasks costs hardly more than the raw index."""
        return hardly_more(self.p50_ms, self.raw_p50_ms)

    @property
    def own_task_fits(self) -> bool:
        """Whether a search within a task costs hardly more than the bare products."""
        return hardly_more(self.own_task_p50_ms, self.own_task_raw_p50_ms)


def hardly_more(ours: float, raw: float) -> bool:
    """Whether our milliseconds are at most 1.2 times the raw ones, or 0.1 more."""
    return ours <= max(1.2 * raw, raw + 0.1)


def exact_kth(real: RealKeys, size: int, width: int) -> Tensor:
    """Return the similarity of the exact k-th entry for each query, [Q, 1]."""
    index, _ = filled_index("flat", real, size, width)
    return index.search(real.asked(width), K)[0][:, -1:]


def measure(name: str, real: RealKeys, size: int, width: int, kth: Tensor, like: Memory) -> Read:
    """Build a memory like another around an index and read from it, one query at a time."""
    faiss_library()  # loaded before the clock runs
    begun = time.perf_counter()
    index, tasks = filled_index(name, real, size, width)
    seconds = time.perf_counter() - begun
    memory = filled_memory(index, tasks, like)
    held = held_bytes(memory, index)
    queries = real.asked(width)
    found = memory.search(queries, K)[0]
    took = timed(memory, index, queries, torch.from_numpy(real.asked_by))
    middle = {way: float(np.quantile(spent, 0.5)) for way, spent in took.items()}
    return Read(
        index=name,
        size=size,
        width=width,
        real=min(size, len(real.keys)),
        searched=described(index),
        recall=float((found >= kth - CLOSE).float().mean()),
        p50_ms=middle["all"],
        p99_ms=float(np.quantile(took["all"], 0.99)),
        raw_p50_ms=middle["raw"],
        own_task_p50_ms=middle["own"],
        own_task_p99_ms=float(np.quantile(took["own"], 0.99)),
        own_task_raw_p50_ms=middle["own raw"],
        retrieve_p50_ms=middle["retrieve"],
        reads=len(took["all"]),
        build_seconds=seconds,
        ram_bytes=held,
        bytes_per_entry=held / size,
        code_version=code_version(),
    )


def timed(
    memory: Memory, index: Index, queries: Tensor, task: Tensor
) -> dict[str, NDArray[np.float64]]:
    """Read in every way, one query at a time: milliseconds, [reads] each."""
    one, its, start = queries.split(1), task.split(1), torch.zeros(1, dtype=torch.int64)
    beside: tuple[dict[str, Search], ...] = (
        {"all": lambda at: memory.search(one[at], K), "raw": raw_search(index, queries)},
        {
            "own": lambda at: memory.search(one[at], K, its[at]),
            "own raw": raw_search_in_task(index, queries, task),
        },
        {"retrieve": lambda at: memory.retrieve(one[at], its[at], start)},
    )
    took = [taking_turns(ways, len(one)) for ways in beside]
    return {name: spent for part in took for name, spent in part.items()}


def milliseconds(action: Search, count: int) -> NDArray[np.float64]:
    """Time an action until all queries had theirs or it is enough."""
    return taking_turns({"alone": action}, count)["alone"]


def taking_turns(ways: dict[str, Search], count: int) -> dict[str, NDArray[np.float64]]:
    """Time ways of reading until all queries had theirs or it is enough.

    They take turns, with queries far apart, so that a busy machine or a filled cache serves none of
    them better than the other.
    """
    apart = count // len(ways)
    spent: dict[str, list[float]] = {name: [] for name in ways}
    begun, rounds = time.perf_counter(), 0
    while rounds < count + WARM_UP and (
        rounds < LEAST + WARM_UP or time.perf_counter() - begun < LONGEST
    ):
        for place, (name, search) in enumerate(ways.items()):
            at = (rounds + place * apart) % count
            before = time.perf_counter()
            search(at)
            spent[name].append(1000 * (time.perf_counter() - before))
        rounds += 1
    return {name: np.array(times[WARM_UP:]) for name, times in spent.items()}


def raw_search(index: Index, queries: Tensor) -> Search:
    """Return the bare search that an index is built around, for one query."""
    directions = unit(queries).float()
    if (finder := _finder(index)) is not None:
        vectors = [direction.numpy() for direction in directions.split(1)]
        return lambda at: finder.raw(vectors[at], K)
    one, (keys, _) = directions.split(1), _table(index).scaled(slice(None))
    return lambda at: (one[at] @ keys.T).topk(min(K, len(keys)))


def raw_search_in_task(index: Index, queries: Tensor, task: Tensor) -> Search:
    """Return the bare search in the keys of a query's task: taken out, multiplied, sorted."""
    one, table = unit(queries).float().split(1), _table(index)
    keys, _ = table.scaled(slice(None))
    rows = [torch.from_numpy(table.rows_of(number)) for number in task.tolist()]
    return lambda at: (one[at] @ keys[rows[at]].T).topk(min(K, len(rows[at])))


def described(index: Index) -> str:
    """Say how an index searches."""
    finder: Any = _finder(index)
    if finder is None:
        return "every key"
    if hasattr(finder, "lists"):
        return f"{finder.effort} of {finder.lists} lists, 1 byte per number, then exactly"
    return f"graph, {finder.effort} nodes in sight, then exactly"


def _finder(index: Index) -> Finder | None:
    """Return what an index asks, if it asks anybody."""
    finder = index.finder if isinstance(index, ApproximateIndex) else None
    return finder if finder is not None and finder.found >= TRUSTED else None


def _table(index: Index) -> KeyTable:
    assert isinstance(index, ApproximateIndex | FlatIndex)
    return index.table


def flat_against_faiss(
    real: RealKeys, size: int, width: int, queries: int, repeats: int = 5
) -> dict[str, Any]:
    """Time many queries at once: our flat index, and that of Faiss as it comes."""
    flat, _ = filled_index("flat", real, size, width)
    faiss = faiss_library().IndexFlatIP(width)
    for keys, _ in real.blocks(size, width):
        faiss.add(unit(keys).float().numpy())
    asked = real.asked(width)[:queries]
    vectors = unit(asked).float().numpy()
    seconds: dict[str, list[float]] = {"flat": [], "faiss": []}
    for _ in range(repeats):
        begun = time.perf_counter()
        found = flat.search(asked, K)[0]
        between = time.perf_counter()
        theirs = faiss.search(vectors, K)[0]
        seconds["flat"].append(between - begun)
        seconds["faiss"].append(time.perf_counter() - between)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return {
        "queries": len(asked),
        "size": size,
        "width": width,
        "seconds": medians,
        "largest_difference": float((found - torch.from_numpy(theirs)).abs().max()),
        "times_as_fast": medians["faiss"] / medians["flat"],
        "code_version": code_version(),
    }
