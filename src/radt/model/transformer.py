"""The trunk: a GPT-2 of pre-norm blocks, with cross-attention at any set of its layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from radt.model.attention import CrossAttention, KeysValues, KeyValueCache, Place, SelfAttention
from radt.model.linear import Linear


@dataclass(frozen=True)
class Context:
    """The retrieved tokens as every layer's cross-attention sees them."""

    tokens: Tensor  # [B, M, width]
    mask: Tensor  # [B, M] bool, at least one True in each row
    read: Mapping[CrossAttention, KeysValues] = field(default_factory=dict)  # by layers, if before

    def rows(self, index: Tensor) -> Context:
        read = {layer: (k[index], v[index]) for layer, (k, v) in self.read.items()}
        return Context(self.tokens[index], self.mask[index], read)


class Layer(nn.Module):
    """What mixes tokens, then cross-attention where there is one, then the feed-forward layer."""

    def __init__(
        self, width: int, heads: int, dropout: float, cross: bool, **mixing: nn.Module
    ) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        for name, module in mixing.items():
            self.add_module(name, module)
        self.norm_cross = nn.LayerNorm(width) if cross else None
        self.cross_attention = CrossAttention(width, heads, dropout) if cross else None
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            Linear(width, 4 * width), nn.GELU(approximate="tanh"), Linear(4 * width, width)
        )
        self.drop = nn.Dropout(dropout)

    def after_mixing(self, x: Tensor, context: Context | None) -> Tensor:
        """Look at what was retrieved, and feed forward."""
        look = self.cross_attention
        if look is not None and self.norm_cross is not None and context is not None:
            read = context.read.get(look) or look.read(context.tokens)
            x = x + self.drop(look(self.norm_cross(x), read, context.mask))
        return torch.as_tensor(x + self.drop(self.feed(self.norm_feed(x))))


class Block(Layer):
    """Self-attention, then cross-attention where there is one, then the feed-forward layer."""

    self_attention: SelfAttention

    def __init__(self, width: int, heads: int, dropout: float, cross: bool) -> None:
        attention = SelfAttention(width, heads, dropout)
        super().__init__(width, heads, dropout, cross, self_attention=attention)

    def forward(self, x: Tensor, context: Context | None, mask: Tensor | None = None) -> Tensor:
        x = x + self.drop(self.self_attention(self.norm_self(x), mask))
        return self.after_mixing(x, context)

    def step(
        self, x: Tensor, cache: KeyValueCache, place: Place, context: Context | None
    ) -> Tensor:
        """Transform new tokens, x [B, n, width]."""
        x = x + self.self_attention.step(self.norm_self(x), cache, place)
        return self.after_mixing(x, context)

    def some(self, asking: Tensor, x: Tensor, mask: Tensor, context: Context | None) -> Tensor:
        """Transform some of the tokens of x alone, asking [B, n, width] with mask [B, n, L]."""
        seen = self.self_attention.some(self.norm_self(asking), self.norm_self(x), mask)
        return self.after_mixing(asking + self.drop(seen), context)


def crossed(layers: int, cross_layers: Sequence[int]) -> list[bool]:
    """Say which layers have cross-attention."""
    if outside := set(cross_layers) - set(range(layers)):
        raise ValueError(f"cross-attention asked at layers {outside} of a model of {layers}")
    return [layer in cross_layers for layer in range(layers)]


def read_by(trunk: nn.Module, context: Context) -> Context:
    """Let every layer make its keys and values, for a context that is looked at often."""
    layers = [layer for layer in trunk.modules() if isinstance(layer, CrossAttention)]
    return replace(context, read={layer: layer.read(context.tokens) for layer in layers})


class Transformer(nn.Module):
    """A stack of blocks and a last layer norm."""

    def __init__(
        self, layers: int, width: int, heads: int, dropout: float, cross_layers: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.blocks = nn.ModuleList(
            Block(width, heads, dropout, cross) for cross in crossed(layers, cross_layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, context: Context | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Transform token embeddings, x [B, L, width]; causal, unless mask [B, L, L] is given."""
        for block in self.blocks:
            x = block(x, context, mask)
        return torch.as_tensor(self.norm(x))

    def only(self, x: Tensor, at: Tensor, context: Context | None = None) -> Tensor:
        """Return what `forward` makes of one token of each row, at [B] -> [B, width]."""
        *before, last = self.blocks
        for block in before:
            x = block(x, context)
        asking = x[torch.arange(len(x), device=x.device), at][:, None]  # [B, 1, width]
        seen = torch.arange(x.shape[1], device=x.device) <= at[:, None, None]  # [B, 1, L]
        return self._last(last, asking, x, seen, context)[:, 0]

    def ending(self, x: Tensor, count: int, mask: Tensor) -> Tensor:
        """Return what `forward` makes of the last `count` tokens of each row, [B, count, width]."""
        *before, last = self.blocks
        for block in before:
            x = block(x, None, mask)
        return self._last(last, x[:, -count:], x, mask[:, -count:], None)

    def _last(
        self, block: nn.Module, asking: Tensor, x: Tensor, mask: Tensor, context: Context | None
    ) -> Tensor:
        """Apply the last layer: nothing attends to it, so it is computed for the queries alone."""
        assert isinstance(block, Block)  # what a ModuleList holds is not known to the types
        return torch.as_tensor(self.norm(block.some(asking, x, mask, context)))

    read = read_by

    def caches(self, rows: int, size: int) -> list[KeyValueCache]:
        """Reserve one empty ring of keys and values per layer."""
        device = self.norm.weight.device
        return [
            KeyValueCache.empty(rows, self.heads, size, self.width, device) for _ in self.blocks
        ]

    def step(
        self,
        x: Tensor,
        caches: list[KeyValueCache],
        place: Place,
        context: Context | None = None,
    ) -> Tensor:
        """Transform new tokens of some rows, x [B, n, width], against the cached ones."""
        for block, cache in zip(self.blocks, caches, strict=True):
            assert isinstance(block, Block)  # what a ModuleList holds is not known to the types
            x = block.step(x, cache, place, context)
        return torch.as_tensor(self.norm(x))


def initialise_as_gpt2(model: nn.Module, generator: torch.Generator, layers: int) -> None:
    """Draw weights from N(0, 0.02), biases 0, and residual projections scaled by 1/sqrt(2 N)."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            residual = name.endswith(("attention.project", ".feed.2"))
            scale = 0.02 / math.sqrt(2 * layers) if residual else 0.02
            nn.init.normal_(module.weight, std=scale, generator=generator)
            bias = getattr(module, "bias", None)
            if bias is not None:
                nn.init.zeros_(bias)
