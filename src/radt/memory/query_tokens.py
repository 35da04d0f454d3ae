"""Which hidden states are averaged to a key or a query (appendix E.4): the paper's are the states'.

The last step's action and reward are not known to an agent that asks, so their tokens never count.
A prefix without any such token, as the actions of a first step, becomes the zero vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from radt.model.tokens import Tokenisation

QueryTokens = Literal["states", "actions", "rewards", "returns", "all", "last"]


@dataclass(frozen=True)
class TokenPool:
    """Makes one vector of the hidden states of a sequence of steps."""

    tokens: QueryTokens
    per_step: int  # 1: fused; 3: s, a, r; 4: s, R, a, r
    places: tuple[int, ...]  # of the tokens that count, within a step

    @classmethod
    def of(cls, tokens: QueryTokens, made: Tokenisation, return_to_go: bool) -> TokenPool:
        """Choose the tokens of a kind; refuse those that a tokenisation does not make."""
        order = ["states", "returns", "actions", "rewards"]
        if not return_to_go:
            order.remove("returns")
        if made == "fused":
            order = ["states"]  # everything in one
        if tokens in ("all", "last"):
            return cls(tokens, len(order), tuple(range(len(order))))
        if tokens not in order:
            raise ValueError(
                f"query_tokens={tokens} asks for tokens that {made} steps "
                f"{'with' if return_to_go else 'without'} a return-to-go do not have; choose "
                f"{', '.join(order)}, all or last, or interleaved tokens"
            )
        return cls(tokens, len(order), (order.index(tokens),))

    def __call__(self, hidden: Tensor, mask: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Pool [B, L * per_step, width] of real steps [B, L], less dropped ones: [B, width]."""
        length = mask.sum(1)
        if self.tokens == "last":
            deciding = max(0, self.per_step - 3)  # what stands before the action
            at = (length - 1).clamp_min(0) * self.per_step + deciding
            return hidden[torch.arange(len(at)), at.to(hidden.device)].cpu()
        some = hidden.unflatten(1, (-1, self.per_step))[:, :, list(self.places)].cpu()
        is_last = torch.arange(mask.shape[1]) == length[:, None] - 1  # [B, L]
        known = mask[..., None] & ~(is_last[..., None] & self._of_the_future)  # [B, L, p]
        counted = known if dropped is None else known & ~dropped[..., None]
        total: Tensor = (some.flatten(1, 2) * counted.flatten(1)[..., None]).sum(1)
        return total / known.sum((1, 2))[:, None].clamp_min(1)

    def newest(self, new: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Add up what one more step brings, [B, width], and count it, [B].

        The tokens `new` [B, per_step, width] are `a, r, s` and perhaps `R`, the first two of the
        step before; at step 0 [B] there was none.
        """
        order = [(place + 2) % self.per_step for place in self.places]
        there = ~((step == 0)[:, None] & self._of_the_future.to(step.device))  # [B, p]
        return (new[:, order] * there[..., None]).sum(1), there.sum(1)

    @property
    def _of_the_future(self) -> Tensor:
        """Mark actions and rewards among the places, [p]."""
        after = self.per_step - 2 if self.per_step > 1 else 1
        return torch.tensor(self.places) >= after
