"""What a full memory forgets: each task keeps the most worthy of its entries.

Tasks do not compete: what one agent writes cannot make another forget. A policy only says how
worthy entries are; that a memory never holds more than it may is seen to here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from radt.memory.entries import Entries
from radt.registry import Registry

Worth = Callable[[Entries], Tensor]  # [N]: what is worth least goes first, of equals the oldest


def oldest_first(entries: Entries) -> Tensor:
    """Value all entries alike, so that the oldest go."""
    return torch.zeros(len(entries))


def lowest_return_first(entries: Entries) -> Tensor:
    """Value entries by the return of their episode."""
    return entries.total_return


EVICTIONS: Registry[Worth] = Registry("evictions", "eviction policy")
EVICTIONS.register("oldest", oldest_first)
EVICTIONS.register("lowest-return", lowest_return_first)


def surplus(entries: Entries, capacity: int, worth: Worth) -> Tensor:
    """Return which entries, oldest first, have to go so that no task has more than it may: [N]."""
    order = torch.sort(worth(entries), stable=True).indices
    order = order[torch.sort(entries.task[order], stable=True).indices]  # by task, then worth
    _, counts = torch.unique_consecutive(entries.task[order], return_counts=True)
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)  # [N] of its task
    rank = torch.arange(len(entries)) - first
    gone = torch.zeros(len(entries), dtype=torch.bool)
    gone[order] = rank < torch.repeat_interleave(counts - capacity, counts)
    return gone
