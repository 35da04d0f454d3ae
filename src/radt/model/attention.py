"""Attention: causal over the own trajectory, and across to what was retrieved."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, L, width] -> [B, heads, L, width / heads]."""
    rows, length, width = x.shape
    return x.view(rows, length, heads, width // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """[B, heads, L, width / heads] -> [B, L, width]."""
    return x.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class KeyValueCache:
    """The last `size` keys and values of every row, as a ring that is written in place.

    Positions live in the tokens, not in the attention, so the order inside the ring is free.
    """

    keys: Tensor  # [B, heads, size, width / heads]
    values: Tensor  # [B, heads, size, width / heads]

    @classmethod
    def empty(
        cls, rows: int, heads: int, size: int, width: int, device: torch.device
    ) -> KeyValueCache:
        """Reserve a ring for `rows` sequences."""
        shape = (rows, heads, size, width // heads)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device))


@dataclass(frozen=True)
class Place:
    """Where new tokens are written in the rings, and what they may look at."""

    rows: Tensor  # [B] int64: which sequences go on
    column: Tensor  # [B] int64: where in its ring each is written
    seen: Tensor  # [B, size] bool: which places of the ring hold something


class SelfAttention(nn.Module):
    """Multi-head causal self-attention, as in GPT-2."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Let each token look at itself and at those before it."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        chance = self.dropout if self.training else 0.0
        y = scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=chance)
        return torch.as_tensor(self.project(merge_heads(y)))

    def step(self, x: Tensor, cache: KeyValueCache, place: Place) -> Tensor:
        """Attend from one new token per row, x [B, 1, width], to the ring it is written into."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        cache.keys[place.rows, :, place.column] = k[:, :, 0]
        cache.values[place.rows, :, place.column] = v[:, :, 0]
        mask = place.seen[:, None, None, :]  # [B, 1, 1, size]
        y = scaled_dot_product_attention(
            q, cache.keys[place.rows], cache.values[place.rows], attn_mask=mask
        )
        return torch.as_tensor(self.project(merge_heads(y)))


class CrossAttention(nn.Module):
    """Multi-head attention from the own trajectory to the retrieved chunk; not causal."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """Look from x [B, L, width] at context [B, M, width] where mask [B, M] is True."""
        q = split_heads(self.query(x), self.heads)
        k, v = (split_heads(part, self.heads) for part in self.key_value(context).chunk(2, dim=-1))
        chance = self.dropout if self.training else 0.0
        y = scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, :], dropout_p=chance
        )
        return torch.as_tensor(self.project(merge_heads(y)))
