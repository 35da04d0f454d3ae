"""Renaming places: the same example of a task, somewhere else in the room.

Eighty tasks are few, and their goals can be learned by heart instead of read from what an agent has
lived through. Moved by a random number of cells, as far as the room allows, a window and all that
it is read with (a chunk, an earlier episode, a set) still fit each other, but no cell means
anything by itself: what helps is where the rewards were, seen from here. Walls stay where they are:
who ran into one seems to stand still in the middle of the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from radt.spaces import StateSpace, TaskSpaces
from radt.trajectory import Batch


def rename_places(
    seen: Sequence[tuple[Tensor, Tensor]], space: StateSpace, share: float, rng: np.random.Generator
) -> list[Tensor]:
    """Move a share of the rows of all states [B, L, *state_shape] alike, each by its own cells.

    Every tensor of states comes with the mask [B, L] of those that are real and bind the move.
    """
    moved = rng.random(len(seen[0][0])) < share  # [B]
    together = torch.cat([states for states, _ in seen], dim=1).long()  # [B, all L, *state_shape]
    real = torch.cat([mask for _, mask in seen], dim=1)
    real = real.view(*real.shape, *[1] * (together.ndim - 2))
    last = torch.tensor(space.bins).view(space.shape) - 1
    least = together.where(real, last).amin(1)  # [B, *state_shape]
    most = together.where(real, 0).amax(1)
    by = torch.from_numpy(rng.integers(-least.numpy(), (last - most).numpy(), endpoint=True))
    by[~moved] = 0
    return [
        (states.long() + by[:, None]).clamp_min(0).minimum(last).to(states.dtype)
        for states, _ in seen
    ]


def rename_batches(
    batches: Sequence[Batch], space: StateSpace, share: float, rng: np.random.Generator
) -> list[Batch]:
    """Move a share of the rows of all batches [B, L] alike; without a share nothing is drawn."""
    if not share:
        return list(batches)
    seen = [(batch.states, batch.mask) for batch in batches]
    moved = rename_places(seen, space, share, rng)
    return [replace(batch, states=states) for batch, states in zip(batches, moved, strict=True)]


def check_renamed(share: float, spaces: TaskSpaces) -> None:
    """Refuse to move states that are no places."""
    if share and spaces.state.kind != "discrete":
        raise ValueError("only discrete states can be renamed; leave out options.renamed")
