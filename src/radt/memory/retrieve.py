"""Searching for similar experiences (section 3.2.2) and the regularisers of training (app. C.4)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.entries import Entries
from radt.trajectory import Retrieval, Verdict


@dataclass(frozen=True)
class Queries:
    """What is looked for, and what the searcher knows of itself."""

    vectors: Tensor  # [B, d]
    task: Tensor  # [B] int64: the task, or the slot of a running agent
    episode: Tensor  # [B] int64: the own trajectory, -1 where it is not in the memory
    age: Tensor  # [B] int64: the own trajectory's position in its task's history
    position: Tensor  # [B] int64: the step at which the query was made

    def __len__(self) -> int:
        return len(self.vectors)

    def rows(self, chosen: NDArray[np.bool_]) -> Queries:
        index = torch.from_numpy(chosen)
        return Queries(*(getattr(self, column.name)[index] for column in fields(self)))


@runtime_checkable
class Searchable(Protocol):
    """Finds the entries with the most similar keys, as an index does."""

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, both [B, k], best first; absent: -inf and -1."""


def retrieve(
    queries: Queries,
    index: Searchable,
    entries: Entries,
    top_l: int,
    cut_off: float | None = None,
    own_task_only: bool = False,
) -> Retrieval:
    """Find the l most similar entries of other trajectories, Eq. 3.

    With a similarity `cut_off`, twice as many are searched and those above it are removed first.
    """
    wanted = top_l if cut_off is None else 2 * top_l
    none_stored = bool((queries.episode < 0).all())  # at inference the running trial is not
    own = 0 if none_stored else entries.most_per_episode  # so many may be the query's own
    partition = queries.task if own_task_only else None
    relevance, ids = index.search(queries.vectors, wanted + own, partition)
    return candidates(relevance.cpu(), ids.cpu(), queries, entries, top_l, cut_off)


def candidates(
    relevance: Tensor,
    ids: Tensor,
    queries: Queries,
    entries: Entries,
    top_l: int,
    cut_off: float | None,
) -> Retrieval:
    """Say which of the most similar entries, [B, n] best first, are among the l candidates."""
    own = len(entries) > 0 and not bool((queries.episode < 0).all())
    wanted = top_l if cut_off is None else 2 * top_l
    verdict = torch.where(ids < 0, int(Verdict.ABSENT), int(Verdict.OUTSCORED))
    if own:
        is_own = entries.episode[ids.clamp_min(0)] == queries.episode[:, None]
        verdict[is_own & (ids >= 0)] = Verdict.OWN_TRAJECTORY
        _keep_first(verdict, wanted)  # however many were own
    if cut_off is not None:
        verdict[(relevance > cut_off) & (verdict == Verdict.OUTSCORED)] = Verdict.TOO_SIMILAR
        _keep_first(verdict, top_l)
    return Retrieval(
        ids=ids,
        relevance=relevance,
        utility=torch.zeros_like(relevance),
        score=torch.full_like(relevance, -torch.inf),
        verdict=verdict,
        chosen=torch.full((len(queries), 0), -1),
    )


def _keep_first(verdict: Tensor, count: int) -> None:
    """Keep the first `count` remaining candidates of each row; the rest are beyond l."""
    remaining = verdict == Verdict.OUTSCORED  # until one is chosen
    verdict[remaining & (remaining.cumsum(1) > count)] = Verdict.BEYOND_L


def blend_queries(vectors: Tensor, others: Tensor, alpha_blend: float) -> Tensor:
    """Mix each query with a random key: q' = alpha q + (1 - alpha) q_rand."""
    return alpha_blend * vectors + (1 - alpha_blend) * others
