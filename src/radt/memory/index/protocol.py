"""The plug point of indexes: how keys are searched, and what every index refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from radt.registry import Registry


class Index(Protocol):
    """Finds the most similar keys: by cosine, batched, partitioned by task.

    An index is a cache: it can be built anew from ids, keys and partitions at any time, and the
    same ones give the same index. A search in a partition is exact inside the partition; only one
    over all partitions may miss some. Every relevance is exact. An index is called by one thread
    at a time. One that has `to(device)`, too, is told where networks compute before it gets keys.
    """

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each.

        Ids rise in the order of adding and never come twice; without them keys are counted.
        """

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]; the others keep theirs."""

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first, ties newest first.

        Where there are fewer keys: -inf and -1. `partition` [B] restricts each query to the keys
        of one partition.
        """

    def __len__(self) -> int:
        """Return how many keys there are."""


INDEXES: Registry[Callable[[int], Index]] = Registry("indexes", "index")  # built for a key width


def build_index(name: str, width: int, device: torch.device | str = "cpu") -> Index:
    """Build an index for keys of a width, on a device if it can search there."""
    index = INDEXES[name](width)
    if (move := getattr(index, "to", None)) is not None:
        move(device)
    return index


def check_new(
    keys: Tensor, partition: Tensor, ids: Tensor | None, width: int, newest: int
) -> Tensor:
    """Return the ids of new keys [n, d]: those given, or the numbers after the newest one."""
    count = len(keys)
    _check_vectors("keys", keys, width)
    _check_numbers("partition", partition, count)
    if ids is None:
        return torch.arange(newest + 1, newest + 1 + count)
    _check_numbers("ids", ids, count)
    ids = ids.cpu().long()
    after = torch.cat([torch.tensor([newest]), ids[:-1]])
    if bool((wrong := ids <= after).any()):
        raise ValueError(
            f"ids must rise and never come twice, but {int(ids[wrong][0])} follows "
            f"{int(after[wrong][0])}; number entries in the order they are written"
        )
    return ids


def check_queries(queries: Tensor, k: int, partition: Tensor | None, width: int) -> None:
    """Refuse queries of another shape than [B, d], and numbers that make no sense."""
    _check_vectors("queries", queries, width)
    if k < 1:
        raise ValueError(f"a search needs k of at least 1, not {k}")
    if partition is not None and partition.shape != (len(queries),):
        raise ValueError(
            f"{len(queries)} queries came with a partition of shape {list(partition.shape)}; give "
            "one number for each"
        )


def check_known(ids: Tensor, there: Tensor) -> None:
    """Refuse to remove ids [n] that are not all `there` [n]."""
    if not bool(there.all()):
        raise ValueError(
            f"there is no entry {int(ids[~there][0])} to remove; give ids that a search can find"
        )


def _check_vectors(name: str, vectors: Tensor, width: int) -> None:
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise ValueError(
            f"{name} must have the shape [n, {width}], not {list(vectors.shape)}; was another "
            "embedder used?"
        )


def _check_numbers(name: str, numbers: Tensor, count: int) -> None:
    if numbers.shape != (count,) or numbers.is_floating_point():
        raise ValueError(
            f"{name} must be {count} whole numbers, one for each key, not {numbers.dtype} of shape "
            f"{list(numbers.shape)}"
        )
    if count and int(numbers.min()) < 0:
        raise ValueError(f"{name} must be 0 or more, not {int(numbers.min())}")
