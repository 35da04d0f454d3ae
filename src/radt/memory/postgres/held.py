"""Keys of one task in RAM, to be searched there.

PostgreSQL computes cosines row by row: 10,000 take it several times as long as one product takes
here, and merely counting the rows as long. So a client holds the keys of the tasks it searches, and
the server searches what is too large for that, and all tasks at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from radt.memory.index import FlatIndex

HELD = 16_384 * 64  # numbers in the keys of a task that is held

Read = Callable[[Tensor], tuple[Tensor, Tensor]]  # numbers [n] -> those still there, and their keys


class HeldTask:
    """The keys of a task's entries, by the numbers of the entries, in an exact index."""

    def __init__(self, width: int) -> None:
        self.index = FlatIndex(width)
        self._numbers = torch.zeros(0, dtype=torch.int64)  # [n] of the keys in the index
        self._newest = -1  # number that was ever asked for
        self._writes = -1  # as far as the memory had come then

    def follow(self, numbers: Callable[[], Tensor], writes: int, read: Read) -> None:
        """Bring the index to the entries that the task has now, if there was a write since."""
        if writes == self._writes:
            return
        now = numbers()
        kept = torch.isin(self._numbers, now)
        if not bool(kept.all()):
            self.index.remove(self._numbers[~kept])
            self._numbers = self._numbers[kept]
        new = now[now > self._newest]
        if len(new):
            there, keys = read(new)
            self.index.add(keys, torch.zeros_like(there), there)
            self._numbers = torch.cat([self._numbers, there])
            self._newest = int(new[-1])
        self._writes = writes
