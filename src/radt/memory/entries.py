"""Cutting trajectories into entries and their chunks (section 3.2.1), and which of them stay.

An entry stands at step t of an episode, t = 0, P, 2P, ... Its key embeds the C latest states an
agent has seen when it stands at t, s_t included; its chunk runs from t - P to t + F, so it also
tells how things went on. The paper's P and F, the halves of a chunk, are both C.

Entries that say the same can be dropped, and those that are worth least when a task has too many.
Tasks do not compete: what one agent writes cannot make another forget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from radt.memory.similarity import similarity, unit
from radt.registry import Registry
from radt.room import check_room
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, SubTrajectory, returns_to_go

DedupOrder = Literal["return", "chronological", "random"]
BISECTIONS = 12
COMPARED_AT_ONCE = 1024  # entries of a task, with all that are kept of it


class Halves(NamedTuple):
    """How many steps of a chunk lie before its entry's step and from it on."""

    past: int  # P: also the steps from one entry of an episode to the next
    future: int  # F

    @property
    def chunk_len(self) -> int:
        """How many steps a whole chunk has."""
        return self.past + self.future


@dataclass(frozen=True)
class Entries:
    """Where each entry of a memory comes from, one column per fact, one row per entry."""

    task: Tensor  # [N] int64: the task, or the slot of a running agent
    episode: Tensor  # [N] int64: which trajectory, unique over tasks
    age: Tensor  # [N] int64: the trajectory's position in its task's history
    position: Tensor  # [N] int64: the step t at which the entry stands
    start: Tensor  # [N] int64: the chunk's first step
    stop: Tensor  # [N] int64: the step after the chunk's last
    total_return: Tensor  # [N] float32: return of the whole trajectory

    def __len__(self) -> int:
        return len(self.task)

    @cached_property
    def most_per_episode(self) -> int:
        """The largest number of entries that one trajectory has."""
        return int(torch.unique(self.episode, return_counts=True)[1].max()) if len(self) else 0

    def rows(self, index: Tensor) -> Entries:
        return Entries(*(getattr(self, field.name)[index] for field in fields(self)))

    def followed_by(self, other: Entries) -> Entries:
        return Entries(
            *(
                torch.cat([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            )
        )

    @classmethod
    def none(cls) -> Entries:
        number = torch.zeros(0, dtype=torch.int64)
        return cls(number, number, number, number, number, number, torch.zeros(0))


def returns_by(entries: Entries) -> tuple[str, Tensor]:
    """Return what the stored returns are of, "episodes" or "chunks", and one of each, [E] or [N].

    A memory with `return_of=chunk` gives the chunks of an episode returns of their own.
    """
    _, episode = torch.unique(entries.episode, return_inverse=True)  # [N]
    count = int(episode.max()) + 1 if len(entries) else 0
    of_episode = torch.zeros(count).index_copy(0, episode, entries.total_return)
    if torch.equal(of_episode[episode], entries.total_return):
        return "episodes", of_episode
    return "chunks", entries.total_return


def key_start(position: Tensor, context_len: int) -> Tensor:
    """Return the first of the C states that the key of an entry at `position` embeds."""
    return (position - context_len + 1).clamp(min=0)


def cut(
    task: Tensor,
    episode: Tensor,
    age: Tensor,
    length: Tensor,
    total_return: Tensor,
    halves: Halves,
) -> Entries:
    """Place entries at t = 0, P, 2P, ... < T of every trajectory; all columns are [E]."""
    per_episode = (length + halves.past - 1) // halves.past  # [E]
    row = torch.repeat_interleave(torch.arange(len(length)), per_episode)  # [N]
    first = torch.repeat_interleave(per_episode.cumsum(0) - per_episode, per_episode)
    position = (torch.arange(len(row)) - first) * halves.past  # [N]
    return Entries(
        task=task[row],
        episode=episode[row],
        age=age[row],
        position=position,
        start=(position - halves.past).clamp(min=0),
        stop=torch.minimum(position + halves.future, length[row]),
        total_return=total_return[row],
    )


def stack(pieces: Sequence[SubTrajectory], spaces: TaskSpaces, length: int) -> Batch:
    """Pad sub-trajectories at the end to one length, as a batch [len(pieces), length]."""
    batch = blank(spaces, len(pieces), length)
    for row, piece in enumerate(pieces):
        source, span, count = piece.source, slice(piece.start, piece.stop), len(piece)
        batch.states[row, :count] = torch.as_tensor(source.states[span])
        batch.actions[row, :count] = torch.as_tensor(source.actions[span])
        batch.rewards[row, :count] = torch.as_tensor(source.rewards[span])
        batch.returns_to_go[row, :count] = torch.as_tensor(returns_to_go(source.rewards)[span])
        batch.timesteps[row, :count] = torch.arange(piece.start, piece.stop)
        batch.mask[row, :count] = True
    return batch


def blank(spaces: TaskSpaces, rows: int, length: int) -> Batch:
    """Return rows of padding with the right shapes and types, [rows, length]."""
    check_room(f"{rows} x {length} steps", rows * length * step_bytes(spaces), "ask for fewer")
    state_types = {"discrete": torch.int64, "image": torch.uint8}
    state_type = state_types.get(spaces.state.kind, torch.float32)
    action_type = torch.int64 if spaces.action.kind == "discrete" else torch.float32
    return Batch(
        states=torch.zeros(rows, length, *spaces.state.shape, dtype=state_type),
        actions=torch.zeros(rows, length, *spaces.action.shape, dtype=action_type),
        rewards=torch.zeros(rows, length),
        returns_to_go=torch.zeros(rows, length),
        timesteps=torch.zeros(rows, length, dtype=torch.int64),
        mask=torch.zeros(rows, length, dtype=torch.bool),
    )


def step_bytes(spaces: TaskSpaces) -> int:
    """Return the bytes that a step takes in a batch, at most."""
    return 8 * (math.prod(spaces.state.shape) + math.prod(spaces.action.shape)) + 17


def nothing(spaces: TaskSpaces, shape: torch.Size, chunk_len: int) -> Batch:
    """Return padding in the place of k chunks for each of B queries, [B, k * chunk_len]."""
    rows, per_row = shape
    return blank(spaces, rows, per_row * chunk_len)


def concat_chunks(batch: Batch, mask: Tensor, shape: torch.Size) -> Batch:
    """Lay the k chunks of each of B queries one after the other: [B * k, L] -> [B, k * L]."""
    rows, per_row = shape
    columns = [getattr(batch, field.name) for field in fields(batch) if field.name != "mask"]
    return Batch(
        *(
            column.reshape(rows, per_row * column.shape[1], *column.shape[2:])
            for column in (*columns, mask)
        )
    )


def chunks_apart(chunks: Batch, chunk_len: int) -> Batch:
    """Take apart what `concat_chunks` has joined: [B, k * L] -> [B * k, L]."""
    columns = (getattr(chunks, field.name) for field in fields(chunks))
    return Batch(*(column.unflatten(1, (-1, chunk_len)).flatten(0, 1) for column in columns))


def prefixes(chunks: Batch, entries: Entries, context_len: int) -> Batch:
    """Cut the C states that keys embed out of the chunks of their entries, [n, 2C] -> [n, C]."""
    begin = key_start(entries.position, context_len) - entries.start  # [n]
    step = begin[:, None] + torch.arange(context_len)  # [n, C]
    mask = step <= (entries.position - entries.start)[:, None]
    row = torch.arange(len(entries))[:, None]
    step = step.clamp_max(chunks.mask.shape[1] - 1)
    cut = Batch(*(getattr(chunks, field.name)[row, step] for field in fields(chunks)))
    for field in fields(cut):
        getattr(cut, field.name)[~mask] = 0
    return cut


def deduplicate(
    keys: Tensor, entries: Entries, threshold: float, order: DedupOrder = "return"
) -> Tensor:
    """Return which entries to keep, [N] bool, dropping those too similar to one already kept.

    Similar means: same task, another episode, cosine above `threshold`. Entries are visited one by
    one, best return first, oldest first or in a fixed random order, so the outcome does not depend
    on any batch size.
    """
    keep = torch.zeros(len(entries), dtype=torch.bool)
    rank = -entries.total_return if order == "return" else entries.age.float()
    if order == "random":
        rank = torch.from_numpy(np.random.default_rng(0).random(len(entries)))
    for task in entries.task.unique():
        rows = (entries.task == task).nonzero().squeeze(1)
        rows = rows[torch.sort(rank[rows], stable=True).indices]
        keep[rows] = _distinct(unit(keys[rows]), entries.episode[rows], threshold)
    return keep


def _distinct(directions: Tensor, episode: Tensor, threshold: float) -> Tensor:
    """Keep each row unless one kept before it is close, [n, d], [n] -> [n].

    A block at a time is compared with what is kept, since a task may have very many short episodes.
    """
    kept = torch.zeros(len(directions), dtype=torch.bool)

    def close(some: Tensor, others: Tensor) -> Tensor:
        alike = similarity(directions[some], directions[others]) > threshold
        return alike & (episode[some][:, None] != episode[others][None, :])

    for block in torch.arange(len(directions)).split(COMPARED_AT_ONCE):
        new = block[~close(block, kept.nonzero().squeeze(1)).any(1)]
        kept[new] = _greedy(close(new, new))
    return kept


def _greedy(close: Tensor) -> Tensor:
    """Keep each row unless a row kept before it is close, [n, n] -> [n]."""
    blocks = close.numpy()
    blocked = torch.zeros(len(close), dtype=torch.bool)
    view = blocked.numpy()
    for i in range(len(blocks)):
        if not view[i]:
            view[i + 1 :] |= blocks[i, i + 1 :]
    return ~blocked


def deduplicate_to(
    keys: Tensor, entries: Entries, share: float, order: DedupOrder = "return"
) -> tuple[Tensor, float]:
    """Deduplicate by the bound that leaves about this share; return what to keep and the bound.

    A bound on a cosine means something only for one embedder, a share for all of them.
    """
    low, high = -1.0, 1.0
    for _ in range(BISECTIONS):
        bound = (low + high) / 2
        kept = deduplicate(keys, entries, bound, order)
        low, high = (low, bound) if kept.float().mean() > share else (bound, high)
    return deduplicate(keys, entries, high, order), high


Worth = Callable[[Entries], Tensor]  # [N]: what is worth least goes first, of equals the oldest


def oldest_first(entries: Entries) -> Tensor:
    """Value all entries alike, so that the oldest go."""
    return torch.zeros(len(entries))


def lowest_return_first(entries: Entries) -> Tensor:
    """Value entries by the return of their episode."""
    return entries.total_return


EVICTIONS: Registry[Worth] = Registry("evictions", "eviction policy")
EVICTIONS.register("oldest", oldest_first)
EVICTIONS.register("lowest-return", lowest_return_first)


def surplus(entries: Entries, capacity: int, worth: Worth) -> Tensor:
    """Return which entries, oldest first, have to go so that no task has more than it may: [N]."""
    order = torch.sort(worth(entries), stable=True).indices
    order = order[torch.sort(entries.task[order], stable=True).indices]  # by task, then worth
    _, counts = torch.unique_consecutive(entries.task[order], return_counts=True)
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)  # [N] of its task
    rank = torch.arange(len(entries)) - first
    gone = torch.zeros(len(entries), dtype=torch.bool)
    gone[order] = rank < torch.repeat_interleave(counts - capacity, counts)
    return gone
