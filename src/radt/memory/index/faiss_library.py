"""Faiss, imported where it is used: it comes with the extra `radt[faiss]`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from radt.memory.index.table import KeyTable


def faiss_library() -> Any:
    """Return Faiss, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("this index needs Faiss: pip install 'radt[faiss]'") from error
    return faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """Let Faiss build with one thread: with several, what it builds differs from run to run."""
    faiss = faiss_library()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class LivingRows:
    """Tells Faiss which of the rows that it covers were not removed."""

    def __init__(self) -> None:
        self.selector: Any = None  # None: all of them
        self._known = (0, 0)  # removed, covered

    def follow(self, table: KeyTable, covered: int) -> None:
        """Look which rows are left, if anything has changed."""
        if self._known == (table.removed, covered):
            return
        self._known, self.selector = (table.removed, covered), None
        if table.removed:
            bits = np.packbits(table.living(slice(0, covered)).numpy(), bitorder="little")
            self.selector = faiss_library().IDSelectorBitmap(bits)
