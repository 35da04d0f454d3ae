"""Subgoals: chunks are shown up to the next reward.

An agent that looks for a key and sees many rewards at a door in its chunk goes to the door. So
after n rewards in its trial it is shown the part of the chunk from the n-th reward to the next one.
Training shows the same part and asks only for the actions that belong to it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from radt.data.reader import Dataset
from radt.methods.decision_cache import HeldChunks
from radt.methods.trials import RunningTrials
from radt.methods.windows import rewards_before
from radt.model.policy import DecisionTransformer
from radt.trajectory import Batch

SUBGOALS = 4  # the first, second and third reward of a trial, and all later ones


def show_subgoal(chunks: Batch, subgoal: Tensor) -> Batch:
    """Show the steps to one subgoal [B] of each chunk [B, M], and the step after them."""
    shown = rewards_before(chunks.rewards * chunks.mask).clamp_max(SUBGOALS - 1) == subgoal[:, None]
    return replace(chunks, mask=chunks.mask & (shown | pad(shown[:, :-1], (1, 0))))


def subgoals_of_windows(dataset: Dataset, episode: NDArray[np.int64], recent: Batch) -> Tensor:
    """Return the subgoal of its episode [B] that each step of each window leads to, [B, L]."""
    start = recent.timesteps[:, 0]  # [B]
    earlier = dataset.windows(episode, np.zeros_like(episode), max(1, int(start.max())))
    before = earlier.mask & (earlier.timesteps < start[:, None])
    had = (before & (earlier.rewards > 0)).sum(1, keepdim=True)  # [B, 1]
    return (had + rewards_before(recent.rewards)).clamp_max(SUBGOALS - 1)


def draw_subgoals(subgoals: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw one subgoal [B] of each window by the root of its share of the targets [B, L].

    Most steps of a long episode are spent on the goal; the root gives the others more weight.
    """
    steps = torch.stack([((subgoals == at) & targets).sum(1) for at in range(SUBGOALS)], dim=1)
    weight = steps.double().sqrt().cumsum(1)  # [B, SUBGOALS]
    drawn = torch.from_numpy(rng.random(len(subgoals)))[:, None] * weight[:, -1:]
    return (weight <= drawn).sum(1).clamp_max(SUBGOALS - 1)


class HeldSubgoals(HeldChunks):
    """Chunks of which each slot is shown the part that leads to its trial's next reward."""

    def __init__(self, policy: DecisionTransformer, nothing: Batch) -> None:
        super().__init__(policy, nothing)
        self.whole = nothing.rows(torch.arange(len(nothing)))  # [slots, k * 2C]
        self._subgoal = torch.full((len(self.whole),), -1)  # [slots] that is shown; -1: none yet

    def hold(self, chunks: Batch, slots: Tensor) -> None:
        """Keep other chunks, of which nothing is shown yet."""
        self.whole.put(slots, chunks)
        self._subgoal[slots] = -1

    def drop(self, slots: Tensor) -> None:
        """Hold nothing in some slots."""
        super().drop(slots)
        self.whole.mask[slots] = False
        self._subgoal[slots] = -1

    def show(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        """After a reward, show the part of the chunk that leads to the next one."""
        rows, had = torch.from_numpy(slots), torch.from_numpy(trials.rewards_so_far[slots])
        subgoal = had.clamp_max(SUBGOALS - 1)  # [B]
        turned = self._subgoal[rows] != subgoal
        if bool(turned.any()):
            subgoal, rows = subgoal[turned], rows[turned]
            self._subgoal[rows] = subgoal
            super().hold(show_subgoal(self.whole.rows(rows), subgoal), rows)
