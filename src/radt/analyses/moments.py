"""Decisions of an agent that has a chunk at hand, kept while its trials are rolled out again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.analyses.shared import retrieving
from radt.trajectory import Batch


@dataclass(frozen=True)
class Moments:
    """Decisions of several tasks at once: what the policy saw, had retrieved, and did."""

    recent: Batch  # [B, L] the input, the present state last
    chunk: Batch  # [B, S] what was retrieved
    action: Tensor  # [B] int64 or [B, A] float: what was done
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
        return self.recent.states[torch.arange(len(self)), self.last]

    @property
    def same_state(self) -> Tensor:
        """Which steps of the chunk stand in the present state, [B, S].

        Where actions are continuous no state comes again: there it is the nearest one.
        """
        apart = (self.chunk.states - self.state[:, None]).flatten(2).double().norm(dim=2)  # [B, S]
        apart = apart.masked_fill(~self.chunk.mask, torch.inf)
        wanted = apart.amin(dim=1, keepdim=True) if self.continuous else torch.zeros(1)
        return torch.eq(apart, wanted)

    @property
    def continuous(self) -> bool:
        """Whether actions are vectors."""
        return self.action.ndim > 1

    def rows(self, chosen: NDArray[np.int64]) -> Moments:
        index = torch.from_numpy(chosen)
        names = ("task", "trial", "step", "earned", "chunk_return")
        return Moments(
            self.recent.rows(index).trimmed(),
            self.chunk.rows(index),
            self.action[index],
            *(getattr(self, name)[chosen] for name in names),
        )

    def to_json(self) -> dict[str, Any]:
        """Say which decision the first one is."""
        return {
            "task": int(self.task[0]),
            "trial": int(self.trial[0]) + 1,
            "step": int(self.step[0]) + 1,
            "chunk_return": float(self.chunk_return[0]),
            "action": self.action[0].tolist(),
        }


class MomentKeeper:
    """Keeps the decisions at some steps of every trial, of the slots that have a chunk at hand."""

    def __init__(self, steps: Collection[int]) -> None:
        self.steps = np.array(sorted(steps))
        self.kept: list[Moments] = []
        self._returns = np.zeros(0)  # [slots] of the trials that their chunks are from

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        reading: Batch | None = getattr(agent.actor, "reading", None)  # [slots, S]
        if reading is None or agent.memory is None:
            return
        if not len(self._returns):
            self._returns = np.zeros(agent.slots)
        if agent.retrieval is not None and len(agent.memory.entries):
            chosen = agent.retrieval.chosen  # [B, k]
            returns = agent.memory.entries.total_return[chosen.clamp_min(0)]
            best = returns.masked_fill(chosen < 0, -torch.inf).amax(dim=1)
            self._returns[agent.query_slots] = best.numpy()
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
                action=torch.from_numpy(agent.actions[slots]),
                task=np.array(agent.tasks)[slots],
                trial=running.trial[slots].copy(),
                step=running.step[slots].copy(),
                earned=running.earned[slots].copy(),
                chunk_return=self._returns[slots].copy(),
            )
        )
