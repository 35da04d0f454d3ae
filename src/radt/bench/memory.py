"""`radt bench memory`: what one read costs in memories of up to ten million entries.

One query asks for the 50 most similar entries of the whole memory. Keys are real chunk embeddings,
and more of their kind where there are not enough. An entry that is found counts if it is as similar
as the exact 50th, or less than 1e-6 behind: many keys of a grid world are equal, so that ids say
nothing. An index qualifies where it finds 95%. What is measured is written down at once, and a
benchmark that was broken off goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from torch import Tensor

from radt.bench import USUAL, MemoryArguments, Resources
from radt.bench.common import make_table, with_provenance
from radt.bench.memory_keys import (
    PERTURBATION,
    K,
    RealKeys,
    filled_index,
    filled_memory,
    held_bytes,
    real_keys,
)
from radt.data import DataError, Dataset, dataset_folder
from radt.data.reader import free_memory
from radt.decode import DecodeError, decode, differences
from radt.experiments.run import RunError
from radt.files import atomic_write
from radt.loading import load, shipped
from radt.memory.index import unit
from radt.memory.index.faiss_indexes import choice, faiss_library
from radt.memory.memory import Memory
from radt.spaces import TaskSpaces
from radt.track import Tracker
from radt.version import code_version

FLAT = (100_000, 512, 128)  # entries, width, queries at once, beside Faiss's flat index
LARGEST_GRAPH = 1 << 26  # numbers of keys: beyond, one thread takes hours to build a graph
CLOSE = 1e-6  # an entry that is this close to the exact k-th counts as found
WARM_UP = 20  # reads before those that are timed
LEAST, LONGEST = 20, 30.0  # reads that are timed at least, and seconds after which it is enough
QUALIFIES = 0.95  # of the exact neighbours, at least
SLOWER = 4.0  # times that a read at the largest size may take, of the fastest at the smallest
FASTER = 4.0  # than Faiss's flat index, many queries at once
Search = Callable[[int], object]  # told which query it is for
Spot = tuple[int, int, str]  # width, size, index: one thing to measure


Read = dict[str, Any]  # through one index at one size, see `measure_read`


def bench_memory(
    arguments: MemoryArguments,
    resources: Resources = USUAL,
    flat: tuple[int, int, int] = FLAT,
) -> dict[str, Any]:
    """Measure reads, and many queries at once beside Faiss's flat index.

    The record is written to `arguments.out` after each read; reads that it holds are not repeated.
    `flat` has entries, width and number of queries of the comparison with Faiss.
    """
    sizes, tracker = whole_numbers("--sizes", arguments.sizes), Tracker(quiet=resources.quiet)
    loaded = load(arguments.checkpoint or shipped())
    dataset = _dataset(arguments.data or dataset_folder(loaded.card.env, "ppo", 0))
    like = loaded.memory()
    about = {
        "env": loaded.card.env,
        "dataset": dataset.sha256,
        "embedder": like.embedder.fingerprint,
        "k": K,
        "beyond": PERTURBATION,
        "content_bytes": content_bytes(dataset.spaces, like.config.context_len),
    }
    record = MemoryRecord(arguments.out, about)
    widths = [like.embedder.width]
    if arguments.widths is not None:
        widths = whole_numbers("--widths", arguments.widths)
    todo = record.plan(list(product(widths, sizes, arguments.indexes.split(","))))
    if todo or record.flat is None:
        most = min(arguments.real, max(*sizes, flat[0]))
        keys = _embedded(like, dataset, most, arguments.reads, tracker)
        if record.flat is None:
            record.flat = flat_against_faiss(keys, *flat)
            record.write()
        read_all(todo, keys, like, record, tracker)
    return record.whole()


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


def _embedded(like: Memory, dataset: Dataset, count: int, reads: int, tracker: Tracker) -> RealKeys:
    done, context_len = 0, like.config.context_len

    def advance(episodes: int) -> None:
        nonlocal done
        done += episodes * (context_len - 1)
        tracker.advance(min(done, count + reads))

    tracker.start("embed", total=count + reads)
    keys = real_keys(like.embedder, dataset, context_len, count, reads, advance)
    tracker.finish()
    return keys


class MemoryRecord:
    """What was measured so far, with which keys, and the file where it stands."""

    def __init__(self, file: Path, about: dict[str, Any]) -> None:
        """Go on with the record of a file, or begin one; one of other keys is refused."""
        self.file, self.about = file, about
        self.reads: list[Read] = []
        self.skipped: list[dict[str, Any]] = []
        self.flat: dict[str, Any] | None = None  # many queries at once beside Faiss's flat index
        if not file.exists():
            return
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            self.reads = decode(list[Read], found["reads"], "reads")
            theirs, self.flat = {name: found[name] for name in about}, found["flat"]
        except (KeyError, TypeError, DecodeError, json.JSONDecodeError) as error:
            raise RunError(
                f"{file} is no record of this benchmark ({error}); remove it or name another --out"
            ) from error
        if theirs != about:
            told = "; ".join(differences(theirs, about, ("in the file", "here")))
            raise RunError(
                f"{file} holds reads of other keys ({told}); remove it or name another --out"
            )

    def plan(self, spots: Sequence[Spot]) -> list[Spot]:
        """List what is still to be measured, and note what does not fit."""
        known = {(read["width"], read["size"], read["index"]) for read in self.reads}
        reasons = {spot: too_large(*spot) for spot in spots if spot not in known}
        self.skipped = [
            {"width": width, "size": size, "index": index, "reason": reason}
            for (width, size, index), reason in reasons.items()
            if reason
        ]
        return [spot for spot, reason in reasons.items() if reason is None]

    def write(self) -> None:
        """Write all down."""
        content = json.dumps(self.whole(), allow_nan=False, indent=1) + "\n"
        atomic_write(self.file, content.encode())

    def whole(self) -> dict[str, Any]:
        """Return the record with its verdicts and where it comes from."""
        self.reads.sort(key=lambda read: (read["width"], read["size"]))
        times_as_fast = None if self.flat is None else self.flat["times_as_fast"]
        fastest = fastest_by_size(self.reads)
        measured = {
            **self.about,
            "reads": self.reads,
            "skipped": self.skipped,
            "flat": self.flat,
            "fastest": {read["size"]: read["index"] for read in fastest},
            "auto_chooses": {read["size"]: choice(read["width"], read["size"]) for read in fastest},
            "claims": claims(self.reads, times_as_fast),
        }
        return with_provenance("memory", measured, times_as_fast or 0.0)


def too_large(width: int, size: int, index: str) -> str | None:
    """Say why an index is not built at a size, or None if it is."""
    needed = size * (2 * 4 * width + width + 128)  # while keys move to a larger place
    if index == "faiss-hnsw" and size * width > LARGEST_GRAPH:
        return "a graph of so many keys takes one thread hours to build"
    if needed > 0.9 * (free := free_memory()):
        return f"needs some {needed / 2**30:.0f} GiB of RAM, {free / 2**30:.0f} are free"
    return None


def read_all(
    todo: Sequence[Spot], keys: RealKeys, like: Memory, record: MemoryRecord, tracker: Tracker
) -> None:
    """Measure one spot after the other, those of one size against the same exact neighbours."""
    tracker.start("read", total=len(todo))
    done = 0
    for (width, size), spots in groupby(todo, lambda spot: spot[:2]):
        exact, _ = filled_index("flat", keys, size, width)
        kth = exact.search(keys.asked(width), K)[0][:, -1:]  # [Q, 1]
        for _, _, index in spots:
            tracker.advance(done, f"{index}, {size:,} x {width}")
            record.reads.append(measure_read(index, keys, size, width, kth, like))
            record.write()
            done += 1
    tracker.finish()


def measure_read(
    name: str, real: RealKeys, size: int, width: int, kth: Tensor, like: Memory
) -> Read:
    """Build a memory like another around an index and read from it, one query at a time."""
    faiss_library()  # loaded before the clock runs
    begun = time.perf_counter()
    index, tasks = filled_index(name, real, size, width)
    seconds = time.perf_counter() - begun
    memory = filled_memory(index, tasks, like)
    held = held_bytes(memory, index)
    queries = real.asked(width)
    found = memory.search(queries, K)[0]
    took = time_reads(memory, index, queries, torch.from_numpy(real.asked_by))
    middle = {way: float(np.quantile(spent, 0.5)) for way, spent in took.items()}
    return {
        "index": name,
        "size": size,
        "width": width,
        "real": min(size, len(real.keys)),  # keys that are real ones
        "searched": described(index),
        "recall": float((found >= kth - CLOSE).float().mean()),
        "p50_ms": middle["all"],  # of the memory's search over all tasks
        "p99_ms": float(np.quantile(took["all"], 0.99)),
        "raw_p50_ms": middle["raw"],
        "own_task_p50_ms": middle["own"],  # of the memory's search within the task of the query
        "own_task_p99_ms": float(np.quantile(took["own"], 0.99)),
        "own_task_raw_p50_ms": middle["own raw"],
        "retrieve_p50_ms": middle["retrieve"],  # within the task, weighed by utility, Eq. 3 to 5
        "reads": len(took["all"]),  # that were timed
        "build_seconds": seconds,
        "ram_bytes": held,  # of index and entries, without chunks and without room to grow
        "bytes_per_entry": held / size,
        "code_version": code_version(),
    }


def time_reads(
    memory: Memory, index: Any, queries: Tensor, task: Tensor
) -> dict[str, NDArray[np.float64]]:
    """Read in every way, one query at a time: milliseconds, [reads] each.

    The bare searches are Faiss itself, or a product with all keys, or with those of a task, and
    top-k in torch.
    """
    one, its, start = queries.split(1), task.split(1), torch.zeros(1, dtype=torch.int64)
    directions = unit(queries).float().split(1)
    vectors = [direction.numpy() for direction in directions]
    finder, (keys, _) = getattr(index, "finder", None), index.table.scaled(slice(None))
    rows = [index.table.rows_of(number) for number in task.tolist()]

    def bare(at: int, among: Tensor) -> object:
        return (directions[at] @ among.T).topk(min(K, len(among)))

    beside: tuple[dict[str, Search], ...] = (
        {
            "all": lambda at: memory.search(one[at], K),
            "raw": lambda at: finder.search(vectors[at], K) if finder else bare(at, keys),
        },
        {
            "own": lambda at: memory.search(one[at], K, its[at]),
            "own raw": lambda at: bare(at, keys[rows[at]]),
        },
        {"retrieve": lambda at: memory.retrieve(one[at], its[at], start)},
    )
    took = [taking_turns(ways, len(one)) for ways in beside]
    return {name: spent for part in took for name, spent in part.items()}


def taking_turns(ways: dict[str, Search], count: int) -> dict[str, NDArray[np.float64]]:
    """Time ways of reading, in milliseconds, until all queries had theirs or it is enough.

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


