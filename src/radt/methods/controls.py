"""Controls: the same weights with another memory, to tell what retrieval is worth.

| control         | what the policy reads                                                          |
|-----------------|--------------------------------------------------------------------------------|
| `erased`        | nothing of earlier trials: the memory is emptied before each trial             |
| `other-task`    | what retrieval finds in the memory of another task                             |
| `random-own`    | a random chunk of the own task                                                 |
| `last-trial`    | the latest trial, at the present step; no embedder, no search                  |
| `best-trial`    | the trial with the highest return, at the present step; no embedder, no search |
| `rewarded-only` | what retrieval finds, where trials that earn nothing are not stored            |
| `oracle`        | an expert's episode, stored before the first trial: the reading ceiling        |

If `best-trial` scores as the method does, retrieval bought nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.errors import RunError
from radt.memory.entries import Entries
from radt.memory.memory import Memory
from radt.methods.method import Actor, Retrieve, UsesSharedMemory
from radt.trajectory import Retrieval, Verdict

CONTROLS = (
    *("erased", "other-task", "random-own", "last-trial", "best-trial"),
    *("rewarded-only", "oracle"),
)


@runtime_checkable
class ChoosesChunks(Protocol):
    """An actor that can be told how to choose what it reads of its memory."""

    memory: Memory | None
    retrieve: Retrieve | None


def possible(control: str, actor: Actor, tasks: Sequence[int]) -> bool:
    """Say whether a control means anything for an actor; most of them need a memory."""
    if control == "erased":
        return True
    if control == "oracle":
        return actor.memory is not None and isinstance(actor, UsesSharedMemory)
    if control == "other-task" and len(tasks) < 2:
        return False
    return actor.memory is not None and isinstance(actor, ChoosesChunks)


def changes_nothing(control: str | None, actor: Actor) -> bool:
    """Say whether an actor acts under a control as it does without: it has nothing to erase."""
    return control == "erased" and not getattr(actor, "remembers", True)


def apply_control(control: str, actor: Actor, tasks: Sequence[int], seed: int) -> None:
    """Let an actor, whose slots are of some tasks, act under a control.

    For `oracle` nothing is left to do: it acts as ever, with a memory that was filled before.
    """
    if not possible(control, actor, tasks):
        raise RunError(
            f"the control {control} needs {'two tasks' if len(tasks) < 2 else 'a memory'}; "
            "leave it out"
        )
    if control == "erased":
        erase_before_each_trial(actor)
    elif control == "rewarded-only" and actor.memory is not None:
        actor.memory.config = replace(actor.memory.config, store_above=0.0)
    elif control != "oracle" and isinstance(actor, ChoosesChunks) and actor.memory is not None:
        partitions = list(tasks) if _shares(actor) else list(range(len(tasks)))
        actor.retrieve = _retrieval(control, actor.memory, partitions, tasks, seed)


def _retrieval(
    control: str, memory: Memory, partitions: Sequence[int], tasks: Sequence[int], seed: int
) -> Retrieve:
    """Build what takes the place of retrieval; `partitions` are the tasks' names in the memory."""
    if control == "other-task":
        return retrieve_other_task(memory, partitions)
    if control == "random-own":  # a task's draws do not depend on the tasks beside it
        named = zip(partitions, tasks, strict=True)
        streams = {own: np.random.default_rng([seed, task]) for own, task in named}
        return retrieve_random_own(memory, streams)
    return retrieve_last_trial(memory) if control == "last-trial" else retrieve_best_trial(memory)


def erase_before_each_trial(actor: Actor) -> None:
    """Let an actor begin every trial as if it were its first; works for any method.

    What a rule has seen of a task, such as its first success, is not the actor's and stays.
    """
    if _shares(actor):
        raise RunError(
            "a shared memory outlives the trials of one agent, so that the control erased cannot "
            "empty it; give the agent a memory of its own"
        )
    begin = actor.begin_trials

    def begin_empty(slots: NDArray[np.int64]) -> None:
        actor.forget(slots)
        begin(slots)

    actor.begin_trials = begin_empty  # type: ignore[method-assign]


def _shares(actor: object) -> bool:
    return bool(getattr(actor, "shares_memory", False))


def retrieve_other_task(memory: Memory, partitions: Sequence[int]) -> Retrieve:
    """Search what the next of some tasks has stored instead of the own."""
    following = dict(zip(partitions, [*partitions[1:], partitions[0]], strict=True))

    def retrieve(
        queries: Tensor, tasks: Tensor, steps: Tensor, /, *, now: Tensor | None = None
    ) -> Retrieval:
        others = torch.tensor([following[task] for task in tasks.tolist()])
        return memory.retrieve(queries, others, steps, now=now)

    return retrieve


def retrieve_random_own(memory: Memory, streams: dict[int, np.random.Generator]) -> Retrieve:
    """Draw entries of the own task, each with the same probability and from the task's stream."""
    top_k = memory.config.top_k

    def retrieve(
        queries: Tensor, tasks: Tensor, steps: Tensor, /, *, now: Tensor | None = None
    ) -> Retrieval:
        chosen = np.full((len(tasks), top_k), -1)
        for row, task in enumerate(tasks.tolist()):
            own = np.flatnonzero(memory.entries.task.numpy() == task)
            drawn = streams[task].permutation(own)[:top_k]
            chosen[row, : len(drawn)] = drawn
        return _choice(torch.from_numpy(chosen))

    return retrieve


def retrieve_last_trial(memory: Memory) -> Retrieve:
    """Take the chunk of the latest trial that covers the present step, or its last one."""
    return _by_rank(memory, lambda entries: entries.episode.double())


def retrieve_best_trial(memory: Memory) -> Retrieve:
    """Take that of the trial with the highest return, of equals the latest."""
    return _by_rank(memory, lambda entries: entries.total_return.double())


def _by_rank(memory: Memory, rank: Callable[[Entries], Tensor]) -> Retrieve:
    """Choose by a rank of trials, and within a trial the entry nearest to the present step."""

    def retrieve(
        queries: Tensor, tasks: Tensor, steps: Tensor, /, *, now: Tensor | None = None
    ) -> Retrieval:
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
    """Choose the k highest scores [B, N] that are not negative."""
    best, ids = score.topk(min(top_k, score.shape[1]), dim=1)
    ids = ids.masked_fill(best < 0, -1)
    return _choice(torch.nn.functional.pad(ids, (0, top_k - ids.shape[1]), value=-1))


def _choice(ids: Tensor) -> Retrieval:
    """Wrap the ids [B, k] of chosen entries; -1: none."""
    nothing = torch.zeros(ids.shape)
    verdict = torch.where(ids < 0, int(Verdict.ABSENT), int(Verdict.CHOSEN))
    return Retrieval(ids, nothing, nothing, nothing, verdict, ids)
