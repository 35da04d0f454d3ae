"""Attention: over the own trajectory, causal unless a mask says otherwise, and to other tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from radt.model.linear import Linear, linear

KeysValues = tuple[Tensor, Tensor]  # both [B, heads, M, width / heads]


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

    def at(self, place: Place) -> KeysValues:
        """Return what tokens at a place may look at, [B, heads, <=size, width / heads].

        All rows in their order are not copied: of a long ring that costs more than looking at it.
        """
        used = place.seen.shape[-1]
        keys, values = self.keys[:, :, :used], self.values[:, :, :used]
        if len(place.rows) == len(keys) and place.in_order:
            return keys, values
        return keys[place.rows], values[place.rows]


@dataclass(frozen=True)
class Place:
    """Where new tokens are written in the rings, and what they may look at."""

    rows: Tensor  # [B] int64: which sequences go on
    column: Tensor  # [B, n] int64: where in its row's ring each new token is written
    seen: Tensor  # [B, n, <=size] bool: what each new token may look at, itself included

    @cached_property
    def in_order(self) -> bool:
        """Whether the rows are 0, 1, 2, ...; asked once for all layers."""
        return torch.equal(self.rows, torch.arange(len(self.rows), device=self.rows.device))

    @classmethod
    def behind(cls, rows: Tensor, length: Tensor, new: int) -> Place:
        """Write `new` tokens behind the `length` [B] that are there, each seeing all before it."""
        column = length[:, None] + torch.arange(new, device=length.device)  # [B, n]
        used = int(column.max()) + 1
        return cls(rows, column, torch.arange(used, device=length.device) <= column[..., None])


class SelfAttention(nn.Module):
    """Multi-head self-attention as in GPT-2: causal, unless a mask says which tokens see which."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = Linear(width, 3 * width)
        self.project = Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let each token look at itself and at those before it, or where mask [B, L, L] is True."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        chance = self.dropout if self.training else 0.0
        seen = None if mask is None else mask[:, None]  # the same for all heads
        y = scaled_dot_product_attention(
            q, k, v, attn_mask=seen, is_causal=mask is None, dropout_p=chance
        )
        return torch.as_tensor(self.project(merge_heads(y)))

    def some(self, asking: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Do the same for some of the tokens of x alone: asking [B, n, width], mask [B, n, L]."""
        width = x.shape[-1]
        weight, bias = self.qkv.weight, self.qkv.bias
        q = split_heads(linear(asking, weight[:width], bias[:width]), self.heads)
        both = linear(x, weight[width:], bias[width:]).chunk(2, dim=-1)
        k, v = (split_heads(part, self.heads) for part in both)
        chance = self.dropout if self.training else 0.0
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], dropout_p=chance)
        return torch.as_tensor(self.project(merge_heads(y)))

    def step(self, x: Tensor, cache: KeyValueCache, place: Place) -> Tensor:
        """Attend from new tokens, x [B, n, width], to the rings they are written into."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        cache.keys[place.rows[:, None], :, place.column] = k.transpose(1, 2)
        cache.values[place.rows[:, None], :, place.column] = v.transpose(1, 2)
        keys, values = cache.at(place)
        y = scaled_dot_product_attention(q, keys, values, attn_mask=place.seen[:, None])
        return torch.as_tensor(self.project(merge_heads(y)))


class CrossAttention(nn.Module):
    """Multi-head attention from the own trajectory to the retrieved chunk; not causal."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.project = Linear(width, width)

    def read(self, context: Tensor) -> KeysValues:
        """Make keys and values of context [B, M, width]; they do not depend on the query."""
        k, v = (split_heads(part, self.heads) for part in self.key_value(context).chunk(2, dim=-1))
        return k, v

    def forward(self, x: Tensor, read: KeysValues, mask: Tensor) -> Tensor:
        """Look from x [B, L, width] at what was read where mask [B, M] is True."""
        q, (k, v) = split_heads(self.query(x), self.heads), read
        chance = self.dropout if self.training else 0.0
        y = scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, :], dropout_p=chance
        )
        return torch.as_tensor(self.project(merge_heads(y)))
