"""Embedding models g: from a sub-trajectory to one vector (section 3.2.1).

The domain-specific embedder is a frozen Decision Transformer that was trained on the same data; a
sub-trajectory becomes the mean of what the trunk made of its state tokens, or of others (appendix
E.4). The last step's action and reward are not known to an agent that asks, so their tokens never
count. A prefix without any such token, as the actions of a first step, becomes the zero vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from radt.errors import RunError
from radt.model.attention import Place
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.tokens import Tokenisation
from radt.model.transformer import Transformer
from radt.registry import Registry
from radt.spaces import TaskSpaces
from radt.trajectory import Batch

QueryTokens = Literal[
    "states", "actions", "rewards", "returns", "all", "last"
]  # averaged to a key or a query


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


class Projection(nn.Module):
    """W, the identity as long as nothing was learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))  # [d, d]; not nn.Linear's, which would decay

    def forward(self, vectors: Tensor) -> Tensor:
        """Project vectors [..., d] where the weights are."""
        return linear(vectors.to(self.weight.device), self.weight)


class ProjectedEmbedder:
    """W g: a frozen embedder and a projection that is learned."""

    def __init__(self, frozen: Embedder) -> None:
        if frozen.network is None:
            raise RunError(
                "options.retriever=learned projects the keys of an embedder whose weights travel "
                "in the checkpoint, and this one has none; set embedder_name=dt, or leave the "
                "retriever frozen"
            )
        self.frozen, self.width = frozen, frozen.width
        self.projection = Projection(frozen.width)

    @property
    def network(self) -> nn.Module | None:
        return self.frozen.network

    @property
    def fingerprint(self) -> str:
        """A hash of the frozen embedder and of W as it is now."""
        digest = hashlib.sha256(self.frozen.fingerprint.encode())
        digest.update(self.projection.weight.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    @torch.no_grad()
    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        return torch.as_tensor(self.projection(self.frozen(prefixes, dropped)))

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        stepper = self.frozen.stepper(rows, context_len)
        return None if stepper is None else ProjectedStepper(stepper, self.projection)


class ProjectedStepper:
    """Projects what an incremental embedder makes of each step."""

    def __init__(self, frozen: IncrementalEmbedder, projection: Projection) -> None:
        self.frozen, self.projection = frozen, projection

    def reset(self, rows: Tensor) -> None:
        self.frozen.reset(rows)

    @torch.no_grad()
    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        return torch.as_tensor(self.projection(self.frozen.step(latest, rows))).cpu()
