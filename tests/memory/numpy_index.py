"""The referee: the same search written as a reader would check it, in NumPy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from radt.memory.index import check_known, check_new, check_queries
from radt.memory.similarity import GRID, unit


class NumpyIndex:
    """Compares one query at a time with every key, in double precision, and sorts them all."""

    def __init__(self, width: int) -> None:
        self.keys = np.zeros((0, width))
        self.partition = np.zeros(0, dtype=np.int64)
        self.ids = np.zeros(0, dtype=np.int64)
        self.newest = -1

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each."""
        ids = check_new(keys, partition, ids, self.keys.shape[1], self.newest)
        self.keys = np.concatenate([self.keys, unit(keys).numpy()])
        self.partition = np.concatenate([self.partition, partition.numpy()])
        self.ids = np.concatenate([self.ids, ids.numpy()])
        self.newest = int(self.ids.max(initial=self.newest))

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]."""
        check_known(ids, torch.isin(ids, torch.from_numpy(self.ids)))
        kept = ~np.isin(self.ids, ids.numpy())
        self.keys, self.partition, self.ids = self.keys[kept], self.partition[kept], self.ids[kept]

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        check_queries(queries, k, partition, self.keys.shape[1])
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        ids = np.full((len(queries), k), -1)
        for row, query in enumerate(unit(queries).numpy()):
            cosine = (np.round(self.keys @ query * GRID) / GRID).astype(np.float32)
            if partition is not None:
                cosine[self.partition != int(partition[row])] = -np.inf
            best = len(cosine) - 1 - np.argsort(-cosine[::-1], kind="stable")[:k]
            best = best[np.isfinite(cosine[best])]
            scores[row, : len(best)] = cosine[best]
            ids[row, : len(best)] = self.ids[best]
        return torch.from_numpy(scores), torch.from_numpy(ids)
