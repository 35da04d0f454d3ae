"""The plug point of indexes: how keys are searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from radt.registry import Registry


class Index(Protocol):
    """Finds the most similar keys: by cosine, batched, partitioned by task.

    An index is a cache: it can be built anew from ids, keys and partitions at any time, and the
    same ones give the same index. A search in a partition is exact inside the partition; only one
    over all partitions may miss some. Every relevance is exact. An index is called by one thread
    at a time.
    """

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each.

        Ids rise in the order of adding and never come twice; without them keys are counted.
        """
        ...

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]; the others keep theirs."""
        ...

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first, ties newest first.

        Where there are fewer keys: -inf and -1. `partition` [B] restricts each query to the keys
        of one partition.
        """
        ...

    def __len__(self) -> int:
        """Return how many keys there are."""
        ...


@runtime_checkable
class Movable(Protocol):
    """An index that can also search where networks compute."""

    def to(self, device: torch.device | str) -> None:
        """Keep keys on a device, before there are any."""
        ...


INDEXES: Registry[Callable[[int], Index]] = Registry("indexes", "index")  # built for a key width


def build_index(name: str, width: int, device: torch.device | str = "cpu") -> Index:
    """Build an index for keys of a width, on a device if it can search there."""
    index = INDEXES[name](width)
    if isinstance(index, Movable):
        index.to(device)
    return index
