"""Embeddings that were computed once: by what was embedded, in RAM and on disk.

A folder holds files of vectors, each named by the sha256 of its own content, so that a damaged one
is recognised and left out. Several processes may write into one folder: they add files and never
change one.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.files import atomic_write, sha256

WRITE_AFTER = 512  # new vectors: what a killed process loses at most
HASH_BYTES = 16
SUFFIX = ".safetensors"
OURS: set[str] = set()  # files that this process wrote: it has paid for what is in them


@dataclass
class Counts:
    """How often the cache was asked, and what it had to compute."""

    hits: int = 0  # asked for and known
    misses: int = 0  # asked for and unknown, equal ones counted each
    computed: int = 0  # distinct vectors that were computed
    seconds: float = 0.0  # spent on computing them
    from_disk: int = 0  # distinct vectors asked for that an earlier process had computed
    seconds_saved: float = 0.0  # what those had cost it


@dataclass
class EmbeddingCache:
    """Vectors by content hash; at most `most` are kept, what comes later is computed each time."""

    folder: Path
    width: int
    most: int
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._vectors: dict[bytes, NDArray[np.float32]] = {}
        self._unwritten: dict[bytes, float] = {}  # seconds that each vector to be written has taken
        self._saved: dict[bytes, float] = {}  # those of vectors that are still to be asked for
        for file in sorted(self.folder.glob(f"*{SUFFIX}")):
            self._read(file)

    def __len__(self) -> int:
        return len(self._vectors)

    def fetch(self, hashes: Sequence[bytes], compute: Callable[[list[int]], Tensor]) -> Tensor:
        """Return a vector per hash, [N, width]; `compute` gets the places of those to embed."""
        first: dict[bytes, int] = {}  # where each unknown content comes first
        for place, content in enumerate(hashes):
            if content not in self._vectors:
                first.setdefault(content, place)
            elif content in self._saved:
                self.counts.from_disk += 1
                self.counts.seconds_saved += self._saved.pop(content)
        begun = time.perf_counter()
        new = dict(zip(first, compute([*first.values()]).numpy(), strict=True)) if first else {}
        seconds = time.perf_counter() - begun
        found = np.empty((len(hashes), self.width), np.float32)
        for place, content in enumerate(hashes):
            found[place] = new[content] if content in new else self._vectors[content]
        missing = sum(content in new for content in hashes)
        self.counts.hits += len(hashes) - missing
        self.counts.misses += missing
        if new:
            self.counts.computed += len(new)
            self.counts.seconds += seconds
            self._unwritten |= dict.fromkeys(self._add(new), seconds / len(new))
        if len(self._unwritten) >= WRITE_AFTER:
            self.flush()
        return torch.from_numpy(found)

    def flush(self) -> None:
        """Write what was added since the last time into a file of its own."""
        if not self._unwritten:
            return
        content = safetensors.numpy.save(
            {
                "hashes": np.frombuffer(b"".join(self._unwritten), np.uint8).reshape(
                    -1, HASH_BYTES
                ),
                "vectors": np.stack([self._vectors[new] for new in self._unwritten]),
                "seconds": np.array([*self._unwritten.values()], np.float32),
            }
        )
        name = f"{hashlib.sha256(content).hexdigest()}{SUFFIX}"
        OURS.add(name)
        atomic_write(self.folder / name, content)
        self._unwritten.clear()

    def _add(self, vectors: Mapping[bytes, NDArray[np.float32]]) -> list[bytes]:
        """Keep vectors that are new, as many as there is room for, and return which."""
        fresh = [content for content in vectors if content not in self._vectors]
        fresh = fresh[: max(0, self.most - len(self))]
        self._vectors |= {content: vectors[content] for content in fresh}
        return fresh

    def _read(self, file: Path) -> None:
        """Take in a file, or say that it is damaged and remove it: it will be computed again."""
        if sha256(file) != file.name.removesuffix(SUFFIX):
            warnings.warn(f"{file} is damaged; its embeddings are computed again", stacklevel=4)
            file.unlink(missing_ok=True)
            return
        tensors = safetensors.numpy.load_file(file)
        hashes = [row.tobytes() for row in tensors["hashes"]]
        self._add(dict(zip(hashes, tensors["vectors"], strict=True)))
        if file.name not in OURS:
            self._saved |= dict(zip(hashes, tensors["seconds"].tolist(), strict=True))


def content_hash(content: bytes) -> bytes:
    """Name what was embedded by its content."""
    return hashlib.blake2b(content, digest_size=HASH_BYTES).digest()
