"""Exact search in torch, on a CPU or a GPU."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.checks import check_queries
from radt.memory.index.few import Few, Gathered, answer, best_of_few, directions_of
from radt.memory.index.protocol import INDEXES
from radt.memory.index.rough import Directions
from radt.memory.index.scan import nearest
from radt.memory.index.table import KeyTable

SHORT = 256  # rows of a partition that are compared at once with those of others
ALONE = 1024  # rows that are, if nobody asks for another partition


class FlatIndex:
    """Compares a query with every key, or with every key of its partition."""

    def __init__(self, width: int, device: torch.device | str = "cpu") -> None:
        self.table = KeyTable(width, device)

    def __len__(self) -> int:
        return len(self.table)

    def to(self, device: torch.device | str) -> None:
        """Keep keys on a device, before there are any."""
        if len(self):
            raise ValueError(f"{len(self)} keys are on {self.table.device}; build another index")
        if torch.device(device).type != "mps":  # has no double precision
            self.table = KeyTable(self.table.width, device)

    def add(self, keys: Tensor, partition: Tensor, ids: Tensor | None = None) -> None:
        """Add keys [n, d] with the partition [n] each belongs to and an id [n] each."""
        self.table.add(keys, partition, ids)

    def remove(self, ids: Tensor) -> None:
        """Remove keys by their ids [n]."""
        self.table.remove(ids)

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids, both [B, k], best first; absent: -inf and -1."""
        check_queries(queries, k, partition, self.table.width)
        directions = directions_of(queries)  # [B, d]
        if partition is None:
            found = nearest(self.table, directions, k, range(self.table.size))
        else:
            found = self._in_partitions(directions, k, partition.tolist())
        return answer(self.table, *found, k)

    def _in_partitions(self, directions: Directions, k: int, partition: list[int]) -> Few:
        """Find the k best keys of each query's own partition."""
        members = {number: self.table.rows_of(number) for number in partition}
        longest = max((len(rows) for rows in members.values()), default=0)
        if longest > (ALONE if len(partition) == 1 else SHORT):
            return self._one_by_one(directions, k, partition, members)
        rows = np.full((len(partition), longest), -1)
        for row, number in enumerate(partition):
            rows[row, longest - len(members[number]) :] = members[number]
        return best_of_few(self.table, directions, rows, k)

    def _one_by_one(
        self,
        directions: Directions,
        k: int,
        partition: list[int],
        members: dict[int, NDArray[np.int64]],
    ) -> Few:
        """Search one partition after the other, each for all that ask for it."""
        gathered, asked = Gathered(len(partition), k), np.array(partition)
        for number, own in members.items():
            who = np.flatnonzero(asked == number)
            gathered.put(who, nearest(self.table, directions[who], k, own))
        return gathered.scores, gathered.rows


INDEXES.register("flat", FlatIndex)
