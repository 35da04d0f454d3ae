"""`radt bench memory`: what one read costs in indexes of up to ten million entries.

One query asks for the 50 most similar entries of the whole memory, and beside it a product with all
keys in torch does the same. An entry that is found counts if it is as similar as the exact 50th, or
less than 1e-6 behind: many keys of a grid world are equal, so that ids say nothing. An index counts
as fast only where it finds 95%. The ratio is how many times as fast as the product the fastest one
reads at the largest size. Beside it stands how the first decision of a trial grows with a memory.

Keys are real: embeddings of what agents of a dataset have seen up to some step t < C. Beyond the
real ones an entry is a real key moved by a tenth of the difference of two others: it stays among
the directions in which real keys differ. Wider keys have zeros behind, which changes no cosine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.bench import USUAL, MemoryArguments, Resources
from radt.bench.common import tracked, with_provenance
from radt.data import DataError, Dataset, dataset_folder
from radt.loading import Loaded, load, shipped
from radt.memory.embed import Embedder
from radt.memory.index import Index, build_index, unit
from radt.memory.memory import Memory
from radt.memory.store import NewEntries
from radt.methods.windows import up_to
from radt.room import free_memory
from radt.runs.run import RunError
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory

K = 50  # entries that one read asks for
LARGEST_GRAPH = 1 << 26  # numbers of keys: beyond, one thread takes hours to build a graph
CLOSE = 1e-6  # an entry that is this close to the exact k-th counts as found
QUALIFIES = 0.95  # of the exact neighbours, at least
WARM_UP = 20  # reads before those that are timed
LEAST, LONGEST = 20, 30.0  # reads that are timed at least, and seconds after which it is enough
EMBEDDED = 1024  # prefixes that are embedded together
BLOCK = 1 << 16  # keys that are made together
TRIALS = 30  # whose first decision is timed
MOST = 200_000  # entries: beyond, their chunks fill gigabytes
Keys = Callable[[int], Tensor]  # so many of them, [N, d]
Search = Callable[[int], object]  # told which query it is for
Read = dict[str, Any]  # through one index at one size, see `measure_read`
TABLE = (
    "reads",
    ("size", "width", "index", "recall", "p50_ms", "p99_ms", "product_p50_ms", "own_task_p50_ms"),
)


def bench_memory(arguments: MemoryArguments, resources: Resources = USUAL) -> dict[str, Any]:
    """Measure reads through several indexes, of several sizes and widths."""
    sizes = whole_numbers("--sizes", arguments.sizes)
    loaded = load(arguments.checkpoint or shipped())
    dataset = _dataset(arguments.data or dataset_folder(loaded.card.env, "ppo", 0))
    like = loaded.memory()
    context_len, widths = like.config.context_len, [like.embedder.width]
    if arguments.widths is not None:
        widths = whole_numbers("--widths", arguments.widths)
    count = min(arguments.real, max(sizes))
    real = real_keys(like.embedder, dataset, context_len, count, arguments.reads, resources.quiet)
    reads, skipped = list[Read](), list[dict[str, Any]]()
    spots = list(product(widths, sizes, arguments.indexes.split(",")))
    for width, size, index in tracked("read", spots, resources.quiet):
        if reason := too_large(width, size, index):
            skipped.append({"width": width, "size": size, "index": index, "reason": reason})
        else:
            reads.append(measure_read(index, real, size, width))
    fastest = fastest_by_size(reads)
    measured = {
        "first_decisions": first_decisions(
            loaded, dataset, partial(real.of, like.embedder.width), sizes, resources.quiet
        ),
        "env": loaded.card.env,
        "dataset": dataset.sha256,
        "embedder": like.embedder.fingerprint,
        "k": K,
        "content_bytes": content_bytes(dataset.spaces, context_len),
        "reads": reads,
        "skipped": skipped,
        "fastest": {size: read["index"] for size, read in fastest.items()},
    }
    largest = fastest.get(max(sizes))
    ratio = None if largest is None else largest["product_p50_ms"] / largest["p50_ms"]
    return with_provenance("memory", measured, ratio)


def whole_numbers(flag: str, text: str) -> list[int]:
    """Read numbers with commas between them."""
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise RunError(f"{flag} must be whole numbers such as 10000,100000, not {text!r}")
    return [int(part) for part in parts]


def content_bytes(spaces: TaskSpaces, context_len: int) -> int:
    """Return the bytes of a whole chunk of 2C steps: states, actions and rewards as collected."""
    state, action = spaces.state, spaces.action
    step = state.dtype.itemsize * prod(state.shape) + action.dtype.itemsize * prod(action.shape)
    return 2 * context_len * (step + 4)  # a reward takes four


def _dataset(folder: Path) -> Dataset:
    try:
        return Dataset.open(folder)
    except DataError as error:
        raise RunError(
            f"{error}\nreal keys come from a dataset: radt collect dark-room-10x10, or --data DIR"
        ) from error


@dataclass(frozen=True)
class RealKeys:
    """Keys of a dataset, and queries from other episodes of it."""

    keys: NDArray[np.float32]  # [R, d]
    task: NDArray[np.int64]  # [R]
    queries: NDArray[np.float32]  # [Q, d]
    asked_by: NDArray[np.int64]  # [Q] tasks

    def blocks(self, size: int, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Make so many keys [n, width] with their tasks [n], the real ones first."""
        for start in range(0, size, BLOCK):
            at = np.arange(start, min(start + BLOCK, size))
            beyond = at >= len(self.keys)
            rng = np.random.default_rng(start)
            first, second, third = rng.integers(len(self.keys), size=(3, len(at)))
            at = np.where(beyond, first, at)
            moved = self.keys[second] - self.keys[third]
            keys = self.keys[at] + np.float32(0.1) * moved * beyond[:, None]
            yield widened(keys, width), torch.from_numpy(self.task[at])

    def of(self, width: int, size: int) -> Tensor:
        """Make so many keys [n, width] at once."""
        return torch.cat([keys for keys, _ in self.blocks(size, width)])

    def asked(self, width: int) -> Tensor:
        return widened(self.queries, width)


