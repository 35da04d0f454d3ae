"""Deciding with a key-value cache: a growing input is read token by token, each only once."""

from __future__ import annotations

import torch
from torch import Tensor

from radt.model.attention import Place
from radt.model.policy import DecisionTransformer
from radt.trajectory import Batch


class StepwisePolicy:
    """A Decision Transformer that keeps what it has read of every row's input.

    `begin` reads a whole input up to the first step of its current episode, `step` what each later
    decision adds to it. Both answer as the full forward pass over everything would.
    """

    def __init__(self, model: DecisionTransformer, rows: int, steps: int) -> None:
        self.model = model
        self.per_step = model.embed.per_step
        self.size = steps * self.per_step  # tokens of the longest input
        self.caches = model.trunk.caches(rows, self.size)
        self.begun = torch.zeros(rows, dtype=torch.int64, device=model.device)

    @torch.no_grad()
    def begin(self, recent: Batch, rows: Tensor) -> Tensor:
        """Read inputs [B, L] that end with the first step of an episode; decide, [B, A]."""
        recent, rows = recent.to(self.model.device), rows.to(self.model.device)
        tokens = self.model.embed(recent, past=False)  # [B, L * per_step, width]
        place = Place.behind(rows, torch.zeros_like(rows), tokens.shape[1], self.size)
        hidden = self.model.trunk.step(tokens, self.caches, place)
        last = (recent.mask.sum(1) - 1) * self.per_step + self.model.embed.deciding  # [B]
        self.begun[rows] = last + 1
        return self.model.act(hidden[torch.arange(len(last), device=last.device), last])

    @torch.no_grad()
    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        """Read the newest state of each row, [B, 1], and what led to it; decide, [B, A]."""
        latest, rows = latest.to(self.model.device), rows.to(self.model.device)
        steps_before = latest.timesteps[:, 0] - 1  # asking twice at one step changes nothing
        length = self.begun[rows] + steps_before * self.per_step
        place = Place.behind(rows, length, self.per_step, self.size)
        hidden = self.model.trunk.step(self.model.embed.newest(latest), self.caches, place)
        return self.model.act(hidden[:, -1])
