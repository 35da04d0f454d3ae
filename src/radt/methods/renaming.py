"""Renaming places: the same window and chunk, somewhere else in the room.

Eighty tasks are few, and their goals can be learned by heart instead of read from a chunk. Moved by
a random number of cells, around the edges, a window and its chunk still fit each other, but no cell
means anything by itself: what helps is to find the own place in the chunk and go on from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from radt.spaces import StateSpace
from radt.trajectory import Batch


def rename_places(
    recent: Batch, retrieved: Batch, space: StateSpace, share: float, rng: np.random.Generator
) -> tuple[Batch, Batch]:
    """Move a share of the rows, window [B, L] and chunk [B, M] alike, each by its own cells."""
    bins = torch.tensor(space.bins).view(space.shape)
    moved = torch.from_numpy(rng.random(len(recent)) < share)  # [B]
    by = torch.from_numpy(rng.integers(bins.numpy(), size=(len(recent), *space.shape)))
    by[~moved] = 0

    def renamed(batch: Batch) -> Batch:
        states = (batch.states.long() + by[:, None]) % bins  # [B, L, *state_shape]
        return replace(batch, states=states.to(batch.states.dtype))

    return renamed(recent), renamed(retrieved)
