"""Reweighting retrieved experiences by their utility (section 3.2.3, Eq. 4 and 5)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from radt.memory.entries import Entries
from radt.memory.retrieve import Queries
from radt.registry import Registry
from radt.trajectory import Retrieval, Verdict

VALUE = "value"
NO_NETWORK = (
    "utility=value is what a network expects of reading a chunk, and here is no network or no "
    "present state for it; train with options.memory.utility=value, whose agents have both, or "
    "choose another utility, such as return"
)


class Utility(Protocol):
    """s_u: how useful candidates are to their queries, beyond being similar."""

    def __call__(self, candidates: Entries, queries: Queries) -> Tensor:
        """Score candidates whose columns are [B, m]; return [B, m]."""


def same_task(candidates: Entries, queries: Queries) -> Tensor:
    """1 for entries of the query's task, 0 for others (training)."""
    return (candidates.task == queries.task[:, None]).float()


def episode_return(candidates: Entries, queries: Queries) -> Tensor:
    """Return of the whole episode that the entry is from (inference)."""
    return candidates.total_return


def generated_before(candidates: Entries, queries: Queries) -> Tensor:
    """1 for entries of the query's task that its source had generated before."""
    earlier = candidates.age < queries.age[:, None]
    return (earlier & (candidates.task == queries.task[:, None])).float()


def aligned_return(candidates: Entries, queries: Queries) -> Tensor:
    """Return of entries whose chunk covers the query's step; all others come after them.

    Where a trial is longer than a chunk, many of its chunks begin on the goal: they earn most, but
    do not show how to get there.
    """
    step, returns = queries.position[:, None], candidates.total_return
    aligned = (candidates.start <= step) & (step < candidates.stop)
    others = 1 + returns.amax(1, keepdim=True) - returns.amin(1, keepdim=True)
    return torch.where(aligned, returns, returns - others)


def no_utility(candidates: Entries, queries: Queries) -> Tensor:
    """Leave the ranking to relevance alone."""
    return torch.zeros_like(candidates.total_return)


def expected_return(candidates: Entries, queries: Queries) -> Tensor:
    """V(s, chunk), which only a memory with a network can tell (see chunk_values.py)."""
    raise ValueError(NO_NETWORK)


UTILITIES: Registry[Utility] = Registry("utilities", "utility")
UTILITIES.register("task", same_task)
UTILITIES.register("return", episode_return)
UTILITIES.register("aligned-return", aligned_return)
UTILITIES.register("position", generated_before)
UTILITIES.register(VALUE, expected_return)
UTILITIES.register("none", no_utility)


def min_max(values: Tensor, counted: Tensor) -> Tensor:
    """Scale each row to [0, 1] over its counted places; a row of equal values becomes 0."""
    low = values.where(counted, torch.inf).amin(1, keepdim=True)
    high = values.where(counted, -torch.inf).amax(1, keepdim=True)
    spread = (high - low).where(high > low, 1.0)
    return ((values - low) / spread).where(counted, 0.0)


def reweight(
    retrieval: Retrieval,
    queries: Queries,
    entries: Entries,
    utility: Utility,
    alpha: float,
    top_k: int,
) -> Retrieval:
    """Add alpha times utility to relevance, both in [0, 1] (Eq. 4), and take the top k (Eq. 5).

    Several chunks are read in the order of their returns. Ties go to the more similar candidate.
    """
    scored = retrieval.verdict == Verdict.OUTSCORED  # [B, m]
    useful, score = retrieval.utility, retrieval.score
    if len(entries):
        useful = utility(entries.rows(retrieval.ids.clamp_min(0)), queries).masked_fill(~scored, 0)
        score = min_max(retrieval.relevance, scored) + alpha * min_max(useful, scored)  # Eq. 4
        score = score.masked_fill(~scored, -torch.inf)
    best = torch.sort(score, dim=1, descending=True, stable=True).indices[:, :top_k]  # Eq. 5
    present = ~torch.isneginf(score.gather(1, best))
    verdict = torch.where(present, int(Verdict.CHOSEN), retrieval.verdict.gather(1, best))
    return Retrieval(
        ids=retrieval.ids,
        relevance=retrieval.relevance,
        utility=useful,
        score=score,
        verdict=retrieval.verdict.scatter(1, best, verdict),
        chosen=_in_order(retrieval.ids.gather(1, best).masked_fill(~present, -1), entries, top_k),
    )


def _in_order(chosen: Tensor, entries: Entries, top_k: int) -> Tensor:
    """Put chosen entries in the order of their returns, the best last, and fill up to k with -1."""
    if len(entries) and top_k > 1:
        returns = entries.total_return[chosen.clamp_min(0)].masked_fill(chosen < 0, -torch.inf)
        chosen = chosen.gather(1, torch.sort(returns, dim=1, stable=True).indices)
    return pad(chosen, (0, top_k - chosen.shape[1]), value=-1)
