"""How much RAM the entries of a memory take, counted column by column.

What a process grows by would say less: it gives memory that was freed to whatever comes next.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from radt.memory.index import FlatIndex, Index
from radt.memory.index.approximate import ApproximateIndex
from radt.memory.index.faiss_indexes import faiss_library
from radt.memory.memory import Memory


def held_bytes(memory: Memory, index: Index) -> int:
    """Count the bytes of an index and of the entries beside it; chunks are not counted."""
    assert isinstance(index, ApproximateIndex | FlatIndex)
    columns = (getattr(memory.entries, field.name) for field in fields(memory.entries))
    beside: int = sum(column.nbytes for column in columns) + memory.store.numbers.nbytes
    finder: Any = index.finder if isinstance(index, ApproximateIndex) else None
    return index.table.nbytes + beside + (0 if finder is None else faiss_bytes(finder.index))


def faiss_bytes(index: Any) -> int:
    """Count the bytes of what Faiss would write, a megabyte at a time and without keeping it."""
    faiss, written = faiss_library(), 0

    def count(part: bytes) -> None:
        nonlocal written
        written += len(part)

    faiss.write_index(index, faiss.PyCallbackIOWriter(count))
    return written
