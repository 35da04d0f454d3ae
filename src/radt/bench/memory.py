"""`radt bench memory`: what one read costs in memories of up to ten million entries.

One query asks for the 50 most similar entries of the whole memory. Keys are real chunk embeddings,
and more of their kind where there are not enough. An entry that is found counts if it is as similar
as the exact 50th, or less than 1e-6 behind: many keys of a grid world are equal, so that ids say
nothing. An index qualifies where it finds 95%.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, cast

from radt.bench.memory_keys import PERTURBATION, RealKeys, real_keys
from radt.bench.memory_reads import K, Read, exact_kth, flat_against_faiss, measure
from radt.bench.report import publish, with_provenance
from radt.data import DataError, Dataset, dataset_folder
from radt.data.reader import free_memory
from radt.experiments.run import RunError
from radt.loading import load, shipped
from radt.memory.index.auto import choice
from radt.spaces import TaskSpaces
from radt.track import Tracker

OUT = Path("runs/bench/memory.json")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
INDEXES = ("flat", "faiss-hnsw", "faiss-ivf")
FLAT = (100_000, 512, 128)  # entries, width, queries at once
QUALIFIES = 0.95
SLOWER = 4.0  # times that a read at the largest size may take, of the fastest at the smallest
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


ALL = Asked()


def bench_memory(
    asked: Asked = ALL, flat: tuple[int, int, int] = FLAT, quiet: bool = True
) -> dict[str, Any]:
    """Measure reads, and many queries at once beside Faiss's flat index.

    Args:
        asked: What is measured.
        flat: Entries, width and number of queries of the comparison with Faiss.
        quiet: Draw no bars.
    """
    tracker = Tracker(quiet=quiet)
    loaded = load(asked.checkpoint or shipped())
    dataset = _dataset(asked.data or dataset_folder(loaded.card.env, "ppo", 0))
    context_len = cast(Any, loaded.method).options.memory.context_len
    embedder = cast(Any, loaded.method).embedder
    most = min(asked.real, max(*asked.sizes, flat[0]))
    keys = _embedded(embedder, dataset, context_len, most, asked.reads, tracker)
    found, skipped = read_all(keys, asked, tracker)
    compared = flat_against_faiss(keys, *flat)
    content = content_bytes(dataset.spaces, context_len)
    measured = {
        "env": loaded.card.env,
        "dataset": dataset.sha256,
        "embedder": embedder.fingerprint,
        "k": K,
        "real_keys": len(keys.keys),
        "beyond": PERTURBATION,
        "content_bytes": content,
        "reads": [asdict(read) for read in found],
        "skipped": skipped,
        "flat": compared,
        "claims": claims(found, compared["times_as_fast"]),
    }
    return with_provenance("memory", measured, compared["times_as_fast"])


def _dataset(folder: Path) -> Dataset:
    try:
        return Dataset.open(folder)
    except DataError as error:
        raise RunError(
            f"{error}\nreal keys come from a dataset: radt collect dark-room-10x10, or --data DIR"
        ) from error


def _embedded(
    embedder: Any, dataset: Dataset, context_len: int, count: int, reads: int, tracker: Tracker
) -> RealKeys:
    done = 0

    def advance(episodes: int) -> None:
        nonlocal done
        done += episodes * (context_len - 1)
        tracker.advance(min(done, count + reads))

    tracker.start("embed", total=count + reads)
    keys = real_keys(embedder, dataset, context_len, count, reads, advance)
    tracker.finish()
    return keys


def read_all(
    keys: RealKeys, asked: Asked, tracker: Tracker
) -> tuple[list[Read], list[dict[str, Any]]]:
    """Measure every index at every size and width that fits, and say why others do not."""
    reads, skipped = list[Read](), list[dict[str, Any]]()
    places = list(product(asked.widths or [keys.width], asked.sizes))
    tracker.start("read", total=len(places) * len(asked.indexes))
    for width, size in places:
        kth = None
        for name in asked.indexes:
            tracker.advance(len(reads) + len(skipped), f"{name}, {size:,} x {width}")
            reason = too_large(name, size, width)
            if reason:
                skipped.append({"index": name, "size": size, "width": width, "reason": reason})
            else:
                kth = exact_kth(keys, size, width) if kth is None else kth
                reads.append(measure(name, keys, size, width, kth))
    tracker.finish()
    return reads, skipped


def too_large(name: str, size: int, width: int) -> str | None:
    """Say why an index is not built at a size, or None if it is."""
    needed = size * (2 * 4 * width + width + 64)  # while keys move to a larger place
    if name == "faiss-hnsw" and size * width > LARGEST_GRAPH:
        return "a graph of so many keys takes one thread hours to build"
    if needed > 0.9 * (free := free_memory()):
        return f"needs some {needed / 2**30:.0f} GiB of RAM, {free / 2**30:.0f} are free"
    return None


def content_bytes(spaces: TaskSpaces, context_len: int) -> int:
    """Return the bytes of a whole chunk of 2C steps: states, actions and rewards as collected."""
    state, action = spaces.state, spaces.action
    step = state.dtype.itemsize * prod(state.shape) + action.dtype.itemsize * prod(action.shape)
    return 2 * context_len * (step + 4)  # a reward takes four


def claims(reads: Sequence[Read], times_as_fast: float) -> dict[str, Any]:
    """Put the figures beside what they must reach."""
    first = min((read.width for read in reads), default=0)
    fastest = [
        min(qualified, key=lambda read: read.p50_ms)
        for size in sorted({read.size for read in reads})
        if (qualified := [read for read in reads if qualifies(read, size, first)])
    ]
    slower = fastest[-1].p50_ms / fastest[0].p50_ms if fastest else None
    return {
        "recall_at_every_size": {read.size: read.recall for read in fastest},
        "fastest": {read.size: read.index for read in fastest},
        "auto_chooses": {read.size: choice(read.width, read.size) for read in fastest},
        "times_as_slow_at_the_largest": slower,
        "times_as_slow_holds": slower is not None and slower <= SLOWER,
        "interface_holds": all(read.interface_fits for read in reads),
        "flat_times_as_fast": times_as_fast,
        "flat_holds": times_as_fast >= 4,
    }


def qualifies(read: Read, size: int, width: int) -> bool:
    """Say whether a read at a size and width finds enough."""
    return (read.size, read.width) == (size, width) and read.recall >= QUALIFIES


COLUMNS = (
    *("entries", "width", "index", "recall", "p50 ms", "p99 ms", "raw", "own task", "build s"),
    *("bytes/entry", "of content", "searched"),
)


def _table(record: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{read['size']:,}",
            str(read["width"]),
            read["index"],
            f"{read['recall']:.3f}",
            f"{read['p50_ms']:.3f}",
            f"{read['p99_ms']:.3f}",
            f"{read['raw_p50_ms']:.3f}",
            f"{read['own_task_p50_ms']:.3f}",
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
    """Run the benchmark, write its JSON and print the ratio last."""
    record = bench_memory(asked, quiet=quiet)
    title = f"one read of {K}; the ratio is Faiss flat / flat, {FLAT[2]} queries at once"
    publish(record, title, _table(record), out or OUT, json_only, COLUMNS)
    return 0