def described(index: Any) -> str:
    """Say how an index searches."""
    finder = getattr(index, "finder", None)
    if finder is None:
        return "every key"
    if hasattr(finder, "nprobe"):
        return f"{finder.nprobe} of {finder.nlist} lists, 1 byte per number, then exactly"
    return f"graph, {finder.hnsw.efSearch} nodes in sight, then exactly"


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


def fastest_by_size(reads: Sequence[Read]) -> list[Read]:
    """Return the fastest read that finds enough at each size, of the narrowest keys."""
    width = min((read["width"] for read in reads), default=0)
    enough = [read for read in reads if read["width"] == width and read["recall"] >= QUALIFIES]
    return [
        min((read for read in enough if read["size"] == size), key=lambda read: read["p50_ms"])
        for size in sorted({read["size"] for read in enough})
    ]


def claims(reads: Sequence[Read], times_as_fast: float | None = None) -> list[dict[str, Any]]:
    """Put the figures beside what they must reach, as far as they are measured."""
    fastest = fastest_by_size(reads)
    sizes, served = {read["size"] for read in reads}, {read["size"] for read in fastest}
    lowest = min((read["recall"] for read in fastest), default=0.0) if sizes == served else 0.0
    what = f"recall@{K} of the fastest at each of {len(sizes)} sizes, the lowest"
    made = [_claim(what, lowest, f"at least {QUALIFIES:g}", lowest >= QUALIFIES)]
    if len(fastest) > 1:
        small, large = fastest[0], fastest[-1]
        slower = large["p50_ms"] / small["p50_ms"]
        what = f"p50 at {large['size']:,} entries ({large['index']}) over that at {small['size']:,}"
        what = f"{what} ({small['index']}), the fastest of each"
        made.append(_claim(what, slower, f"at most {SLOWER:g}", slower <= SLOWER))
    for name, pairs in (
        ("the memory's search", [(read["p50_ms"], read["raw_p50_ms"]) for read in reads]),
        (
            "within a task",
            [(read["own_task_p50_ms"], read["own_task_raw_p50_ms"]) for read in reads],
        ),
    ):
        worst = max((ours - raw for ours, raw in pairs), default=0.0)
        holds = all(ours <= max(1.2 * raw, raw + 0.1) for ours, raw in pairs)
        what = f"{name} over the raw index, milliseconds more at most"
        made.append(_claim(what, worst, "at most 0.1, or a fifth of the raw index's", holds))
    if times_as_fast is not None:
        what, bound = "many queries at once, times as fast as Faiss flat", f"at least {FASTER:g}"
        made.append(_claim(what, times_as_fast, bound, times_as_fast >= FASTER))
    return made


