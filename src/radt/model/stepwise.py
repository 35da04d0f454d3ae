"""Deciding with a key-value cache: a growing input is read token by token, each only once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from radt.model.attention import Place
from radt.model.policy import DecisionTransformer
from radt.model.transformer import Context, Transformer
from radt.trajectory import Batch


class StepwisePolicy:
    """A Decision Transformer that keeps what it has read of every row's input.

    `begin` reads a whole input, `step` what each later decision adds to it, as long as what is
    retrieved stays the same. Both answer as the full forward pass over everything would.
    """

    def __init__(self, model: DecisionTransformer, rows: int, steps: int) -> None:
        assert isinstance(model.trunk, Transformer)  # a recurrent trunk has a state instead
        self.model, self.trunk = model, model.trunk
        self.per_step = model.embed.per_step
        self.caches = self.trunk.caches(rows, steps * self.per_step)
        self.tokens_read = torch.zeros(rows, dtype=torch.int64, device=model.device)  # by `begin`
        self.until = torch.zeros(rows, dtype=torch.int64, device=model.device)  # their last step

    @torch.no_grad()
    def begin(self, recent: Batch, rows: Tensor, context: Context | None = None) -> Tensor:
        """Read inputs [B, L] that end with the state that is asked about; decide, [B, A]."""
        recent, rows = recent.to(self.model.device), rows.to(self.model.device)
        tokens = self.model.embed(recent, past=False)  # [B, L * per_step, width]
        place = Place.behind(rows, torch.zeros_like(rows), tokens.shape[1])
        known = self.model.as_context(recent, context)
        hidden = self.trunk.step(tokens, self.caches, place, known)
        each, last = torch.arange(len(rows), device=rows.device), recent.mask.sum(1) - 1  # [B]
        asked = last * self.per_step + self.model.embed.deciding
        self.tokens_read[rows], self.until[rows] = asked + 1, recent.timesteps[each, last]
        return self.model.act(hidden[each, asked])

    @torch.no_grad()
    def step(self, latest: Batch, rows: Tensor, context: Context | None = None) -> Tensor:
        """Read the newest state of each row, [B, 1], and what led to it; decide, [B, A]."""
        latest, rows = latest.to(self.model.device), rows.to(self.model.device)
        later = latest.timesteps[:, 0] - self.until[rows]  # asking twice changes nothing
        read = self.tokens_read[rows] + (later - 1) * self.per_step
        place = Place.behind(rows, read, self.per_step)
        tokens, known = self.model.embed.newest(latest), self.model.as_context(latest, context)
        return self.model.act(self.trunk.step(tokens, self.caches, place, known)[:, -1])

    def decide(
        self,
        begins: Tensor,
        rows: Tensor,
        whole: Callable[[Tensor], Batch],
        latest: Callable[[Tensor], Batch],
        context: Context | None = None,
    ) -> Tensor:
        """Begin where `begins` [B] says so and go on elsewhere; decide, [B, A].

        `whole` and `latest` return the inputs of some of the rows.
        """
        decided = torch.zeros(len(rows), self.model.action_head.size)
        for read, inputs, some in ((self.begin, whole, begins), (self.step, latest, ~begins)):
            if bool(some.any()):
                part = context if context is None or bool(some.all()) else context.rows(some)
                decided[some] = read(inputs(rows[some]), rows[some], part).cpu()
        return decided
