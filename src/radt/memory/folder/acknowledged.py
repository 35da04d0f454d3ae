"""A small file that says which database of a folder counts, and how many writes it must hold.

A database whose log was cut off opens without a complaint and knows nothing of its last writes.
This file is the witness: it is written, and flushed to the disk, after each commit and before the
write is acknowledged. Two records take turns, so that one is whole at any moment.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from radt.files import atomic_write
from radt.memory.rows import digest

NAME = "acknowledged"
RECORD = re.compile(rb"(generation (\d{10}) writes (\d{15})) ([0-9a-f]{32})\n")
LENGTH = 78


@dataclass(frozen=True, order=True)
class Acknowledged:
    """The database that counts, by its number, and the writes that were promised to be in it."""

    generation: int
    writes: int

    def to_bytes(self) -> bytes:
        """Return the record, always of the same length."""
        text = f"generation {self.generation:010d} writes {self.writes:015d}".encode()
        return text + b" " + digest(text).hex().encode() + b"\n"


def read_acknowledged(folder: Path) -> Acknowledged | None:
    """Return the later of the records that are whole; None where there is none."""
    path = folder / NAME
    content = path.read_bytes() if path.is_file() else b""
    records = []
    for start in (0, LENGTH):
        found = RECORD.fullmatch(content[start : start + LENGTH])
        if found and digest(found[1]).hex().encode() == found[4]:
            records.append(Acknowledged(int(found[2]), int(found[3])))
    return max(records, default=None)


def begin_acknowledging(folder: Path, first: Acknowledged) -> None:
    """Make the file, or make it anew."""
    atomic_write(folder / NAME, 2 * first.to_bytes())


def acknowledge(folder: Path, now: Acknowledged) -> None:
    """Put down that a write is safe, in the place of the record before the last."""
    with (folder / NAME).open("r+b") as file:
        file.seek(LENGTH * (now.writes % 2))
        file.write(now.to_bytes())
        file.flush()
        os.fsync(file.fileno())
