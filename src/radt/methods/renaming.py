"""Renaming places: the same window and chunk, somewhere else in the room.

Eighty tasks are few, and their goals can be learned by heart instead of read from a chunk. Moved by
a random number of cells, as far as the room allows, a window and its chunk still fit each other,
but no cell means anything by itself: what helps is where the chunk's rewards are, seen from here.
Walls stay where they are: who ran into one seems to stand still in the middle of the room.
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
    moved = rng.random(len(recent)) < share  # [B]
    both = torch.cat([recent.states, retrieved.states], dim=1).long()  # [B, L + M, *state_shape]
    seen = torch.cat([recent.mask, retrieved.mask], dim=1).view(
        *both.shape[:2], *[1] * (both.ndim - 2)
    )
    last = torch.tensor(space.bins).view(space.shape) - 1
    least = both.where(seen, last).amin(1)  # [B, *state_shape]
    most = both.where(seen, 0).amax(1)
    by = torch.from_numpy(rng.integers(-least.numpy(), (last - most).numpy(), endpoint=True))
    by[~moved] = 0

    def renamed(batch: Batch) -> Batch:
        states = batch.states.long() + by[:, None]  # [B, L, *state_shape]
        return replace(batch, states=states.clamp_min(0).minimum(last).to(batch.states.dtype))

    return renamed(recent), renamed(retrieved)
