"""FrozenHopfield (Eq. 2): numbers of a step become tokens that a language model can read.

    FH(x) = E^T softmax(beta * E P x)

E holds the word embeddings of the language model, P is random and never trained. What comes out is
a mixture of words. Discrete numbers enter as one-hots, others as they are. A token is compared with
each of some 30,000 words, so each distinct one is computed once and looked up afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

Similarity = Literal["cosine", "dot"]
TOKENS_AT_ONCE = 512  # against 30,000 words these are 60 MB of comparisons
TOKENS_KEPT = 65_536  # in a table: where numbers never come twice, it must not grow for ever


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
    """Makes the tokens of one or more modalities joined; equal ones are computed once."""

    def __init__(self, modalities: Sequence[Numbers], hopfield: FrozenHopfield) -> None:
        self.modalities, self.hopfield = tuple(modalities), hopfield
        self._forget()

    def _forget(self) -> None:
        self._row: dict[bytes, int] = {}  # where a token stands in the table, by its numbers
        self._table = self.hopfield.words.new_zeros(0, self.hopfield.words.shape[1])

    def __len__(self) -> int:
        return len(self._row)

    def __call__(self, values: Tensor) -> Tensor:
        """Map numbers [N, count of all modalities] to tokens [N, d]."""
        distinct, which = values.unique(dim=0, return_inverse=True)
        if len(self) + len(distinct) > TOKENS_KEPT:
            self._forget()
        keys = [row.tobytes() for row in distinct.numpy()]
        if new := [place for place, key in enumerate(keys) if key not in self._row]:
            self._table = torch.cat([self._table, self.hopfield(self._expanded(distinct[new]))])
            self._row |= {keys[place]: len(self._row) + n for n, place in enumerate(new)}
        rows = torch.tensor([self._row[key] for key in keys])
        return self._table[rows[which]]

    def _expanded(self, values: Tensor) -> Tensor:
        parts = values.split([part.count for part in self.modalities], dim=1)
        pairs = zip(self.modalities, parts, strict=True)
        return torch.cat([modality.expand(part) for modality, part in pairs], dim=1)
