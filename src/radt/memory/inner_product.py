"""Search by the inner product, as the authors' code evaluates: long keys come before short ones.

Everything else here compares by the cosine, so that equal directions tie. This search multiplies
all keys of a store at each query; no index and no server takes part.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from radt.memory.similarity import best_first, on_grid
from radt.memory.store import Store


class InnerProducts:
    """Compares queries with the keys of a store as they are."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        keys, task = self._store.keys, self._store.entries.task
        product = on_grid(queries.cpu().double() @ keys.double().T)  # [B, N]
        if partition is not None:
            product = product.masked_fill(task != partition[:, None], -torch.inf)
        relevance, ids = best_first(product, k)
        missing = (0, k - ids.shape[1])
        relevance = pad(relevance, missing, value=-torch.inf)
        return relevance, pad(ids, missing, value=-1).masked_fill(relevance.isneginf(), -1)
