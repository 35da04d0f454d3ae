"""Decisions with a chunk at hand: what the policy saw, what it had retrieved, and what it did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.experiments.run import RunError
from radt.methods import Method
from radt.methods.ra_dt import RADT
from radt.trajectory import Batch


@dataclass(frozen=True)
class Moments:
    """Decisions of several tasks at once."""

    recent: Batch  # [B, L] the input, the present state last
    chunk: Batch  # [B, S] what was retrieved
    action: Tensor  # [B] int64: what was done
    task: NDArray[np.int64]  # [B]
    trial: NDArray[np.int64]  # [B] from 0
    step: NDArray[np.int64]  # [B] from 0
    earned: NDArray[np.float64]  # [B] in this trial so far
    chunk_return: NDArray[np.float64]  # [B] of the trial that the chunk is from

    def __len__(self) -> int:
        return len(self.task)

    @property
    def last(self) -> Tensor:
        """The place of the present step in the input, [B]."""
        return self.recent.mask.sum(1) - 1

    @property
    def state(self) -> Tensor:
        """The present state, [B, *state_shape]."""
        return self.recent.states[torch.arange(len(self)), self.last]

    @property
    def same_state(self) -> Tensor:
        """Which steps of the chunk stand in the present state, [B, S]."""
        equal = (self.chunk.states == self.state[:, None]).flatten(2).all(dim=2)
        return equal & self.chunk.mask

    def rows(self, chosen: NDArray[np.int64]) -> Moments:
        """Select decisions."""
        index = torch.from_numpy(chosen)
        return Moments(
            recent=self.recent.rows(index).trimmed(),
            chunk=self.chunk.rows(index),
            action=self.action[index],
            task=self.task[chosen],
            trial=self.trial[chosen],
            step=self.step[chosen],
            earned=self.earned[chosen],
            chunk_return=self.chunk_return[chosen],
        )


def on_the_way(kept: Sequence[Moments]) -> list[Moments]:
    """Select the decisions of trials that have earned nothing yet.

    Who stands on the goal stays there, whatever was retrieved, and there are many such decisions.
    """
    unpaid = [(moments, np.flatnonzero(moments.earned == 0)) for moments in kept]
    return [moments.rows(rows) for moments, rows in unpaid if len(rows)]


class MomentKeeper:
    """Keeps the decisions at some steps of every trial, of the slots that have a chunk at hand."""

    def __init__(self, steps: Collection[int]) -> None:
        self.steps = np.array(sorted(steps))
        self.kept: list[Moments] = []
        self._returns = np.zeros(0)  # [slots] of the trials that their chunks are from

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Follow what is retrieved, and keep the decisions that are due."""
        reading: Batch | None = getattr(agent.actor, "reading", None)  # [slots, S]
        if reading is None or agent.memory is None:
            return
        if not len(self._returns):
            self._returns = np.zeros(agent.slots)
        if agent.retrieval is not None and len(agent.memory.entries):
            chosen = agent.retrieval.chosen  # [B, k]
            returns = agent.memory.entries.total_return[chosen.clamp_min(0)]
            best = returns.masked_fill(chosen < 0, -torch.inf).amax(dim=1)
            self._returns[agent.asked] = best.numpy()
        has_chunk = reading.mask.any(dim=1).numpy()
        due = agent.is_acting & has_chunk & np.isin(agent.trials.step, self.steps)
        if due.any():
            self._keep(agent, reading, np.flatnonzero(due))

    def _keep(self, agent: Agent, held: Batch, slots: NDArray[np.int64]) -> None:
        running, options = agent.trials, retrieving(agent.method).options
        self.kept.append(
            Moments(
                recent=running.recent(slots, options.memory.context_len, options.window_step),
                chunk=held.rows(torch.from_numpy(slots)),
                action=torch.from_numpy(agent.actions[slots]).long(),
                task=np.array(agent.keys)[slots],
                trial=running.trial[slots].copy(),
                step=running.step[slots].copy(),
                earned=running.earned[slots].copy(),
                chunk_return=self._returns[slots].copy(),
            )
        )


def retrieving(method: Method) -> RADT:
    """Return a method that reads what it retrieves, or refuse it."""
    if not isinstance(method, RADT):
        raise RunError(
            f"{method.name} retrieves nothing, so there is nothing to look at; give a run of a "
            "method with a memory, such as ra-dt"
        )
    return method
