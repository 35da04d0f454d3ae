"""What finds the entries of a store by their keys: an index beside it, or the store itself."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from radt.memory.index import Index
from radt.memory.retrieve import Searchable
from radt.memory.store import Store, ids_of


class StoreIndex:
    """The keys of a store in an index, by the numbers of their entries, which never change."""

    def __init__(self, index: Index, store: Store) -> None:
        self._index, self._store = index, store
        self._numbers = store.numbers[:0]  # [n] of the keys in the index
        self._newest, self._removals = -1, store.removals
        self.follow()

    def __len__(self) -> int:
        return len(self._index)

    def follow(self) -> None:
        """Bring the index to what the store holds."""
        numbers = self._store.numbers
        if self._removals != self._store.removals:
            gone = self._numbers[~torch.isin(self._numbers, numbers)]
            if len(gone):
                self._index.remove(gone)
            self._removals = self._store.removals
        first = int(torch.searchsorted(numbers, self._newest, right=True))
        if first < len(numbers):
            tasks = self._store.entries.task[first:]
            self._index.add(self._store.keys[first:], tasks, numbers[first:])
            self._newest = int(numbers[-1])
        self._numbers, self._known = numbers, numbers.numpy()

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, both [B, k], best first; absent: -inf and -1."""
        relevance, numbers = self._index.search(queries, k, partition)
        return relevance.cpu(), ids_of(self._known, numbers.cpu())


class SearchingStore(Store, Searchable, Protocol):
    """A store that searches its entries itself, such as a server."""


class StoreSearch:
    """Such a store in the place of an index."""

    def __init__(self, store: SearchingStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store.entries)

    def follow(self) -> None:
        """The store knows what it holds."""

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, both [B, k], best first; absent: -inf and -1."""
        return self._store.search(queries, k, partition)
