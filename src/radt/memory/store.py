"""Where entries live: in RAM as an agent writes them, or inside a dataset that is read only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.entries import Entries, cut
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, SubTrajectory, Trajectory, returns_to_go


class Store(Protocol):
    """Holds entries and gives their chunks back."""

    entries: Entries

    def chunks(self, ids: Tensor) -> Batch:
        """Return the chunks of ids [B, k], one after the other: [B, k * 2C]; -1 gives padding."""
        ...


class DatasetStore:
    """Every trajectory of a dataset, cut into entries; the steps stay where they are."""

    def __init__(self, dataset: Dataset, context_len: int) -> None:
        self.dataset, self.context_len = dataset, context_len
        episodes = dataset.episodes
        self.entries = cut(
            task=torch.from_numpy(episodes.task).long(),
            episode=torch.arange(len(episodes.task)),
            age=torch.from_numpy(episodes.index).long(),
            length=torch.from_numpy(episodes.length).long(),
            total_return=torch.from_numpy(episodes.total_return).float(),
            context_len=context_len,
        )

    def earned(self) -> Tensor:
        """Return the sum of rewards inside each chunk, [N]."""
        if not len(self.entries):
            return torch.zeros(0)
        episode, start = self.entries.episode.numpy(), self.entries.start.numpy()
        to_go = self.dataset.windows(episode, start, 1).returns_to_go[:, 0]
        length = torch.from_numpy(self.dataset.episodes.length[episode])
        inner = self.entries.stop < length
        stop = self.entries.stop.clamp_max(length - 1).numpy()
        after = self.dataset.windows(episode, stop, 1).returns_to_go[:, 0]
        return to_go - torch.where(inner, after, 0.0)

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool."""
        self.entries = self.entries.rows(kept)

    def chunks(self, ids: Tensor) -> Batch:
        """Return the chunks of ids [B, k], one after the other: [B, k * 2C]."""
        if not len(self.entries):
            return _nothing(self.dataset.spaces, ids.shape, self.context_len)
        known = ids.clamp_min(0).flatten()
        batch = self.dataset.windows(
            self.entries.episode[known].numpy(),
            self.entries.start[known].numpy(),
            2 * self.context_len,
        )
        room = torch.arange(2 * self.context_len)
        within = room < (self.entries.stop - self.entries.start)[known][:, None]
        return _joined(batch, within & (ids.flatten() >= 0)[:, None], ids.shape)


class RamStore:
    """Trajectories as an agent lives through them, cut into entries as they come."""

    def __init__(self, spaces: TaskSpaces, context_len: int) -> None:
        self.spaces, self.context_len = spaces, context_len
        self.entries = Entries.none()
        self.all_chunks = stack([], spaces, 2 * context_len)
        self.written = 0

    def write(self, trajectories: Sequence[Trajectory], above: float | None = None) -> Entries:
        """Cut finished trajectories; append and return entries that earned more than `above`."""
        count = len(trajectories)
        new = cut(
            task=torch.tensor([trajectory.task for trajectory in trajectories]),
            episode=torch.arange(self.written, self.written + count),
            age=torch.tensor([trajectory.episode for trajectory in trajectories]),
            length=torch.tensor([len(trajectory) for trajectory in trajectories]),
            total_return=torch.tensor([trajectory.total_return for trajectory in trajectories]),
            context_len=self.context_len,
        )
        pieces = [
            trajectories[int(episode) - self.written].cut(int(start), int(stop))
            for episode, start, stop in zip(new.episode, new.start, new.stop, strict=True)
        ]
        chunks = stack(pieces, self.spaces, 2 * self.context_len)
        if above is not None:
            kept = chunks.rewards.sum(1) > above
            new, chunks = new.rows(kept), chunks.rows(kept)
        self.written += count
        self.entries = self.entries.followed_by(new)
        self.all_chunks = Batch(
            *(
                torch.cat([getattr(self.all_chunks, name), getattr(chunks, name)])
                for name in Batch.__dataclass_fields__
            )
        )
        return new

    def restore(self, entries: Entries, chunks: Batch) -> None:
        """Replace all contents."""
        self.entries, self.all_chunks = entries, chunks
        self.written = int(entries.episode.max()) + 1 if len(entries) else 0

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool."""
        self.entries = self.entries.rows(kept)
        self.all_chunks = self.all_chunks.rows(kept)

    def chunks(self, ids: Tensor) -> Batch:
        """Return the chunks of ids [B, k], one after the other: [B, k * 2C]."""
        if not len(self.entries):
            return _nothing(self.spaces, ids.shape, self.context_len)
        batch = self.all_chunks.rows(ids.clamp_min(0).flatten())
        return _joined(batch, batch.mask & (ids.flatten() >= 0)[:, None], ids.shape)


def stack(pieces: Sequence[SubTrajectory], spaces: TaskSpaces, length: int) -> Batch:
    """Pad sub-trajectories at the end to one length, as a batch [len(pieces), length]."""
    batch = _blank_rows(_blank(spaces, length), len(pieces))
    for row, piece in enumerate(pieces):
        source, span, count = piece.source, slice(piece.start, piece.stop), len(piece)
        batch.states[row, :count] = torch.as_tensor(source.states[span])
        batch.actions[row, :count] = torch.as_tensor(source.actions[span])
        batch.rewards[row, :count] = torch.as_tensor(source.rewards[span])
        batch.returns_to_go[row, :count] = torch.as_tensor(returns_to_go(source.rewards)[span])
        batch.timesteps[row, :count] = torch.arange(piece.start, piece.stop)
        batch.mask[row, :count] = True
    return batch


def _blank(spaces: TaskSpaces, length: int) -> Batch:
    """Return a batch of no rows with the right types."""
    state_types = {"discrete": torch.int64, "image": torch.uint8}
    state_type = state_types.get(spaces.state.kind, torch.float32)
    action_type = torch.int64 if spaces.action.kind == "discrete" else torch.float32
    return Batch(
        states=torch.zeros(0, length, *spaces.state.shape, dtype=state_type),
        actions=torch.zeros(0, length, *spaces.action.shape, dtype=action_type),
        rewards=torch.zeros(0, length),
        returns_to_go=torch.zeros(0, length),
        timesteps=torch.zeros(0, length, dtype=torch.int64),
        mask=torch.zeros(0, length, dtype=torch.bool),
    )


def _blank_rows(batch: Batch, count: int) -> Batch:
    """Return `count` rows of padding shaped like the batch's rows."""
    return Batch(
        *(
            torch.zeros(count, *field.shape[1:], dtype=field.dtype)
            for field in (getattr(batch, name) for name in Batch.__dataclass_fields__)
        )
    )


def _nothing(spaces: TaskSpaces, shape: torch.Size, context_len: int) -> Batch:
    """Return padding in the place of k chunks for each of B queries, [B, k * 2C]."""
    rows, per_row = shape
    return _blank_rows(_blank(spaces, per_row * 2 * context_len), rows)


def _joined(batch: Batch, mask: Tensor, shape: torch.Size) -> Batch:
    """Lay the k chunks of each of B queries one after the other: [B * k, L] -> [B, k * L]."""
    rows, per_row = shape
    return Batch(
        *(
            field.reshape(rows, per_row * field.shape[1], *field.shape[2:])
            for field in (
                *(batch.states, batch.actions, batch.rewards),
                *(batch.returns_to_go, batch.timesteps, mask),
            )
        )
    )
