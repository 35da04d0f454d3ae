"""Every trajectory of a dataset as entries: what training searches in."""

from __future__ import annotations

import torch
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.chunks import joined, nothing
from radt.memory.entries import cut
from radt.trajectory import Batch


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
            return nothing(self.dataset.spaces, ids.shape, self.context_len)
        known = ids.clamp_min(0).flatten()
        batch = self.dataset.windows(
            self.entries.episode[known].numpy(),
            self.entries.start[known].numpy(),
            2 * self.context_len,
        )
        room = torch.arange(2 * self.context_len)
        within = room < (self.entries.stop - self.entries.start)[known][:, None]
        return joined(batch, within & (ids.flatten() >= 0)[:, None], ids.shape)
