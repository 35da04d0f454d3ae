"""The record of a memory's reads: written after each, so that what was measured is never lost."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from radt.bench.memory_claims import claims, fastest_by_size
from radt.bench.memory_reads import Read
from radt.bench.report import with_provenance
from radt.decode import DecodeError, decode, differences
from radt.experiments.run import RunError
from radt.files import atomic_write
from radt.memory.index.faiss_indexes import choice


@dataclass
class MemoryRecord:
    """What was measured so far, with which keys, and the file where it stands."""

    file: Path
    about: dict[str, Any]
    reads: list[Read] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    flat: dict[str, Any] | None = None  # many queries at once beside Faiss's flat index

    @classmethod
    def open(cls, file: Path, about: dict[str, Any]) -> MemoryRecord:
        """Go on with the record of a file, or begin one; one of other keys is refused."""
        if not file.exists():
            return cls(file, about)
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            reads = decode(list[Read], found["reads"], "reads")
            theirs, flat = {name: found[name] for name in about}, found["flat"]
        except (KeyError, TypeError, DecodeError, json.JSONDecodeError) as error:
            raise RunError(
                f"{file} is no record of this benchmark ({error}); remove it or name another --out"
            ) from error
        if theirs != about:
            told = "; ".join(differences(theirs, about, ("in the file", "here")))
            raise RunError(
                f"{file} holds reads of other keys ({told}); remove it or name another --out"
            )
        return cls(file, about, reads, flat=flat)

    def keep(self, read: Read) -> None:
        """Add a read and write all down."""
        self.reads = sorted([*self.reads, read], key=lambda one: (one.width, one.size))
        self._write()

    def keep_flat(self, compared: dict[str, Any]) -> None:
        """Add the comparison with Faiss's flat index and write all down."""
        self.flat = compared
        self._write()

    def whole(self) -> dict[str, Any]:
        """Return the record with its verdicts and where it comes from."""
        times_as_fast = None if self.flat is None else self.flat["times_as_fast"]
        fastest = fastest_by_size(self.reads)
        measured = {
            **self.about,
            "reads": [asdict(read) for read in self.reads],
            "skipped": self.skipped,
            "flat": self.flat,
            "fastest": {read.size: read.index for read in fastest},
            "auto_chooses": {read.size: choice(read.width, read.size) for read in fastest},
            "claims": [
                {**asdict(claim), "said": str(claim)} for claim in claims(self.reads, times_as_fast)
            ],
        }
        return with_provenance("memory", measured, times_as_fast or 0.0)

    def _write(self) -> None:
        content = json.dumps(self.whole(), allow_nan=False, indent=1) + "\n"
        atomic_write(self.file, content.encode())
