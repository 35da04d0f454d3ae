"""Two episodes as one input: an earlier episode of the same task, then the current one.

Algorithm Distillation and the Decision Transformer with two episodes see the data and act this way.
In training the earlier episode lies K before the current one; at work it is the last finished
trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset, Episodes
from radt.memory.memory import Memory
from radt.methods.trials import RunningTrials, last_real
from radt.model.policy import DecisionTransformer
from radt.model.stepwise import StepwisePolicy
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Retrieval, Trajectory, returns_to_go


def episode_before(episodes: Episodes, rows: NDArray[np.int64], skip: int) -> NDArray[np.int64]:
    """Return the row of the episode `skip` before each, the task's first if there are fewer.

    A task's first episode has none before it: -1.
    """
    index = episodes.index[rows]
    return np.where(index > 0, rows - np.minimum(skip, index), -1)


def whole_episodes(dataset: Dataset, rows: NDArray[np.int64]) -> Batch:
    """Read whole episodes, [B, T]; a row of -1 stays empty."""
    present = rows >= 0
    some = np.maximum(rows, 0)
    longest = int(dataset.episodes.length[some].max())
    batch = dataset.windows(some, np.zeros_like(some), longest)
    batch.mask[torch.from_numpy(~present)] = False
    return batch


def joined(earlier: Batch, current: Batch) -> Batch:
    """Put the real steps of two batches one behind the other, padded at the end."""
    both = [
        torch.cat([getattr(earlier, field.name), getattr(current, field.name)], dim=1)
        for field in fields(Batch)
    ]
    mask = both[-1]  # [B, L]
    longest = int(mask.sum(1).max())
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]  # real steps first
    rows = torch.arange(len(mask))[:, None]
    return Batch(*(values[rows, order] for values in both))


class EpisodePairActor:
    """Acts on the last finished trial and all of the running one."""

    memory: Memory | None = None
    retrieval: Retrieval | None = None
    asked: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def __init__(self, policy: DecisionTransformer, slots: int, cache: bool) -> None:
        self.policy, self.spaces = policy.eval(), policy.spaces
        self._finished = no_steps(policy.spaces, slots)  # [slots, T] the last trial of each
        self._stepwise = StepwisePolicy(policy, slots, 2 * self.spaces.horizon) if cache else None

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know of no trial."""
        self._finished.mask[slots] = False

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Nothing to prepare: the first decision of a trial reads the trial before it."""

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep each slot's latest trial, with the returns it turned out to have."""
        held = self._finished
        for trial in finished:
            slot, steps = trial.task, slice(0, len(trial))
            held.states[slot, steps] = torch.from_numpy(trial.states)
            held.actions[slot, steps] = torch.from_numpy(trial.actions)
            held.rewards[slot, steps] = torch.from_numpy(trial.rewards)
            held.returns_to_go[slot, steps] = torch.from_numpy(returns_to_go(trial.rewards))
            held.mask[slot] = torch.arange(self.spaces.horizon) < len(trial)

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Predict the next action of each slot, [B, action_size]."""
        if self._stepwise is None:
            recent = self._input(trials, slots)
            return last_real(recent, self.policy(recent).cpu())
        return self._stepwise.decide(
            torch.from_numpy(trials.step[slots] == 0),
            torch.from_numpy(slots),
            lambda some: self._input(trials, some.numpy()),
            lambda some: trials.latest(some.numpy(), self.policy.embed.no_action),
        )

    def _input(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Batch:
        """Join the last finished trial and the running one, [B, <=2T]."""
        earlier = self._finished.rows(torch.from_numpy(slots))
        return joined(earlier, trials.recent(slots, self.spaces.horizon))


def no_steps(spaces: TaskSpaces, rows: int) -> Batch:
    """Reserve room for one whole episode per row, none of it real yet, [B, T]."""
    trials = RunningTrials(spaces, rows)  # knows how each field is kept while acting
    time = torch.arange(spaces.horizon).repeat(rows, 1)
    return Batch(
        states=torch.from_numpy(trials.states),
        actions=torch.from_numpy(trials.actions),
        rewards=torch.from_numpy(trials.rewards),
        returns_to_go=torch.zeros(rows, spaces.horizon),
        timesteps=time,
        mask=torch.zeros(rows, spaces.horizon, dtype=torch.bool),
    )
