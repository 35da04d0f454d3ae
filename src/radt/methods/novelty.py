"""Novelty from memory: what was tried without success becomes less likely.

While a task is not solved, an agent knows one useful thing: where it has been. Here it counts how
often it took each action in each state, over all trials of the task, and lowers the logits of what
it did often. With the first success the counts have done their work and are ignored.

A reward on the way, such as a key, opens a new stage of the trial: what was tried before it says
nothing about what comes after it, so each stage has its own counts. And where rewards have led
before, there is a way to follow instead of one to look for: only the farthest stage is explored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces

STAGES = 4  # rewards of a trial that are told apart: none, one, two, more


class Novelty:
    """Counts of state-action pairs per slot; they need states that recur, so discrete ones."""

    def __init__(self, spaces: TaskSpaces, slots: int, weight: float) -> None:
        discrete = spaces.state.kind == "discrete" and spaces.action.kind == "discrete"
        self.weight = weight if discrete else 0.0
        self.bins = spaces.state.bins
        cells = math.prod(self.bins) if self.weight else 0
        self.counts = np.zeros((slots, STAGES, cells, spaces.action.size), dtype=np.int64)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start new tasks in some slots."""
        self.counts[slots] = 0

    def kept(self) -> dict[str, Tensor]:
        """Return what is worth saving."""
        return {"tried": torch.from_numpy(self.counts)}

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Know what was saved and nothing else; an agent that did not count has tried nothing."""
        self.forget(np.arange(len(self.counts)))
        if "tried" in kept and kept["tried"].shape == self.counts.shape:
            self.counts[:] = kept["tried"].numpy()

    def adjust(self, logits: Tensor, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Count each slot's latest step and lower the logits [B, A] of what it has tried here."""
        if not self.weight:
            return logits
        now = trials.step[slots]
        moved = slots[now > 0]
        last = trials.step[moved] - 1
        before = self._cell(trials.states[moved, last])
        left = np.minimum(trials.stage[moved] - (trials.rewards[moved, last] > 0), STAGES - 1)
        self.counts[moved, left, before, trials.actions[moved, last]] += 1
        stage = np.minimum(trials.stage[slots], STAGES - 1)
        times = self.counts[slots, stage, self._cell(trials.states[slots, now])]  # [B, A]
        penalty = self.weight * np.log1p(times) * trials.exploring(slots)[:, None]
        return logits - torch.from_numpy(penalty).to(logits)

    def _cell(self, states: NDArray[np.generic]) -> NDArray[np.intp]:
        """Number the states, [B, coordinates] -> [B]."""
        coordinates = states.reshape(len(states), len(self.bins)).T
        return np.asarray(np.ravel_multi_index(tuple(coordinates), self.bins))
