"""RA-DT whose memory learns with its policy; the paper leaves both ways to future work.

With `retriever=learned` keys and queries are projected by what the policy's loss teaches
(retriever_learning.py). With `memory.utility=value` a network beside the policy judges what a chunk
is worth from here (model/chunk_value.py). In all else it is `RADT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.embed import Embedder, ProjectedEmbedder
from radt.memory.entries import chunks_apart
from radt.memory.memory import Memory
from radt.memory.reweight import VALUE
from radt.methods.method import METHODS, MethodEntry, Progress
from radt.methods.ra_dt import RADT, RADTExamples, RADTOptions
from radt.methods.ra_dt import build as build_ra_dt
from radt.methods.retriever_learning import Compared, RetrieverLearner, RetrieverLearning
from radt.model.chunk_value import ChunkValue
from radt.spaces import TaskSpaces

LOOKED_AT = 1024  # windows whose returns-to-go a value begins with


@dataclass(frozen=True)
class LearnedMemoryOptions(RADTOptions):
    """What can be chosen about RA-DT, and about what its memory learns."""

    retriever: Literal["frozen", "learned"] = "frozen"  # learned: trained with the policy
    retriever_learning: RetrieverLearning = field(default_factory=RetrieverLearning)

    @property
    def learns(self) -> bool:
        """Whether anything is learned beside the policy."""
        return self.retriever == "learned" or self.memory.utility == VALUE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subgoals and self.memory.utility == VALUE:
            raise ValueError(
                "utility=value judges whole chunks, of which subgoals show a part; leave one out"
            )
        if self.subgoals and self.retriever == "learned":
            raise ValueError("a learned retriever compares whole chunks; leave out subgoals")


@dataclass(frozen=True)
class LearnedMemoryExamples(RADTExamples):
    """The same, and other windows with candidates that a learned retriever compares."""

    compared: Compared | None


class LearnedMemory(RADT):
    """A Decision Transformer, and what learns beside it how to choose its chunks."""

    options: LearnedMemoryOptions

    def __init__(
        self, spaces: TaskSpaces, options: LearnedMemoryOptions, seed: int, embedder: Embedder
    ) -> None:
        learned = ProjectedEmbedder(embedder) if options.retriever == "learned" else None
        super().__init__(spaces, options, seed, learned or embedder)
        if learned is not None:
            self.networks["retriever"] = learned.projection
        self.value: ChunkValue | None = None
        if options.memory.utility == VALUE:  # a part of the policy: trained and saved with it
            self.value = ChunkValue(spaces, seed, options.model.encoder)
            self.policy.add_module("value", self.value)
        self.beside: RetrieverLearner | None = None

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Fill the index, and let what learns begin with what is known of the data."""
        facts = super().prepare(dataset, progress)
        if self.value is not None:
            seen = self.sampler.read(self.sampler.draw(LOOKED_AT, np.random.default_rng(0)))
            self.value.begin_at(seen.returns_to_go[seen.mask])
        if isinstance(self.embedder, ProjectedEmbedder):
            self.beside = RetrieverLearner(
                self.embedder.projection, self.policy, self.memory, self.options.retriever_learning
            )
        return facts

    def draw(self, size: int, rng: np.random.Generator) -> LearnedMemoryExamples:
        """Draw what the policy learns from, and what the retriever does."""
        examples = super().draw(size, rng)
        # A generator of its own, so that the policy sees what it would see without.
        compared = self.beside.draw(rng.spawn(1)[0]) if self.beside else None
        return LearnedMemoryExamples(**vars(examples), compared=compared)

    def loss(self, examples: RADTExamples) -> Tensor:
        """Add to the policy's loss those of what learns beside it."""
        loss = super().loss(examples)
        if self.value is not None:
            loss = loss + self._value_loss(self.value, examples)
        compared = getattr(examples, "compared", None)
        return loss if self.beside is None or compared is None else loss + self.beside(compared)

    def _value_loss(self, value: ChunkValue, examples: RADTExamples) -> Tensor:
        """Judge each chunk by what followed in the windows that read it."""
        memory, earned = self.options.memory, self.sampler.dataset.episodes.total_return
        row = torch.arange(len(examples.recent)).repeat_interleave(memory.top_k)  # [B * k]
        return value.loss(
            examples.recent.rows(row),
            examples.targets[row],
            torch.from_numpy(earned)[examples.episode[row]],
            chunks_apart(examples.retrieved, memory.halves.chunk_len),
        )

    def new_memory(self) -> Memory:
        return Memory(self.embedder, self.spaces, self.options.memory, value=self.value)


def build(
    spaces: TaskSpaces, options: LearnedMemoryOptions, seed: int, embedder: Embedder | None
) -> RADT:
    """Build RA-DT, the paper's where nothing is learned beside its policy."""
    if embedder is None or not options.learns:
        return build_ra_dt(spaces, options, seed, embedder)
    return LearnedMemory(spaces, options, seed, embedder)


METHODS.register("ra-dt", MethodEntry(LearnedMemoryOptions, build, embedder="dt"))
