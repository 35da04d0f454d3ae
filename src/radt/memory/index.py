"""How keys are searched: cosine similarity, batched, partitioned by task (Eq. 3).

Similarities are rounded to a grid of 2^-20, so that equal keys tie in every implementation and
ties go to the newest entry. `FlatIndex` (torch) and `NumpyIndex` then agree exactly; Faiss
agrees up to its own rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from radt.registry import Registry

GRID = 2.0**20


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1 in double precision; the zero vector stays and resembles none."""
    vectors = vectors.double()
    if not torch.isfinite(vectors).all():
        raise ValueError("a key or query holds NaN or infinity; check the embedder's input")
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp_min(1e-12)


def similarity(queries: Tensor, keys: Tensor) -> Tensor:
    """Cosine of unit vectors on the grid: [..., B, d] and [..., N, d] -> [..., B, N] float32."""
    product = queries @ keys.transpose(-1, -2)
    return (product * GRID).round_().div_(GRID).float()


class Index(Protocol):
    """Finds the most similar keys; ids count keys in the order they were added."""

    def add(self, keys: Tensor, partition: Tensor) -> None:
        """Add keys [n, d] with the partition [n] each belongs to."""
        ...

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1.

        `partition` [B] restricts each query to the keys of one partition.
        """
        ...

    def __len__(self) -> int:
        """Return how many keys there are."""
        ...


class FlatIndex:
    """Exact search as one matrix product, on the device of the queries."""

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.keys = torch.zeros(0, width, dtype=torch.float64, device=device)  # [N, d]
        self.partition = torch.zeros(0, dtype=torch.int64)  # [N]
        self._members: Tensor | None = None  # [P, longest] ids by partition, -1 where absent

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Tensor, partition: Tensor) -> None:
        """Add keys [n, d] with the partition [n] each belongs to."""
        self.keys = torch.cat([self.keys, unit(keys).to(self.keys.device)])
        self.partition = torch.cat([self.partition, partition.cpu()])
        self._members = None

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        directions = unit(queries).to(self.keys.device)  # [B, d]
        if partition is None:
            scores = similarity(directions, self.keys)  # [B, N]
            best, column = best_first(scores, k)
            return pad(best, column, k)
        ids = self._ids_of(partition.cpu())  # [B, longest]
        candidates = self.keys[ids.clamp_min(0)]  # [B, longest, d]
        scores = similarity(directions[:, None], candidates)[:, 0]  # [B, longest]
        scores = scores.masked_fill((ids < 0).to(scores.device), -torch.inf)
        best, column = best_first(scores, k)
        return pad(best, ids.to(column.device).gather(1, column), k)

    def _ids_of(self, partition: Tensor) -> Tensor:
        """List the ids of each query's partition in rising order, [B, longest]."""
        if self._members is None:
            self._members = group(self.partition)
        if not self._members.numel():
            return torch.full((len(partition), 0), -1)
        known = (partition >= 0) & (partition < len(self._members))
        rows = self._members[partition.clamp(0, len(self._members) - 1)]
        return torch.where(known[:, None], rows, -1)


def group(partition: Tensor, partitions: int = 0) -> Tensor:
    """Turn a partition number per id, [N], into rising ids per partition, [P, longest], then -1.

    There are at least so many `partitions`, whether or not all of them have ids.
    """
    if not len(partition):
        return torch.full((partitions, 0), -1)
    count = torch.bincount(partition, minlength=partitions)
    order = torch.sort(partition, stable=True).indices
    column = torch.arange(len(partition)) - (count.cumsum(0) - count)[partition[order]]
    table = torch.full((len(count), int(count.max())), -1)
    table[partition[order], column] = order
    return table


