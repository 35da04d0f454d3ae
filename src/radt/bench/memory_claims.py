"""What the measured reads of a memory must reach, and whether they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radt.bench.memory_reads import Read

QUALIFIES = 0.95  # of the exact neighbours, at least
SLOWER = 4.0  # times that a read at the largest size may take, of the fastest at the smallest
FASTER = 4.0  # than Faiss's flat index, many queries at once


@dataclass(frozen=True)
class Claim:
    """A figure beside what it must reach."""

    what: str
    reached: float
    bound: str
    holds: bool

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return f"{self.what}: {self.reached:.3f}, must be {self.bound}: {verdict}"


def claims(reads: Sequence[Read], times_as_fast: float | None = None) -> list[Claim]:
    """Put the figures beside what they must reach, as far as they are measured."""
    made = [*_of_the_fastest(reads), *_of_the_interface(reads)]
    if times_as_fast is not None:
        said = "many queries at once, times as fast as Faiss flat"
        made.append(Claim(said, times_as_fast, f"at least {FASTER:g}", times_as_fast >= FASTER))
    return made


def fastest_by_size(reads: Sequence[Read]) -> list[Read]:
    """Return the fastest read that finds enough at each size, of the narrowest keys."""
    width = min((read.width for read in reads), default=0)
    enough = [read for read in reads if read.width == width and read.recall >= QUALIFIES]
    sizes = sorted({read.size for read in enough})
    return [
        min((read for read in enough if read.size == size), key=lambda read: read.p50_ms)
        for size in sizes
    ]


def _of_the_fastest(reads: Sequence[Read]) -> list[Claim]:
    """Compare the fastest reads with each other."""
    fastest = fastest_by_size(reads)
    asked, served = {read.size for read in reads}, {read.size for read in fastest}
    lowest = min((read.recall for read in fastest), default=0.0) if asked == served else 0.0
    found = Claim(
        f"recall@50 of the fastest at each of {len(asked)} sizes, the lowest",
        lowest,
        f"at least {QUALIFIES:g}",
        lowest >= QUALIFIES,
    )
    if len(fastest) < 2:
        return [found]
    small, large = fastest[0], fastest[-1]
    slower = large.p50_ms / small.p50_ms
    what = f"p50 at {large.size:,} entries ({large.index}) over that at {small.size:,}"
    said = f"{what} ({small.index}), the fastest of each"
    return [found, Claim(said, slower, f"at most {SLOWER:g}", slower <= SLOWER)]


def _of_the_interface(reads: Sequence[Read]) -> list[Claim]:
    """Compare the memory's searches with the bare ones, each by the worst of all reads."""
    made = []
    for name, ours, raw, fits in (
        ("the memory's search", "p50_ms", "raw_p50_ms", "interface_fits"),
        ("within a task", "own_task_p50_ms", "own_task_raw_p50_ms", "own_task_fits"),
    ):
        worst = max((getattr(read, ours) - getattr(read, raw) for read in reads), default=0.0)
        holds = all(getattr(read, fits) for read in reads)
        said = f"{name} over the raw index, milliseconds more at most"
        made.append(Claim(said, worst, "at most 0.1, or a fifth of the raw index's", holds))
    return made
