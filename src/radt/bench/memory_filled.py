"""Indexes and memories of millions of entries for measuring: all that a search needs, no chunks."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from radt.bench.memory_keys import RealKeys
from radt.memory.entries import Entries
from radt.memory.index import INDEXES, Index
from radt.memory.memory import Memory
from radt.memory.store import RamStore, ids_of

K = 50  # entries that one read asks for
RETURNS = 100  # different returns of episodes


class SearchedStore(RamStore):
    """Entries in RAM whose keys are in an index alone: ten million chunks would need 27 GB."""

    def __init__(self, index: Index, task: Tensor, like: Memory) -> None:
        super().__init__(like.spaces, like.config.context_len, like.embedder.width)
        self.index, number = index, torch.arange(len(task))
        self.known = number.numpy()
        step, returns = torch.zeros_like(number), (number % RETURNS).float()
        self._numbers.append(number)
        self._entries.append(Entries(task, number, number, step, step, step + 1, returns))

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, as an index beside a store does."""
        relevance, numbers = self.index.search(queries, k, partition)
        return relevance, ids_of(self.known, numbers)


def filled_index(name: str, real: RealKeys, size: int, width: int) -> tuple[Index, Tensor]:
    """Fill an index with so many keys and let it build what it needs; return their tasks, too."""
    index, tasks = INDEXES[name](width), list[Tensor]()
    for keys, task in real.blocks(size, width):
        index.add(keys, task)
        tasks.append(task)
    index.search(real.asked(width)[:1], K)
    return index, torch.cat(tasks)


def filled_memory(index: Index, task: Tensor, like: Memory) -> Memory:
    """Put a memory with the options of another around a filled index."""
    config = replace(like.config, top_l=K)
    return Memory(like.embedder, like.spaces, config, SearchedStore(index, task, like))
