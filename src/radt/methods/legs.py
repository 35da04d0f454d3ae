"""Showing the way to the next reward: a chunk, leg by leg.

Who looks for a key and finds in its chunk many rewards at a door goes to the door. So an agent that
has had n rewards in its trial is shown the leg of the chunk that leads from its n-th reward to the
next one, and the step after it, where that reward was, if the trial went on. Training shows legs in
the same way, and asks only for the actions of the steps that are on that leg, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from radt.data.reader import Dataset
from radt.methods.windows import Windows, rewards_before
from radt.trajectory import Batch

LEGS = 4  # to the first, second and third reward, and all that comes after it


def leg_of(chunks: Batch, leg: Tensor) -> Batch:
    """Show one leg [B] of each chunk [B, M], and the step after it."""
    on_leg = rewards_before(chunks.rewards * chunks.mask).clamp_max(LEGS - 1) == leg[:, None]
    return replace(chunks, mask=chunks.mask & (on_leg | pad(on_leg[:, :-1], (1, 0))))


def legs_of_windows(dataset: Dataset, windows: Windows, recent: Batch) -> Tensor:
    """Return on which leg of its episode each step of each window is, [B, L]."""
    first, longest = np.zeros_like(windows.start), max(1, int(windows.start.max()))
    earlier = dataset.windows(windows.episode, first, longest)  # [B, longest]
    before = earlier.mask & (earlier.timesteps < torch.from_numpy(windows.start)[:, None])
    had = (before & (earlier.rewards > 0)).sum(1, keepdim=True)  # [B, 1]
    return (had + rewards_before(recent.rewards)).clamp_max(LEGS - 1)


def draw_legs(legs: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw one leg [B] of each window by the root of its share of the targets [B, L].

    Long episodes are spent on the goal; the root lets short ways count for more than their steps.
    """
    steps = torch.stack([((legs == leg) & targets).sum(1) for leg in range(LEGS)], dim=1)
    chance = steps.double().sqrt().cumsum(1)  # [B, LEGS]
    drawn = torch.from_numpy(rng.random(len(legs)))[:, None] * chance[:, -1:]
    return (chance <= drawn).sum(1).clamp_max(LEGS - 1)
