"""An index: all keys in one matrix, one matrix product per search."""

from __future__ import annotations

import torch
from torch import Tensor

from radt.memory.index import (
    INDEXES,
    best_first,
    check_known,
    check_new,
    check_queries,
    similarity,
    unit,
)


class OneProduct:
    """Compares every query with every key, also those of other partitions."""

    def __init__(self, width: int) -> None:
        self.keys = torch.zeros(0, width, dtype=torch.float64)
        self.partition = torch.zeros(0, dtype=torch.int64)
        self.ids = torch.zeros(0, dtype=torch.int64)
        self.newest = -1

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each."""
        ids = check_new(keys, partition, ids, self.keys.shape[1], self.newest)
        self.keys = torch.cat([self.keys, unit(keys)])
        self.partition = torch.cat([self.partition, partition])
        self.ids = torch.cat([self.ids, ids])
        self.newest = max(self.newest, *ids.tolist()) if len(ids) else self.newest

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]."""
        check_known(ids, torch.isin(ids, self.ids))
        kept = ~torch.isin(self.ids, ids)
        self.keys, self.partition, self.ids = self.keys[kept], self.partition[kept], self.ids[kept]

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        check_queries(queries, k, partition, self.keys.shape[1])
        scores = similarity(unit(queries), self.keys)  # [B, N]
        if partition is not None:
            scores[partition[:, None] != self.partition] = -torch.inf
        found, column = best_first(scores, k)  # [B, min(k, N)]
        relevance = torch.full((len(queries), k), -torch.inf)
        ids = torch.full((len(queries), k), -1)
        relevance[:, : found.shape[1]] = found
        ids[:, : found.shape[1]] = self.ids[column].where(found.isfinite(), torch.tensor(-1))
        return relevance, ids


INDEXES.register("one-product", OneProduct)
