"""A retriever that is trained with the policy: W of `memory/embed.py`, by the policy's loss.

For some windows, random chunks of their own task are compared by the policy's loss on the actions
from the query's step on. W lowers the loss that is expected if softmax(cos(W q, W k) / T) draws the
chunk, and nothing else learns from that. What lowers the loss most would be twins, whose return is
the window's own (docs/results/training-contexts.md). So the windows are of good return, queries
know nothing of their targets, chunks are of random other episodes, and it is watched how the
return of what W finds goes with that of its window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, softmax

from radt.memory.embed import Projection
from radt.methods.method import TrainedBeside
from radt.methods.training_contexts import draw_from_own_task
from radt.methods.training_memory import SAMPLED, TrainingMemory
from radt.methods.windows import WindowOptions, WindowSampler
from radt.model.policy import DecisionTransformer

ABSENT = -1e9  # the logit of a candidate that is none
GAINS = ("gain", "gain_frozen", "gain_most")


@dataclass(frozen=True)
class RetrieverLearning:
    """How a learned retriever is trained (see retriever_learning.py)."""

    windows: int = 4  # of each update that it learns from
    candidates: int = 8  # random chunks of the own task that are compared for a window
    top_fraction: float = 0.4  # windows are of this share of each task's episodes, by return
    tau: float = 0.3  # temperature of the softmax over cosines
    re_embed_every: int = 50  # updates between new keys of the training index

    def __post_init__(self) -> None:
        for name, least in (("windows", 1), ("candidates", 2), ("re_embed_every", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")
        if self.tau <= 0:
            raise ValueError(f"tau must be above 0, not {self.tau}")
        WindowOptions(top_fraction=self.top_fraction)  # which refuses what is no share


class Compared(NamedTuple):
    """Frozen vectors of windows and their candidates, and what the policy loses with each.

    Processes that share a batch do not share this, which costs next to nothing: each has all of it.
    """

    queries: Tensor  # [n, d]
    keys: Tensor  # [n, c, d]
    losses: Tensor  # [n, c], infinite where there is no candidate


def cosines(projection: nn.Module, compared: Compared) -> Tensor:
    """Compare windows with their candidates as a projection sees them, [n, c]."""
    queries = projection(compared.queries)[:, None]  # [n, 1, d]
    return cosine_similarity(queries, projection(compared.keys), dim=-1)


def retriever_loss(projection: nn.Module, compared: Compared, config: RetrieverLearning) -> Tensor:
    """Return the policy's loss if softmax(cos(W q, W k) / T) draws, less that if all are alike."""
    absent = compared.losses.isinf()
    losses = compared.losses.masked_fill(absent, 0.0)
    mean = losses.sum(1, keepdim=True) / (~absent).sum(1, keepdim=True).clamp_min(1)
    scores = cosines(projection, compared) / config.tau
    drawn = softmax(scores.masked_fill(absent, ABSENT), 1)  # [n, c]
    return (drawn * (losses - mean).masked_fill(absent, 0.0)).sum(1).mean()


class RetrieverLearner(TrainedBeside):
    """Trains W, and keeps the W that made the keys of the training index, to resume by."""

    indexed: Tensor  # [d, d]

    def __init__(
        self,
        projection: Projection,
        policy: DecisionTransformer,
        memory: TrainingMemory,
        options: RetrieverLearning,
    ) -> None:
        super().__init__()
        self.projection = projection
        self.register_buffer("indexed", memory.projected_by.clone())
        self.memory, self.options = memory, options
        self._losses = policy.row_losses  # bound, since a module would become a part of this one
        self._gained: list[Tensor] = []  # since the last report
        dataset, context_len = memory.dataset, memory.config.context_len
        good = WindowOptions(top_fraction=options.top_fraction)
        self._sampler = WindowSampler(dataset, context_len, good)
        rng = np.random.default_rng(0)  # the same sample in every run
        looked_at = WindowSampler(dataset, context_len, WindowOptions()).draw(SAMPLED, rng)
        steps = memory.draw_query_steps(looked_at, rng, by_prefix=True)
        self._sample = memory.frozen_queries(looked_at.episode, steps)

    def draw(self, rng: np.random.Generator) -> Compared:
        """Draw windows and candidates, and ask the policy what each candidate is worth."""
        memory, count = self.memory, self.options.candidates
        windows = self._sampler.draw(self.options.windows, rng)
        steps = memory.draw_query_steps(windows, rng, by_prefix=True)
        queries = memory.frozen_queries(windows.episode, steps)
        ids = draw_from_own_task(queries, memory.store.entries, memory.members, count, rng)
        recent = self._sampler.read(windows)
        targets = recent.mask & (recent.timesteps >= torch.from_numpy(steps)[:, None])
        valid = self._sampler.valid(windows)
        row = torch.arange(len(ids)).repeat_interleave(count)  # [n * c]
        losses = self._losses(
            recent.rows(row),
            targets[row],
            None if valid is None else valid[row],
            memory.store.chunks(ids.view(-1, 1)),
        )
        losses = losses.view(ids.shape).masked_fill(ids.to(losses.device) < 0, torch.inf)
        compared = Compared(queries.vectors, memory.frozen_keys[ids.clamp_min(0)], losses)
        self._gained.append(self._gains(compared))
        return compared

    def forward(self, compared: Compared) -> Tensor:
        """Return what W has to learn from a batch."""
        return retriever_loss(self.projection, compared, self.options)

    @torch.no_grad()
    def _gains(self, compared: Compared) -> Tensor:
        """Compare with the mean the losses of what W, no W and an oracle choose, [n', 3].

        Windows that lack candidates are left out.
        """
        losses = compared.losses.cpu()
        scores = [cosines(w, compared).cpu() for w in (self.projection, nn.Identity())]
        chosen = torch.stack([*scores, -losses], dim=2).argmax(1)  # [n, 3]
        gains = losses.mean(1, keepdim=True) - losses.gather(1, chosen)
        return gains[gains.isfinite().all(1)]

    @torch.no_grad()
    def between_updates(self, done: int, of: int) -> Mapping[str, float]:
        """Re-embed the index when it is due, and say what W changed and what it would choose."""
        if not torch.equal(self.memory.projected_by, self.indexed.cpu()):  # resumed in between
            self.memory.re_embed(self.indexed)
        if done % self.options.re_embed_every and done != of:
            return {}
        before = self._choices()
        self.indexed.copy_(self.projection.weight)
        self.memory.re_embed(self.indexed)
        chosen = self._choices()
        facts = self.memory.confound(self._sample.episode.numpy(), chosen)
        facts["choices_changed"] = float((before != chosen).float().mean())
        if len(gained := torch.cat([torch.zeros(0, 3), *self._gained])):
            facts |= dict(zip(GAINS, gained.mean(0).tolist(), strict=True))
        self._gained.clear()
        return {f"retriever_{name}": value for name, value in facts.items()}

    def _choices(self) -> Tensor:
        """Search the own tasks of a sample of windows, with W as it is and keys as they are."""
        queries = replace(self._sample, vectors=self.projection(self._sample.vectors).cpu())
        return self.memory.search(queries, own_task_only=True).chosen[:, 0]