def best_first(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best scores on the grid of each row and their columns; ties go to the last.

    The last is the newest: an agent that lives on must be able to find what it did lately.
    """
    count = scores.shape[1]
    column = torch.arange(count, device=scores.device)
    rank = scores.double().mul_(GRID * count).add_(column)  # whole numbers, so no two are equal
    best = rank.topk(min(k, count), dim=1).indices
    return scores.gather(1, best), best


def pad(scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Fill up to k columns with -inf and -1, and mark absent ids."""
    ids = torch.where(torch.isneginf(scores), -1, ids)
    short = k - scores.shape[1]
    if short > 0:
        scores = torch.cat([scores, scores.new_full((len(scores), short), -torch.inf)], dim=1)
        ids = torch.cat([ids, ids.new_full((len(ids), short), -1)], dim=1)
    return scores, ids


class NumpyIndex:
    """The same search written as a reader would check it: one query at a time, in NumPy."""

    def __init__(self, width: int) -> None:
        self.keys = np.zeros((0, width))
        self.partition = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Tensor, partition: Tensor) -> None:
        """Add keys [n, d] with the partition [n] each belongs to."""
        self.keys = np.concatenate([self.keys, unit(keys).numpy()])
        self.partition = np.concatenate([self.partition, partition.numpy()])

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        ids = np.full((len(queries), k), -1)
        for row, query in enumerate(unit(queries).numpy()):
            cosine = (np.round(self.keys @ query * GRID) / GRID).astype(np.float32)
            if partition is not None:
                cosine[self.partition != int(partition[row])] = -np.inf
            best = len(cosine) - 1 - np.argsort(-cosine[::-1], kind="stable")[:k]
            best = best[np.isfinite(cosine[best])]
            scores[row, : len(best)] = cosine[best]
            ids[row, : len(best)] = best
        return torch.from_numpy(scores), torch.from_numpy(ids)


class FaissIndex:
    """Faiss behind the same interface, one Faiss index per partition and one over all."""

    def __init__(self, width: int, kind: str = "flat") -> None:
        self.width, self.kind = width, kind
        self._keys = FlatIndex(width)
        self._built: dict[int | None, tuple[Any, Tensor]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Tensor, partition: Tensor) -> None:
        """Add keys [n, d] with the partition [n] each belongs to."""
        self._keys.add(keys, partition)
        self._built.clear()

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        directions = unit(queries).float().numpy()
        if partition is None or not len(partition):
            return self._search_one(directions, k, None)
        found = [
            self._search_one(directions[row : row + 1], k, int(part))
            for row, part in enumerate(partition)
        ]
        scores, ids = zip(*found, strict=True)
        return torch.cat(scores), torch.cat(ids)

    def _search_one(
        self, directions: np.ndarray[Any, Any], k: int, part: int | None
    ) -> tuple[Tensor, Tensor]:
        if part not in self._built:
            self._built[part] = self._build(part)
        index, ids = self._built[part]
        if not len(ids):
            empty = torch.zeros(len(directions), 0)
            return pad(empty, empty.long(), k)
        values, columns = index.search(directions, min(k, len(ids)))
        scores, column = torch.from_numpy(values), torch.from_numpy(columns)
        scores = scores.masked_fill(column < 0, -torch.inf)
        return pad(scores, ids[column.clamp_min(0)], k)

    def _build(self, part: int | None) -> tuple[Any, Tensor]:
        try:
            import faiss
        except ImportError as error:
            raise ImportError("this index needs Faiss: pip install 'radt[faiss]'") from error
        ids = torch.arange(len(self)) if part is None else (self._keys.partition == part).nonzero()
        ids = ids.reshape(-1)
        metric = faiss.METRIC_INNER_PRODUCT
        index: Any = faiss.IndexFlatIP(self.width)
        if self.kind == "hnsw":
            index = faiss.IndexHNSWFlat(self.width, 32, metric)
            index.hnsw.efConstruction = 200
            index.hnsw.efSearch = 256
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # a graph built by several threads differs from run to run
        index.add(self._keys.keys[ids].float().numpy())
        faiss.omp_set_num_threads(threads)
        return index, ids


class FaissHNSWIndex(FaissIndex):
    """Approximate search in a navigable small-world graph."""

    def __init__(self, width: int) -> None:
        super().__init__(width, kind="hnsw")


INDEXES: Registry[Callable[[int], Index]] = Registry("indexes", "index")
INDEXES.register("flat", FlatIndex)
INDEXES.register("numpy", NumpyIndex)
INDEXES.register("faiss-flat", FaissIndex)
INDEXES.register("faiss-hnsw", FaissHNSWIndex)
