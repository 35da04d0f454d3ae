"""Retrieval in training: its options, and which chunk a window reads, a found or a random one.

The paper retrieves among all trajectories (section 3.2.4) and compares with random chunks of the
same task and of any task (section 4.6). A pool lies in between: only m random episodes of the own
task are searched. One episode is sampling, all of them is retrieval within the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from radt.memory.entries import DedupOrder, Entries
from radt.memory.retrieve import Queries
from radt.memory.similarity import best_first, group, similarity, unit
from radt.methods.windows import check_share

Contexts = Literal["retrieved", "own-task", "all-tasks", "equal-return", "earlier-worse"]
NEAREST_RETURNS = 16  # episodes with the most similar returns that an equal one is drawn from


@dataclass(frozen=True)
class RetrievalTraining:
    """What is retrieved for training windows, and the regularisers of it (appendix C.4)."""

    query: Literal["window", "prefix"] = "window"  # embed all of it, or what a random step knows
    contexts: Contexts = "retrieved"  # or random chunks
    sampled_share: float = 0.0  # share of windows that read a random chunk of their own task
    any_task_share: float = 0.0  # share that read one of any task; the others do as `contexts` says
    pool: int | None = None  # search so many random episodes of the own task; 0: all of it
    earlier_only: bool = False  # search only what the own task's source had generated before
    utility: str = "task"  # what is added to relevance: task, or another that is registered
    alpha: float | None = None  # weight of utility against relevance; None: memory.alpha
    cut_off: float | None = 0.98  # remove candidates more similar than this
    cut_off_keep: float | None = None  # instead of cut_off: the share of candidates that stays
    query_dropout: float = 0.2  # share of state tokens left out of a query
    blend: float | None = None  # weight of the query against a random key
    min_length: int = 0  # queries before this step get a random chunk of their own task
    dedup: float | None = 0.98  # drop entries more similar than this to one that is kept
    dedup_keep: float | None = None  # instead of dedup: the share of entries that stays
    dedup_order: DedupOrder = "return"  # which entries come first, and so stay
    dedup_spares_start: bool = False  # keep entries at t = 0, whose keys a fixed start makes equal
    own_task_only: bool = False  # search only the own task: faster, but may choose otherwise
    context_dropout: float = 0.1  # share of windows that read the null chunk
    query_offsets: tuple[int, ...] | None = None  # ask only so far behind an entry's step
    truncated_chunks: float = 0.0  # share of chunks that end with an early reward (see transforms)
    start_chunks: bool = False  # only chunks from the start of an episode

    @property
    def asks_by_prefix(self) -> bool:
        """Whether a query is made before the window's end."""
        return self.query == "prefix" or self.query_offsets is not None

    @property
    def deduplicates(self) -> bool:
        """Whether entries that say the same are dropped."""
        return self.dedup is not None or self.dedup_keep is not None

    def __post_init__(self) -> None:
        shares = ("sampled_share", "any_task_share", "cut_off_keep", "dedup_keep")
        for name in (*shares, "query_dropout", "context_dropout", "blend"):
            check_share(name, getattr(self, name) or 0.0)
        check_share("sampled_share + any_task_share", self.sampled_share + self.any_task_share)
        if self.pool is not None and self.pool < 0:
            raise ValueError(f"pool must be 0 (all episodes of the task) or more, not {self.pool}")
        if self.min_length < 0:
            raise ValueError(f"min_length must be 0 or more steps, not {self.min_length}")
        if self.earlier_only and self.pool is None:
            raise ValueError("earlier_only searches the own task: give pool, 0 for all of it")


def check_query_offsets(offsets: tuple[int, ...] | None, between: int) -> None:
    """Refuse steps behind an entry that belong to the next one."""
    if offsets is None or (0 in offsets and all(0 <= step < between for step in offsets)):
        return
    raise ValueError(
        f"query_offsets are steps behind an entry, 0 among them and all below {between}, where the "
        f"next entry stands; got {offsets}"
    )


def draw_from_own_task(
    queries: Queries, entries: Entries, members: Tensor, top_k: int, rng: np.random.Generator
) -> Tensor:
    """Draw random chunks of each query's own task, [B, k] ids.

    `members[task]` lists the ids to draw from, then -1. A draw that hits the query's own trajectory
    counts as nothing found, -1.
    """
    places = torch.from_numpy(rng.random((len(queries), top_k)))
    if not len(entries):
        return torch.full((len(queries), top_k), -1)
    ids = members[queries.task]  # [B, longest]
    count = (ids >= 0).sum(1, keepdim=True)  # [B, 1]
    chosen = ids.gather(1, (places * count).long())
    return _without_own(chosen, queries, entries)


def draw_from_all_tasks(
    queries: Queries, entries: Entries, top_k: int, rng: np.random.Generator
) -> Tensor:
    """Draw random chunks of any task, [B, k] ids."""
    if not len(entries):
        return torch.full((len(queries), top_k), -1)
    chosen = torch.from_numpy(rng.integers(len(entries), size=(len(queries), top_k)))
    return _without_own(chosen, queries, entries)


