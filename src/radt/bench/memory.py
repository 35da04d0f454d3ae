"""`radt bench memory`: what one read costs in memories of up to ten million entries.

One query asks for the 50 most similar entries of the whole memory. Keys are real chunk embeddings,
and more of their kind where there are not enough. An entry that is found counts if it is as similar
as the exact 50th, or less than 1e-6 behind: many keys of a grid world are equal, so that ids say
nothing. An index qualifies where it finds 95%. What is measured is written down at once, and a
benchmark that was broken off goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from math import prod
from pathlib import Path
from typing import Any

from radt.bench.memory_filled import K
from radt.bench.memory_keys import PERTURBATION, RealKeys, real_keys
from radt.bench.memory_reads import exact_kth, flat_against_faiss, measure
from radt.bench.memory_record import MemoryRecord
from radt.bench.report import publish
from radt.data import DataError, Dataset, dataset_folder
from radt.data.reader import free_memory
from radt.experiments.run import RunError
from radt.loading import load, shipped
from radt.memory.memory import Memory
from radt.spaces import TaskSpaces
from radt.track import Tracker

OUT = Path("runs/bench/memory.json")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
INDEXES = ("flat", "faiss-hnsw", "faiss-ivf")
FLAT = (100_000, 512, 128)  # entries, width, queries at once
LARGEST_GRAPH = 1 << 26  # numbers of keys: beyond, one thread takes hours to build a graph


@dataclass(frozen=True)
class Asked:
    """What is measured, and with which keys."""

    sizes: Sequence[int] = SIZES  # numbers of entries
    widths: Sequence[int] | None = None  # of keys; None: that of the embedder
    indexes: Sequence[str] = INDEXES  # those that are read through
    reads: int = 1000  # that are timed, each with a query of its own
    real: int = 1_000_000  # real keys at most; beyond them others are made from them
    data: Path | None = None  # where real keys come from; None: Dark-Room 10x10 as collected
    checkpoint: Path | None = None  # whose embedder makes keys; None: the shipped one's


@dataclass(frozen=True)
class Place:
    """One thing to measure."""

    width: int
    size: int
    index: str


ALL = Asked()


def bench_memory(
    out: Path, asked: Asked = ALL, flat: tuple[int, int, int] = FLAT, quiet: bool = True
) -> dict[str, Any]:
    """Measure reads, and many queries at once beside Faiss's flat index.

    Args:
        out: Where the record is written after each read; reads that it holds are not repeated.
        asked: What is measured.
        flat: Entries, width and number of queries of the comparison with Faiss.
        quiet: Draw no bars.
    """
    tracker = Tracker(quiet=quiet)
    loaded = load(asked.checkpoint or shipped())
    dataset = _dataset(asked.data or dataset_folder(loaded.card.env, "ppo", 0))
    like = loaded.memory()
    record = MemoryRecord.open(out, about(loaded.card.env, dataset, like))
    todo = plan(record, asked, like.embedder.width)
    if todo or record.flat is None:
        most = min(asked.real, max(*asked.sizes, flat[0]))
        keys = _embedded(like, dataset, most, asked.reads, tracker)
        if record.flat is None:
            record.keep_flat(flat_against_faiss(keys, *flat))
        read_all(todo, keys, like, record, tracker)
    return record.whole()


def about(env: str, dataset: Dataset, like: Memory) -> dict[str, Any]:
    """Say what the keys are; reads of others do not stand beside each other."""
    return {
        "env": env,
        "dataset": dataset.sha256,
        "embedder": like.embedder.fingerprint,
        "k": K,
        "beyond": PERTURBATION,
        "content_bytes": content_bytes(dataset.spaces, like.config.context_len),
    }


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


def plan(record: MemoryRecord, asked: Asked, width: int) -> list[Place]:
    """List what is still to be measured, and note in the record what does not fit."""
    known = {Place(read.width, read.size, read.index) for read in record.reads}
    places = [Place(*each) for each in product(asked.widths or [width], asked.sizes, asked.indexes)]
    todo = [place for place in places if place not in known]
    reasons = {place: too_large(place) for place in todo}
    record.skipped = [{**asdict(at), "reason": reason} for at, reason in reasons.items() if reason]
    return [place for place, reason in reasons.items() if reason is None]


def read_all(
    todo: Sequence[Place], keys: RealKeys, like: Memory, record: MemoryRecord, tracker: Tracker
) -> None:
    """Measure one place after the other, those of one size against the same exact neighbours."""
    tracker.start("read", total=len(todo))
    done = 0
    for (width, size), places in groupby(todo, lambda place: (place.width, place.size)):
        kth = exact_kth(keys, size, width)
        for place in places:
            tracker.advance(done, f"{place.index}, {size:,} x {width}")
            record.keep(measure(place.index, keys, size, width, kth, like))
            done += 1
    tracker.finish()


def too_large(place: Place) -> str | None:
    """Say why an index is not built at a size, or None if it is."""
    size, width = place.size, place.width
    needed = size * (2 * 4 * width + width + 128)  # while keys move to a larger place
    if place.index == "faiss-hnsw" and size * width > LARGEST_GRAPH:
        return "a graph of so many keys takes one thread hours to build"
    if needed > 0.9 * (free := free_memory()):
        return f"needs some {needed / 2**30:.0f} GiB of RAM, {free / 2**30:.0f} are free"
    return None


def content_bytes(spaces: TaskSpaces, context_len: int) -> int:
    """Return the bytes of a whole chunk of 2C steps: states, actions and rewards as collected."""
    state, action = spaces.state, spaces.action
    step = state.dtype.itemsize * prod(state.shape) + action.dtype.itemsize * prod(action.shape)
    return 2 * context_len * (step + 4)  # a reward takes four


COLUMNS = (
    *("entries", "width", "index", "recall", "p50 ms", "p99 ms", "raw", "own task", "raw"),
    *("Eq. 3-5", "build s", "bytes/entry", "of content", "searched"),
)
TIMES = (
    *("p50_ms", "p99_ms", "raw_p50_ms", "own_task_p50_ms", "own_task_raw_p50_ms"),
    "retrieve_p50_ms",
)


def _table(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
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


def main(
    out: Path | None = None, asked: Asked = ALL, json_only: bool = False, quiet: bool = False
) -> int:
    """Run the benchmark, write its JSON and print the claims and the ratio last."""
    out = out or OUT
    record = bench_memory(out, asked, quiet=quiet)
    if not json_only:
        for claim in record["claims"]:
            print(claim["said"])
    title = f"one read of {K}; the ratio is Faiss flat / flat, {FLAT[2]} queries at once"
    publish(record, title, _table(record), out, json_only, COLUMNS)
    return 0
