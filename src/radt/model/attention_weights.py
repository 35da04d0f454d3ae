"""What a policy looks at: the weights of its cross-attention, seen from outside while it decides.

The model itself never makes them: its attention is fused. Here they are computed again from what
each layer was given, so nothing has to be switched on beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from radt.model.attention import CrossAttention, KeysValues, split_heads
from radt.model.policy import DecisionTransformer
from radt.trajectory import Batch


def attention_weights(layer: CrossAttention, x: Tensor, read: KeysValues, mask: Tensor) -> Tensor:
    """Return how much tokens x [B, L, width] look at those that were read, [B, heads, L, M]."""
    queries, (keys, _) = split_heads(layer.query(x), layer.heads), read
    scores = queries @ keys.transpose(2, 3) / math.sqrt(keys.shape[-1])  # [B, heads, L, M]
    return scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=-1)


@contextmanager
def looking(policy: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the weights [B, heads, L, M] of every cross-attention that runs inside, in order."""
    seen: list[Tensor] = []

    def note(layer: nn.Module, given: Any, _: Any) -> None:
        assert isinstance(layer, CrossAttention)  # only these have the hook
        seen.append(attention_weights(layer, *given))

    layers = [layer for layer in policy.modules() if isinstance(layer, CrossAttention)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def attention_to_steps(policy: DecisionTransformer, recent: Batch, chunks: Batch) -> Tensor:
    """Return how much each decision [B, L] looks at each retrieved step [B, S]: [B, L, S].

    Mean over layers and heads; the tokens of a retrieved step are added up. A row sums to 1, but
    for one without a chunk, which looks at the null chunk alone and is 0 everywhere.
    """
    with looking(policy) as seen:
        policy.hidden(recent, chunks)
    weights = torch.stack([layer.mean(dim=1) for layer in seen]).mean(dim=0)  # [B, tokens, 1 + M]
    deciding = policy.embed.at_decisions(weights)  # [B, L, 1 + M]
    by_step = deciding[..., 1:].unflatten(-1, (-1, policy.embed.per_step))  # [B, L, S, per_step]
    return torch.as_tensor(by_step.sum(dim=-1))
