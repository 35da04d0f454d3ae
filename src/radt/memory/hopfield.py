"""FrozenHopfield (Eq. 2): numbers of a step become tokens that a language model can read.

    FH(x) = E^T softmax(beta * E P x)

E holds the word embeddings of the language model, P is random and never trained. What comes out is
a mixture of words. Discrete numbers enter as one-hots, others as they are; where all numbers of a
token are discrete, each distinct token is computed once and looked up afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

Similarity = Literal["cosine", "dot"]
TOKENS_AT_ONCE = 512  # a token is compared with each of some 30,000 words


class FrozenHopfield:
    """Replaces an input by the words it resembles most, under a random projection."""

    def __init__(
        self,
        words: Tensor,  # E, [v, d]
        inputs: int,
        beta: float,
        similarity: Similarity,
        generator: torch.Generator,
    ) -> None:
        self.words, self.beta, self.similarity = words, beta, similarity
        spread = math.sqrt(inputs / words.shape[1])  # entries of P are N(0, d_in / d_LM)
        drawn = torch.randn(words.shape[1], inputs, generator=generator, dtype=torch.float32)
        self.projection = (spread * drawn).to(words.device)  # P, [d, d_in]
        self._compared = normalize(words, dim=1) if similarity == "cosine" else words

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs [N, d_in] to mixtures of words [N, d]."""
        parts = inputs.to(self.words.device).split(TOKENS_AT_ONCE)
        return torch.cat([self._mixture(part) for part in parts])

    def _mixture(self, inputs: Tensor) -> Tensor:
        projected = inputs @ self.projection.T  # [N, d]
        if self.similarity == "cosine":
            projected = normalize(projected, dim=1)
        return (self.beta * projected @ self._compared.T).softmax(dim=1) @ self.words


@dataclass(frozen=True)
class Numbers:
    """What one modality of a step is made of: numbers with so many values each, or plain ones."""

    count: int
    bins: tuple[int, ...] = ()  # one per number; empty: they enter as they are

    @property
    def inputs(self) -> int:
        """How wide the modality is when it enters FrozenHopfield."""
        return sum(self.bins) or self.count

    def expand(self, values: Tensor) -> Tensor:
        """Turn discrete numbers [N, count] into one-hots side by side, [N, inputs]."""
        if not self.bins:
            return values
        columns = zip(values.long().unbind(1), self.bins, strict=True)
        return torch.cat([one_hot(column, bins) for column, bins in columns], dim=1).float()


class TokenTable:
    """Makes the tokens of one or more modalities joined; equal discrete ones are computed once."""

    def __init__(self, modalities: Sequence[Numbers], hopfield: FrozenHopfield) -> None:
        self.modalities, self.hopfield = tuple(modalities), hopfield
        bins = [size for part in modalities for size in part.bins]
        discrete = all(part.bins for part in modalities) and math.prod(bins) < 2**62
        self._places = [1, *accumulate(bins[:-1], lambda a, b: a * b)] if discrete else None
        self._row: dict[int, int] = {}  # where each token's code stands in the table
        self._table = hopfield.words.new_zeros(0, hopfield.words.shape[1])

    def __len__(self) -> int:
        return len(self._row)

    def __call__(self, values: Tensor) -> Tensor:
        """Map numbers [N, count of all modalities] to tokens [N, d]."""
        if self._places is None:
            return self.hopfield(self._expanded(values))
        codes = (values.long() * torch.tensor(self._places)).sum(1)  # [N], one per distinct token
        distinct, first = _distinct(codes)
        new = [i for i, code in enumerate(distinct.tolist()) if code not in self._row]
        if new:
            tokens = self.hopfield(self._expanded(values[first[new]]))
            self._row |= {int(distinct[i]): len(self._row) + n for n, i in enumerate(new)}
            self._table = torch.cat([self._table, tokens])
        rows = torch.tensor([self._row[code] for code in distinct.tolist()])
        return self._table[rows[torch.searchsorted(distinct, codes)]]

    def _expanded(self, values: Tensor) -> Tensor:
        parts = values.split([part.count for part in self.modalities], dim=1)
        pairs = zip(self.modalities, parts, strict=True)
        return torch.cat([modality.expand(part) for modality, part in pairs], dim=1)


def _distinct(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sorted distinct codes and where each stands first."""
    distinct, inverse = codes.unique(return_inverse=True)
    first = torch.empty_like(distinct)
    order = torch.arange(len(codes) - 1, -1, -1)
    first[inverse[order]] = order
    return distinct, first


def binned(values: Tensor, low: float, high: float, bins: int) -> Tensor:
    """Return the bin of each value, the nearest of `bins` equal marks from `low` to `high`."""
    scaled = (values - low) / (high - low) * (bins - 1)
    return scaled.clamp(0, bins - 1).round()
