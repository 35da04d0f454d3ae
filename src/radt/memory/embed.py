"""Embedding models g: from a sub-trajectory to one vector (section 3.2.1).

The domain-specific embedder is a frozen Decision Transformer that was trained on the same data; a
sub-trajectory becomes the mean of what the trunk made of its state tokens, or of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from radt.memory.query_tokens import QueryTokens, TokenPool
from radt.model.attention import Place
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.transformer import Transformer
from radt.registry import Registry
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


class Embedder(Protocol):
    """g: maps sub-trajectories, whose last action and reward are still unknown, to vectors."""

    @property
    def width(self) -> int:
        """How many numbers a vector has."""

    @property
    def network(self) -> nn.Module | None:
        """The weights that a checkpoint carries; None where a public model is known by name."""

    @property
    def fingerprint(self) -> str:
        """Changes with anything that changes the vectors; asked for when all weights are there."""

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Embed prefixes as [B, width]; state tokens marked in `dropped` [B, L] are left out."""

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        """Return an embedder that takes one step at a time, or None where there is none."""


def device_of(embedder: Embedder) -> torch.device:
    """Say where an embedder computes, also one whose model no checkpoint carries."""
    weights = () if embedder.network is None else embedder.network.parameters()
    known = torch.device(getattr(embedder, "device", "cpu"))
    return next((weight.device for weight in weights), known)


class IncrementalEmbedder(Protocol):
    """Embeds growing trajectories at the price of one step each."""

    def reset(self, rows: Tensor) -> None:
        """Start new trajectories in some rows, [n] int64."""

    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        """Take the newest step of some rows, with the action and reward that led to it."""


@dataclass(frozen=True)
class EmbedderEntry:
    """A registered embedder: its options and how it is built, also where there is no memory.

    One that `learns` is trained on the data first: its network is then a Decision Transformer of
    the size `options.model`, trained for `options.updates` updates.
    """

    options: type[Any]
    build: Callable[[TaskSpaces, Any, int], Embedder]
    learns: bool = False


EMBEDDERS: Registry[EmbedderEntry] = Registry("embedders", "embedder")


class DecisionTransformerEmbedder:
    """The mean of some tokens' last hidden states in a frozen Decision Transformer."""

    def __init__(self, model: DecisionTransformer, tokens: QueryTokens = "states") -> None:
        self.model = model.eval().requires_grad_(False)
        self.width = model.config.width
        self.pool = TokenPool.of(tokens, model.config.tokens, model.config.return_to_go)

    @property
    def network(self) -> nn.Module:
        return self.model

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights as they are when it is first asked for."""
        return fingerprint(self.model, self.pool.tokens)

    @torch.no_grad()
    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        return self.pool(self.model.hidden(prefixes), prefixes.mask, dropped)

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        if not isinstance(self.model.trunk, Transformer):  # a state knows what left the window
            return None
        return DecisionTransformerStepper(self.model, self.pool, rows, context_len)


class DecisionTransformerStepper:
    """Keeps keys, values and hidden states of the last C steps instead of computing them again.

    Up to step C it equals the windowed embedding. After that a hidden state still remembers what
    has left the window, so the two differ slightly.
    """

    def __init__(
        self, model: DecisionTransformer, pool: TokenPool, rows: int, context_len: int
    ) -> None:
        assert isinstance(model.trunk, Transformer)
        self.model, self.trunk, self.pool, self.context_len = model, model.trunk, pool, context_len
        self.size = context_len * model.embed.per_step  # tokens that are kept
        self.caches = self.trunk.caches(rows, self.size)
        self.hidden = torch.zeros(rows, context_len, model.config.width, device=model.device)
        self.counted = torch.zeros(rows, context_len, dtype=torch.int64, device=model.device)
        self.length = torch.zeros(rows, dtype=torch.int64, device=model.device)

    def reset(self, rows: Tensor) -> None:
        self.length[rows] = 0
        self.hidden[rows], self.counted[rows] = 0, 0

    @torch.no_grad()
    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        """Take the newest step of some rows, [B, 1], and return their embeddings [B, width]."""
        latest, rows = latest.to(self.model.device), rows.to(self.model.device)
        embed, step = self.model.embed, self.length[rows]
        self.length[rows] += 1
        context = self.model.context(latest, None)
        new = self.trunk.step(
            embed.newest(latest), self.caches, self._place(rows, step), context
        )  # [B, per_step, width]
        if self.pool.tokens == "last":
            return new[:, -1].cpu()
        at = step % self.context_len
        self.hidden[rows, at], self.counted[rows, at] = self.pool.newest(new, step)
        count = self.counted[rows].sum(1, keepdim=True).clamp_min(1)
        return (self.hidden[rows].sum(1) / count).cpu()

    def _place(self, rows: Tensor, step: Tensor) -> Place:
        """Number the tokens of an episode; a step's newest ones see those of the last C steps."""
        per_step, device = self.model.embed.per_step, rows.device
        last = step[:, None] * per_step + self.model.embed.deciding  # [B, 1]
        number = last + torch.arange(1 - per_step, 1, device=device)  # [B, n], below 0: before it
        columns = torch.arange(self.size, device=device)
        held = last - (last - columns) % self.size  # [B, size] the token in each column
        first = (step - self.context_len + 1).clamp_min(0) * per_step  # [B]
        seen = (held >= first[:, None])[:, None] & (held[:, None] <= number[..., None])
        itself = held[:, None] == number[..., None]  # before the episode nothing else is seen
        return Place(rows, number % self.size, seen | itself)


def fingerprint(model: DecisionTransformer, tokens: QueryTokens = "states") -> str:
    """Hash the weights and how they are used, so that a memory can refuse another's keys."""
    config, spaces = model.config, model.spaces
    usage = (config.heads, config.tokens, spaces.return_scale, spaces.reward_scale)
    pooled = () if tokens == "states" else (tokens,)
    digest = hashlib.sha256(repr((*usage, *pooled)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class DTEmbedderOptions:
    """The Decision Transformer whose hidden states are the keys of a memory."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(return_to_go=False))
    updates: int = 100_000  # of the embedder's own training
    query_tokens: QueryTokens = "states"  # whose hidden states are averaged

    def __post_init__(self) -> None:
        TokenPool.of(self.query_tokens, self.model.tokens, self.model.return_to_go)
        if self.updates < 1:
            raise ValueError(f"updates must be at least 1, not {self.updates}")


def build_dt_embedder(
    spaces: TaskSpaces, options: DTEmbedderOptions, seed: int
) -> DecisionTransformerEmbedder:
    """Build the embedder, still untrained, as the registry asks for it."""
    model = DecisionTransformer(spaces, options.model, seed)
    return DecisionTransformerEmbedder(model, options.query_tokens)


EMBEDDERS.register("dt", EmbedderEntry(DTEmbedderOptions, build_dt_embedder, learns=True))