def _claim(what: str, reached: float, bound: str, holds: bool) -> dict[str, Any]:
    verdict = "holds" if holds else "DOES NOT HOLD"
    said = f"{what}: {reached:.3f}, must be {bound}: {verdict}"
    return {"what": what, "reached": reached, "bound": bound, "holds": holds, "said": said}


COLUMNS = (
    *("entries", "width", "index", "recall", "p50 ms", "p99 ms", "raw", "own task", "raw"),
    *("Eq. 3-5", "build s", "bytes/entry", "of content", "searched"),
)
TIMES = (
    *("p50_ms", "p99_ms", "raw_p50_ms", "own_task_p50_ms", "own_task_raw_p50_ms"),
    "retrieve_p50_ms",
)


def memory_table(record: Mapping[str, Any]) -> Table:
    """Show a line per read."""
    rows = [
        (
            f"{read['size']:,}",
            str(read["width"]),
            read["index"],
            f"{read['recall']:.3f}",
            *(f"{read[time]:.3f}" for time in TIMES),
            f"{read['build_seconds']:.1f}",
            f"{read['bytes_per_entry']:.0f}",
            f"{read['bytes_per_entry'] / record['content_bytes']:.2f}",
            read["searched"],
        )
        for read in record["reads"]
    ]
    title = f"one read of {K}; the ratio is Faiss flat / flat, {FLAT[2]} queries at once"
    table = make_table(title, rows, COLUMNS)
    table.caption, table.caption_justify = "\n".join(c["said"] for c in record["claims"]), "left"
    return table