def widened(vectors: NDArray[np.float32], width: int) -> Tensor:
    """Put zeros behind vectors [n, d] so that they have so many numbers."""
    missing = width - vectors.shape[1]
    if missing < 0:
        raise RunError(f"keys have {vectors.shape[1]} numbers; --widths cannot ask for {width}")
    return torch.from_numpy(np.pad(vectors, ((0, 0), (0, missing))))


def real_keys(
    embedder: Embedder,
    dataset: Dataset,
    context_len: int,
    count: int,
    queries: int,
    quiet: bool = True,
) -> RealKeys:
    """Embed beginnings of real episodes, a tenth of which give the queries."""
    rng = np.random.default_rng(0)
    episodes = rng.permutation(np.flatnonzero(dataset.episodes.length >= context_len))
    if len(episodes) < 10:
        raise RunError(f"keys need ten episodes of at least {context_len} steps; collect more")
    asking, held = np.split(episodes, [len(episodes) // 10])
    drawn = np.concatenate([rng.choice(asking, queries), rng.choice(held, count)])
    stop = rng.integers(2, context_len + 1, size=len(drawn))  # at step 0 all have seen the same
    keys = np.zeros((len(drawn), embedder.width), np.float32)
    for start in tracked("embed", range(0, len(drawn), EMBEDDED), quiet):
        some = slice(start, start + EMBEDDED)
        windows = dataset.windows(drawn[some], np.zeros_like(drawn[some]), context_len)
        keys[some] = embedder(up_to(windows, stop[some])).numpy()
    task = dataset.episodes.task[drawn].astype(np.int64)
    return RealKeys(keys[queries:], task[queries:], keys[:queries], task[:queries])


def too_large(width: int, size: int, index: str) -> str | None:
    """Say why an index is not built at a size, or None if it is."""
    needed = size * (3 * 4 * width + width + 128)  # the keys, and while they move in the index
    if index == "faiss-hnsw" and size * width > LARGEST_GRAPH:
        return "a graph of so many keys takes one thread hours to build"
    if needed > 0.9 * (free := free_memory()):
        return f"needs some {needed / 2**30:.0f} GiB of RAM, {free / 2**30:.0f} are free"
    return None


def filled_index(name: str, real: RealKeys, size: int, width: int) -> Index:
    """Fill an index with so many keys and let it build what it needs."""
    index = build_index(name, width)
    for keys, task in real.blocks(size, width):
        index.add(keys, task)
    index.search(real.asked(width)[:1], K)
    return index


def measure_read(name: str, real: RealKeys, size: int, width: int) -> Read:
    """Build an index and read from it one query at a time, in turns with a product in torch."""
    queries, task = real.asked(width), torch.from_numpy(real.asked_by)
    before, begun = psutil.Process().memory_info().rss, time.perf_counter()
    index = filled_index(name, real, size, width)
    seconds = time.perf_counter() - begun
    held = psutil.Process().memory_info().rss - before
    exact = filled_index("flat", real, size, width).search(queries, K)[0]  # [Q, k]
    keys = unit(real.of(width, size)).float()
    one, own, directions = queries.split(1), task.split(1), unit(queries).float().split(1)
    took = take_turns(
        {
            "all": lambda at: index.search(one[at], K),
            "product": lambda at: (directions[at] @ keys.T).topk(min(K, size)),
            "own": lambda at: index.search(one[at], K, own[at]),
        },
        len(one),
    )
    found = index.search(queries, K)[0]
    return {
        "index": name,
        "size": size,
        "width": width,
        "real": min(size, len(real.keys)),  # keys that are real ones
        "recall": float((found >= exact[:, -1:] - CLOSE).float().mean()),
        "p50_ms": float(np.median(took["all"])),  # over all tasks
        "p99_ms": float(np.quantile(took["all"], 0.99)),
        "product_p50_ms": float(np.median(took["product"])),  # with every key, and top-k
        "own_task_p50_ms": float(np.median(took["own"])),  # within the task of the query
        "reads": len(took["all"]),  # that were timed
        "build_seconds": seconds,
        "bytes_per_entry": max(0, held)
        / size,  # by which the process grew; little where others left room
    }


def take_turns(ways: Mapping[str, Search], count: int) -> dict[str, NDArray[np.float64]]:
    """Time ways of reading, in milliseconds, until all queries had theirs or it is enough.

    They take turns, with queries far apart, so that a busy machine or a filled cache serves none of
    them better than the other.
    """
    spent: dict[str, list[float]] = {name: [] for name in ways}
    begun = time.perf_counter()
    for turn in range(count + WARM_UP):
        if turn >= LEAST + WARM_UP and time.perf_counter() - begun > LONGEST:
            break
        for place, (name, search) in enumerate(ways.items()):
            before = time.perf_counter()
            search((turn + place * count // len(ways)) % count)
            spent[name].append(1000 * (time.perf_counter() - before))
    return {name: np.array(times[WARM_UP:]) for name, times in spent.items()}


def fastest_by_size(reads: Sequence[Read]) -> dict[int, Read]:
    """Return the fastest read that finds enough at each size, of the narrowest keys."""
    width = min((read["width"] for read in reads), default=0)
    enough = [read for read in reads if read["width"] == width and read["recall"] >= QUALIFIES]
    slowest_first = sorted(enough, key=lambda read: -read["p50_ms"])
    return {read["size"]: read for read in slowest_first}


def first_decisions(
    loaded: Loaded, dataset: Dataset, keys: Keys, sizes: Sequence[int], quiet: bool = True
) -> list[dict[str, Any]]:
    """Time first decisions with so many entries in memory, in milliseconds.

    All entries are of the agent's own task, so that none is passed over; agents take turns, so that
    a busy machine slows all of them. Where every trial begins alike, its first query is the last
    trial's; elsewhere it is a new one.
    """
    seen = dataset.trajectory(0)
    stored = replace(seen, task=0, rewards=np.ones_like(seen.rewards))  # no memory refuses it
    agents = {n: filled_agent(loaded, stored, keys(n)) for n in sizes if n <= MOST}
    took: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in agents} for name in ("p50_ms", "new_start_p50_ms")
    }
    starts = np.unique(stored.states, axis=0)
    turns = list(product(took, range(TRIALS)))
    for name, trial in tracked("first decision", turns, quiet):
        start = stored.states[0] if name == "p50_ms" else starts[trial % len(starts)]
        for size, agent in agents.items():
            memory_of(agent).write([stored])
            begun = time.perf_counter()
            agent.act(start)
            took[name][size].append(1000 * (time.perf_counter() - begun))
            agent.abandon()
    return [
        {"size": size, **{name: float(np.median(times[size])) for name, times in took.items()}}
        for size in agents
    ]


def filled_agent(loaded: Loaded, stored: Trajectory, keys: Tensor) -> Agent:
    """Build an agent that remembers entries of such keys, whose chunks are those of one trial."""
    agent = loaded.agent()
    memory = memory_of(agent)
    memory.write([stored])
    known = memory.contents()
    new = known.rows(torch.arange(len(keys)) % len(known))
    number = torch.arange(len(keys)) // len(known) + 1  # [N] the trial of each
    memory.add(NewEntries(replace(new.entries, episode=number, age=number), keys, new.chunks))
    return agent


def memory_of(agent: Agent) -> Memory:
    """Return an agent's memory."""
    if agent.memory is None:
        raise RunError(f"the method {agent.method.name} has no memory that could grow")
    return agent.memory