def draw_of_equal_return(
    queries: Queries,
    total_return: Tensor,  # [B] of the queries' own episodes
    entries: Entries,
    members: Tensor,
    top_k: int,
    rng: np.random.Generator,
) -> Tensor:
    """Draw random chunks of own-task episodes that earned about as much, [B, k] ids.

    A retrieved chunk shares its window's return; this has that in common with it, but no more.
    """
    ids = members[queries.task]  # [B, longest]
    apart = (entries.total_return[ids.clamp_min(0)] - total_return[:, None]).abs()
    own = entries.episode[ids.clamp_min(0)] == queries.episode[:, None]
    apart = apart.masked_fill((ids < 0) | own, torch.inf)
    ties = torch.from_numpy(rng.random(tuple(apart.shape))) * 1e-3
    nearest = (apart + ties).topk(min(NEAREST_RETURNS, ids.shape[1]), dim=1, largest=False)
    places = torch.from_numpy(rng.integers(nearest.indices.shape[1], size=(len(queries), top_k)))
    column = nearest.indices.gather(1, places)
    return ids.gather(1, column).masked_fill(nearest.values.gather(1, places).isinf(), -1)


def draw_earlier_worse(
    queries: Queries,
    total_return: Tensor,  # [B] of the queries' own episodes
    entries: Entries,
    members: Tensor,
    top_k: int,
    rng: np.random.Generator,
) -> Tensor:
    """Draw random chunks of own-task episodes that came before and earned no more, [B, k] ids.

    What follows such a chunk is better than it, as what an agent does after reading it should be.
    """
    ids = members[queries.task]  # [B, longest]
    known = ids.clamp_min(0)
    allowed = (ids >= 0) & (entries.age[known] < queries.age[:, None])
    allowed &= entries.total_return[known] <= total_return[:, None]
    count = allowed.sum(1, keepdim=True)  # [B, 1]
    place = (torch.from_numpy(rng.random((len(ids), top_k))) * count).long()  # among the allowed
    column = torch.searchsorted(allowed.cumsum(1), 1 + place).clamp_max(ids.shape[1] - 1)
    return ids.gather(1, column).masked_fill(count == 0, -1)


def _without_own(chosen: Tensor, queries: Queries, entries: Entries) -> Tensor:
    is_own = entries.episode[chosen.clamp_min(0)] == queries.episode[:, None]
    return chosen.masked_fill(is_own, -1)


class Pools:
    """Searches m random episodes of each query's own task."""

    def __init__(self, keys: Tensor, entries: Entries, size: int, earlier_only: bool) -> None:
        """Look at the entries by episode; `size` 0 takes all episodes of a task."""
        self._keys, self._entries = unit(keys), entries
        self._size, self._earlier_only = size, earlier_only
        episodes, first = _unique(entries.episode)
        tasks = int(entries.task.max()) + 1 if len(entries) else 0
        self._episodes = group(entries.task[first], tasks)  # [tasks, longest] rows of episodes
        self._age = entries.age[first]  # [episodes]
        self._number = episodes  # [episodes]
        row = torch.searchsorted(episodes, entries.episode)
        self._entries_of = group(row, len(episodes))  # [episodes, most] ids

    def draw(self, queries: Queries, rng: np.random.Generator) -> Tensor:
        """Draw episodes of each query's task, but not its own, [B, m] rows; -1: there are fewer."""
        rows = self._episodes[queries.task]  # [B, longest]
        known = rows.clamp_min(0)
        allowed = (rows >= 0) & (self._number[known] != queries.episode[:, None])
        if self._earlier_only:
            allowed &= self._age[known] < queries.age[:, None]
        order = torch.from_numpy(rng.random(tuple(rows.shape))).masked_fill(~allowed, 2.0)
        count = rows.shape[1] if self._size == 0 else min(self._size, rows.shape[1])
        drawn = order.topk(count, dim=1, largest=False)
        return rows.gather(1, drawn.indices).masked_fill(drawn.values > 1.0, -1)

    def search(
        self, queries: Queries, top_l: int, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of the l most similar entries of each pool, [B, <=l]."""
        pool = self.draw(queries, rng)  # [B, m]
        ids = self._entries_of[pool.clamp_min(0)].masked_fill((pool < 0)[..., None], -1).flatten(1)
        ids = ids.sort(dim=1).values  # ties go to the newest entry
        keys = self._keys[ids.clamp_min(0)]  # [B, n, d]
        cosine = similarity(unit(queries.vectors)[:, None], keys)[:, 0]  # [B, n]
        cosine = cosine.masked_fill(ids < 0, -2.0)
        relevance, column = best_first(cosine, top_l)
        found = ids.gather(1, column)
        return relevance.masked_fill(found < 0, -torch.inf), found


def _unique(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct values [E], rising, and the first place of each, [E]."""
    distinct, place = np.unique(values.numpy(), return_index=True)
    return torch.from_numpy(distinct), torch.from_numpy(place)
