"""Controls: the same weights with another memory, to tell what retrieval is worth.

| control      | what the policy reads                                                            |
|--------------|----------------------------------------------------------------------------------|
| `erased`     | nothing of earlier trials: the memory is emptied before each trial               |
| `other-task` | what retrieval finds in the memory of another task                               |
| `random-own` | a random chunk of the own task                                                   |
| `last-trial` | the latest trial, at the present step; no embedder, no search                    |
| `best-trial` | the trial with the highest return, at the present step; no embedder, no search   |
| `oracle`     | an expert's episode, stored before the first trial: the reading ceiling          |

If `best-trial` scores as the method does, retrieval bought nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.entries import Entries
from radt.memory.memory import Memory
from radt.methods.method import Actor, Retrieve
from radt.trajectory import Retrieval, Verdict

Control = Literal["erased", "other-task", "random-own", "last-trial", "best-trial", "oracle"]


def erase_before_each_trial(actor: Actor) -> None:
    """Let an actor begin every trial as if it were its first; works for any method."""
    begin = actor.begin_trials

    def begin_empty(slots: NDArray[np.int64]) -> None:
        actor.forget(slots)
        begin(slots)

    actor.begin_trials = begin_empty  # type: ignore[method-assign]


def retrieve_other_task(memory: Memory, slots: int) -> Retrieve:
    """Search the memory of the next slot instead of the own."""

    def retrieve(queries: Tensor, tasks: Tensor, steps: Tensor) -> Retrieval:
        return memory.retrieve(queries, (tasks + 1) % slots, steps)

    return retrieve


def retrieve_random_own(memory: Memory, seed: int) -> Retrieve:
    """Draw entries of the own task, each with the same probability."""
    rng = np.random.default_rng(seed)

    def retrieve(queries: Tensor, tasks: Tensor, steps: Tensor) -> Retrieval:
        draw = torch.from_numpy(rng.random((len(tasks), max(1, len(memory)))))
        own = memory.entries.task == tasks[:, None]  # [B, N]
        return _chosen(draw[:, : len(memory)].masked_fill(~own, -1.0), memory.config.top_k)

    return retrieve


def retrieve_last_trial(memory: Memory) -> Retrieve:
    """Take the chunk of the latest trial that covers the present step, or its last one."""
    return _by_rank(memory, lambda entries: entries.episode.double())


def retrieve_best_trial(memory: Memory) -> Retrieve:
    """Take that of the trial with the highest return, of equals the latest."""
    return _by_rank(memory, lambda entries: entries.total_return.double())


def _by_rank(memory: Memory, rank: Callable[[Entries], Tensor]) -> Retrieve:
    """Choose by a rank of trials, and within a trial the entry nearest to the present step."""

    def retrieve(queries: Tensor, tasks: Tensor, steps: Tensor) -> Retrieval:
        entries = memory.entries
        order = _dense(torch.stack([rank(entries), entries.episode.double()], dim=1))  # [N]
        apart = (entries.position - steps[:, None]).abs().double()  # [B, N]
        score = 1 + order - apart / (1 + apart.max() if apart.numel() else 1.0)
        own = entries.task == tasks[:, None]
        return _chosen(score.masked_fill(~own, -1.0), memory.config.top_k)

    return retrieve


def _dense(columns: Tensor) -> Tensor:
    """Rank rows [N, c] lexicographically from 0 on, [N]."""
    order: Tensor = torch.unique(columns, dim=0, return_inverse=True)[1]
    return order.double()


def _chosen(score: Tensor, top_k: int) -> Retrieval:
    """Wrap a choice of the k highest scores [B, N] that are not negative."""
    best, ids = score.topk(min(top_k, score.shape[1]), dim=1)
    ids = ids.masked_fill(best < 0, -1)
    missing = top_k - ids.shape[1]
    ids = torch.nn.functional.pad(ids, (0, missing), value=-1)  # [B, k]
    nothing = torch.zeros(ids.shape)
    verdict = torch.where(ids < 0, int(Verdict.ABSENT), int(Verdict.CHOSEN))
    return Retrieval(ids, nothing, nothing, nothing, verdict, ids)
