"""The domain-agnostic embedder: a frozen language model reads trajectories (section 3.2.1).

FrozenHopfield turns steps into mixtures of words, the language model reads them, and the mean of
what it makes of the state tokens, or of others, is the key. Nothing is trained, and nothing of it
is stored in a checkpoint: the model is known by its name and the sha256 of its weights.

An encoder looks both ways, so what an agent cannot know yet must not be there: interleaved, the
last step's action and reward have no token; fused, a token carries the action and reward before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property

import torch
from torch import Tensor

from radt.data.store import home
from radt.memory.embed import (
    EMBEDDERS,
    EmbedderEntry,
    IncrementalEmbedder,
    QueryTokens,
    TokenPool,
)
from radt.memory.embedding_cache import EmbeddingCache, content_hash
from radt.memory.hopfield import FrozenHopfield, Numbers, Similarity, TokenTable
from radt.memory.language_model import MINILM, LanguageModel
from radt.model.tokens import Tokenisation, binned
from radt.spaces import TaskSpaces
from radt.trajectory import Batch

AT_ONCE = 64  # prefixes in one pass of the language model
FORMAT = 1  # raise it with every change of what a vector is: older ones are not used again


@dataclass(frozen=True)
class LanguageOptions:
    """Which language model reads a trajectory, and how the trajectory becomes words."""

    model: str = MINILM  # a folder, a name on the hub, or the model that comes with radt[lm]
    sha256: str | None = None  # of the weights; None: public models that radt knows are checked
    random_weights: bool = False  # the same network, untrained: what its training is worth
    layers: int | None = None  # of the model that are used, from the first on; None: all
    tokens: Tokenisation = "fused"  # a token a step, or one for each of its parts
    beta: float = 10.0  # inverse temperature of FrozenHopfield's softmax
    similarity: Similarity = "cosine"  # dot: the paper's formula to the letter
    reward_bins: int = 2  # as which rewards enter
    reward_max: float = 1.0  # rewards, after scaling, are binned from 0 to this
    return_to_go: bool = False  # as its own modality: achieved in keys, aimed at in queries
    return_bins: int = 100  # as which returns-to-go enter
    query_tokens: QueryTokens = "states"  # whose hidden states are averaged
    projection_seed: int | None = None  # of FrozenHopfield's random matrix P; None: the run's seed
    cache_most: int = 200_000  # embeddings that are kept on disk and in RAM

    def __post_init__(self) -> None:
        TokenPool.of(self.query_tokens, self.tokens, self.return_to_go)
        leasts = {"reward_bins": 2, "return_bins": 2, "projection_seed": 0, "cache_most": 0}
        for name, least in leasts.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise ValueError(f"{name} must be {least} or more, not {value}")
        if not (self.beta > 0 and self.reward_max > 0):
            raise ValueError(
                f"beta and reward_max must be positive, not {self.beta}, {self.reward_max}"
            )


class LanguageEmbedder:
    """The mean of the state tokens' last hidden states in a frozen language model.

    The model is loaded when the first vector, or the width of one, is asked for.
    """

    network = None  # nothing for a checkpoint to carry

    def __init__(self, spaces: TaskSpaces, options: LanguageOptions, seed: int) -> None:
        self.spaces, self.options, self.device = spaces, options, "cpu"
        self.seed = seed if options.projection_seed is None else options.projection_seed
        self.modalities = modalities(spaces, options)
        together = options.tokens == "fused"
        self.groups = [self.modalities] if together else [[part] for part in self.modalities]
        self.pool = TokenPool.of(options.query_tokens, options.tokens, options.return_to_go)
        self._looks_up = True

    @torch.no_grad()
    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Embed prefixes as [B, width]; what was embedded before is looked up."""
        numbers = self._numbers(prefixes)  # [B, L, n]
        length = prefixes.mask.sum(1)
        dropped = torch.zeros_like(prefixes.mask) if dropped is None else dropped & prefixes.mask
        if not self._looks_up or bool(dropped.any()):
            return self._embed(numbers, length, dropped)
        rows = zip(numbers.numpy(), length.tolist(), strict=True)
        hashes = [content_hash(row[:steps].tobytes()) for row, steps in rows]

        def compute(places: list[int]) -> Tensor:
            chosen = torch.tensor(places)
            return self._embed(numbers[chosen], length[chosen], dropped[chosen])

        return self.cache.fetch(hashes, compute)

    @contextmanager
    def uncached(self) -> Iterator[None]:
        """Compute everything anew for a while, as if nothing had been embedded; keep nothing."""
        tables = self.__dict__.pop("tables", None)
        self._looks_up = False
        try:
            yield
        finally:
            self._looks_up = True
            self.__dict__.pop("tables", None)
            if tables is not None:
                self.tables = tables

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        """Return nothing: an encoder reads a trajectory anew whenever it grows."""
        return None

    def to(self, device: str) -> None:
        """Choose where the language model computes; it is loaded there when it is needed."""
        self.device = device
        for loaded in ("model", "tables"):
            self.__dict__.pop(loaded, None)

    @cached_property
    def model(self) -> LanguageModel:
        options = self.options
        return LanguageModel.load(
            *(options.model, options.sha256, self.device),
            random_weights=options.random_weights,
            layers=options.layers,
        )

    @cached_property
    def width(self) -> int:
        return self.model.width

    @property
    def frozen_parameters(self) -> int:
        """How many weights the language model has."""
        return self.model.parameters

    @cached_property
    def fingerprint(self) -> str:
        """Hash the weights and how they are used, but not where they lie."""
        unsaid = {"model", "random_weights", "layers", "cache_most"}  # the hash tells of the first
        if self.options.query_tokens == "states":
            unsaid.add("query_tokens")  # as older ones were
        used = {k: v for k, v in asdict(self.options).items() if k not in unsaid}
        used |= {"sha256": self.model.sha256, "projection_seed": self.seed, "format": FORMAT}
        content = json.dumps([used, self.spaces.plain_values()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @cached_property
    def cache(self) -> EmbeddingCache:
        """What was embedded before, by this process or another one."""
        folder = home() / "embeddings" / self.fingerprint
        return EmbeddingCache(folder, self.width, self.options.cache_most)

    @cached_property
    def tables(self) -> list[TokenTable]:
        """One FrozenHopfield per kind of token, each with a P of its own from the same seed."""
        generator = torch.Generator().manual_seed(self.seed)
        words, options = self.model.words, self.options
        tables = []
        for group in self.groups:
            inputs = sum(part.inputs for part in group)
            found = FrozenHopfield(words, inputs, options.beta, options.similarity, generator)
            tables.append(TokenTable(group, found))
        return tables

    def _embed(self, numbers: Tensor, length: Tensor, dropped: Tensor) -> Tensor:
        """Embed prefixes of similar length together: [B, L, n], [B], [B, L] -> [B, width]."""
        vectors = torch.zeros(len(numbers), self.width)
        for rows in length.sort(stable=True).indices.split(AT_ONCE):
            longest = max(1, int(length[rows].max()))
            tokens = self._tokens(numbers[rows, :longest])
            hidden = self.model(tokens, self._present(length[rows], longest))
            mask = torch.arange(longest) < length[rows, None]  # [b, longest]
            vectors[rows] = self.pool(hidden, mask, dropped[rows, :longest])
        return vectors

    def _tokens(self, numbers: Tensor) -> Tensor:
        """Return the words that steps become, [B, L * tokens per step, width]."""
        sizes = [sum(part.count for part in group) for group in self.groups]
        parts = numbers.flatten(0, 1).split(sizes, dim=1)
        pairs = zip(self.tables, parts, strict=True)
        tokens = torch.stack([table(part) for table, part in pairs], dim=1)  # [B * L, n, width]
        return tokens.reshape(len(numbers), -1, tokens.shape[-1])

    def _present(self, length: Tensor, longest: int) -> Tensor:
        """Mark tokens of real steps; the last step has no action and no reward yet."""
        per_step = len(self.groups)
        known = length * per_step - (2 if per_step > 1 else 0)
        return torch.arange(longest * per_step) < known[:, None]  # [B, longest * per_step]

    def _numbers(self, batch: Batch) -> Tensor:
        """Read all modalities of all steps, zero where there is none, [B, L, n]."""
        spaces, options, steps = self.spaces, self.options, batch.mask.shape
        actions, rewards = self._known(batch)
        parts = [batch.states.float().reshape(*steps, -1)]
        if spaces.state.kind == "image":
            parts[0] = parts[0] / 127.5 - 1  # around 0: else the mean brightness is all that counts
        if options.return_to_go:
            returns = batch.returns_to_go / spaces.return_scale
            parts.append(binned(returns, 0.0, 1.0, options.return_bins)[..., None])
        parts.append(actions.float().reshape(*steps, -1))
        scaled = rewards / spaces.reward_scale
        parts.append(binned(scaled, 0.0, options.reward_max, options.reward_bins)[..., None])
        return torch.where(batch.mask[..., None], torch.cat(parts, dim=-1), 0.0)

    def _known(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Hide the last action and reward of each row; fused, move the others one step on."""
        nothing = self.spaces.action.size if self.spaces.action.kind == "discrete" else 0
        actions, rewards = batch.actions.clone(), batch.rewards.clone()
        if self.options.tokens == "fused":
            actions, rewards = actions.roll(1, dims=1), rewards.roll(1, dims=1)
            unknown = torch.arange(batch.mask.shape[1]).expand_as(batch.mask) == 0
        else:
            unknown = torch.arange(batch.mask.shape[1]) == batch.mask.sum(1, keepdim=True) - 1
        actions[unknown] = nothing
        rewards[unknown] = 0
        return actions, rewards


def modalities(spaces: TaskSpaces, options: LanguageOptions) -> list[Numbers]:
    """Say what the numbers of a step are, in the authors' order: state, return, action, reward."""
    shape, action = spaces.state.shape, spaces.action
    state = Numbers(torch.Size(shape).numel(), spaces.state.bins)
    discrete = Numbers(1, (action.size + 1,))  # the last one: nothing was done yet
    acted = discrete if action.kind == "discrete" else Numbers(action.size)
    to_go = [Numbers(1, (options.return_bins,))] if options.return_to_go else []
    return [state, *to_go, acted, Numbers(1, (options.reward_bins,))]


def flush_embeddings(embedder: object) -> dict[str, float]:
    """Write what a language model embedded to disk, and count it; other embedders have nothing."""
    if not isinstance(embedder, LanguageEmbedder):
        return {}
    embedder.cache.flush()
    return asdict(embedder.cache.counts)


EMBEDDERS.register("lm", EmbedderEntry(LanguageOptions, LanguageEmbedder))
