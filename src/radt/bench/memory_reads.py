"""Measuring one read of a memory: how long it takes and how much it finds, beside the raw index."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.bench.memory_keys import RealKeys
from radt.memory.index import INDEXES, FlatIndex, Index, unit
from radt.memory.index.approximate import TRUSTED, ApproximateIndex, Finder
from radt.memory.index.faiss_library import faiss_library
from radt.memory.index.table import KeyTable

K = 50
CLOSE = 1e-6  # an entry that is this close to the exact k-th counts as found
WARM_UP = 20  # reads before those that are timed
LEAST, LONGEST = 20, 30.0  # reads that are timed at least, and seconds after which it is enough


@dataclass(frozen=True)
class Read:
    """One read of the k most similar entries, through one index at one size."""

    index: str
    size: int
    width: int
    searched: str  # how the index searches at this size
    recall: float  # share of k that is as similar as the exact k-th, or closer than 1e-6 to it
    p50_ms: float
    p99_ms: float
    raw_p50_ms: float  # of the raw index: Faiss itself, or a product and top-k in torch
    own_task_p50_ms: float  # of a read within the task of the query
    own_task_p99_ms: float
    reads: int  # that were timed
    build_seconds: float
    ram_bytes: int  # by which the process grew, to some megabytes
    bytes_per_entry: float

    @property
    def interface_fits(self) -> bool:
        """Whether our interface costs at most 1.2 times the raw index, or 0.1 ms more."""
        return self.p50_ms <= max(1.2 * self.raw_p50_ms, self.raw_p50_ms + 0.1)


def filled(name: str, real: RealKeys, size: int, width: int) -> Index:
    """Fill an index with so many keys and let it build what it needs."""
    index = INDEXES[name](width)
    for keys, task in real.blocks(size, width):
        index.add(keys, task)
    index.search(real.asked(width)[:1], K)
    return index


def exact_kth(real: RealKeys, size: int, width: int) -> Tensor:
    """Return the similarity of the exact k-th entry for each query, [Q, 1]."""
    return filled("flat", real, size, width).search(real.asked(width), K)[0][:, -1:]


def measure(name: str, real: RealKeys, size: int, width: int, kth: Tensor) -> Read:
    """Build an index and read from it, one query at a time."""
    faiss_library()  # is not counted as the index's
    gc.collect()
    process, begun = psutil.Process(), time.perf_counter()
    before = process.memory_info().rss
    index = filled(name, real, size, width)
    seconds = time.perf_counter() - begun
    gc.collect()
    grown = process.memory_info().rss - before
    queries, task = real.asked(width), torch.from_numpy(real.asked_by)
    found = index.search(queries, K)[0]
    one, its = queries.split(1), task.split(1)
    ours = milliseconds(lambda at: index.search(one[at], K), len(one))
    bare = milliseconds(raw_search(index, queries), len(one))
    own = milliseconds(lambda at: index.search(one[at], K, its[at]), len(one))
    return Read(
        index=name,
        size=size,
        width=width,
        searched=described(index),
        recall=float((found >= kth - CLOSE).float().mean()),
        p50_ms=float(np.quantile(ours, 0.5)),
        p99_ms=float(np.quantile(ours, 0.99)),
        raw_p50_ms=float(np.quantile(bare, 0.5)),
        own_task_p50_ms=float(np.quantile(own, 0.5)),
        own_task_p99_ms=float(np.quantile(own, 0.99)),
        reads=len(ours),
        build_seconds=seconds,
        ram_bytes=grown,
        bytes_per_entry=grown / size,
    )


def milliseconds(action: Callable[[int], object], count: int) -> NDArray[np.float64]:
    """Time an action, told which query it is for, until all had theirs or it is enough."""
    for at in range(min(WARM_UP, count)):
        action(at)
    begun, spent = time.perf_counter(), list[float]()
    while len(spent) < count and (len(spent) < LEAST or time.perf_counter() - begun < LONGEST):
        before = time.perf_counter()
        action(len(spent))
        spent.append(1000 * (time.perf_counter() - before))
    return np.array(spent)


def raw_search(index: Index, queries: Tensor) -> Callable[[int], object]:
    """Return the bare search that an index is built around, for one query."""
    directions = unit(queries).float()
    if (finder := _finder(index)) is not None:
        vectors = [direction.numpy() for direction in directions.split(1)]
        return lambda at: finder.raw(vectors[at], K)
    one, (keys, _) = directions.split(1), _table(index).scaled(slice(None))
    return lambda at: (one[at] @ keys.T).topk(min(K, len(keys)))


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
    flat = filled("flat", real, size, width)
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
    }
