"""Where entries are kept, how a place is named, and what finds entries: the plug point of stores.

A place is written `kind:address`, e.g. `folder:memories/room`; a path alone is a folder. The kinds
are the names in `STORES`: `ram` and `copy` here, `folder` in `folder`, `postgres` in `postgres`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.entries import Entries, Halves, blank, concat_chunks, cut, nothing, stack
from radt.memory.growing import GrowingRecord, GrowingTensor
from radt.memory.identity import Identity, StoreError
from radt.memory.index import Index
from radt.registry import Registry
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory


@dataclass(frozen=True)
class NewEntries:
    """What one write adds, all of it or nothing."""

    entries: Entries  # [n]
    keys: Tensor  # [n, d] float32
    chunks: Batch  # [n, 2C]

    def __len__(self) -> int:
        return len(self.entries)

    def rows(self, kept: Tensor) -> NewEntries:
        return NewEntries(self.entries.rows(kept), self.keys[kept], self.chunks.rows(kept))


class Chunks(Protocol):
    """Entries, and the chunks that they stand for."""

    @property
    def entries(self) -> Entries:
        """Where each entry comes from."""

    def chunks(self, ids: Tensor) -> Batch:
        """Return the chunks of ids [B, k], one after the other: [B, k * 2C]; -1 gives padding."""


class Store(Chunks, Protocol):
    """Holds the entries of a memory with their keys; in RAM, in a folder, on a server.

    The id of an entry is its place in `entries`, oldest first, and changes when older ones are
    removed; its number stays, so that an index can tell what is gone and what is new. A store is
    called by one thread at a time: the memory sees to that.
    """

    @property
    def place(self) -> str:
        """Name the store in messages; never with a password."""

    @property
    def writing(self) -> bool:
        """Whether this process may add and remove entries."""

    @property
    def keys(self) -> Tensor:
        """The key of each entry, [N, d] float32."""

    @property
    def numbers(self) -> Tensor:
        """The number of each entry, [N] int64: rising, and never given twice."""

    @property
    def removals(self) -> int:
        """How often entries were removed since the store was opened."""

    @property
    def episodes(self) -> int:
        """How many trajectories were ever written: the number of the next one."""

    def append(self, new: NewEntries) -> None:
        """Add entries in one transaction: safe when this returns, none of them if it raises.

        Where others write, too, the store numbers the episodes anew and takes in what is theirs.
        """

    def keep(self, kept: Tensor) -> None:
        """Forget all entries but the marked ones, [N] bool, in one transaction."""

    def refresh(self) -> None:
        """Take in what others have written and removed since."""

    def close(self) -> None:
        """Give back files and connections; what was acknowledged stays."""


def ids_of(known: NDArray[np.int64], found: Tensor) -> Tensor:
    """Return the places of found numbers, of any shape, among rising `known` ones [N]; -1 stays."""
    wanted = found.numpy()
    return torch.from_numpy(np.where(wanted < 0, -1, np.searchsorted(known, wanted)))


OpenStore = Callable[[str, Identity, bool], Store]  # address, whose it is, for writing
STORES: Registry[OpenStore] = Registry("stores", "store")


def open_store(place: str | Path, identity: Identity, writing: bool = True) -> Store:
    """Open the store that a place names; one that is not there yet is made if `writing`."""
    kind, colon, address = str(place).partition(":")
    if isinstance(place, Path) or not colon or len(kind) == 1:  # C:\ is a drive
        return STORES["folder"](str(place), identity, writing)
    return STORES[kind](address, identity, writing)


class GrowingColumns:
    """Entries, keys and numbers in RAM, growing together: what all our stores have."""

    removals: int

    def _begin_columns(self, key_width: int) -> None:
        self._entries = GrowingRecord(Entries.none())
        self._keys = GrowingTensor(torch.zeros(0, key_width))
        self._numbers = GrowingTensor(torch.zeros(0, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def entries(self) -> Entries:
        return self._entries.rows

    @property
    def keys(self) -> Tensor:
        return self._keys.rows

    @property
    def numbers(self) -> Tensor:
        return self._numbers.rows

    def _add(self, numbers: Tensor, entries: Entries, keys: Tensor) -> None:
        self._numbers.append(numbers)
        self._entries.append(entries)
        self._keys.append(keys)

    def _drop(self, kept: Tensor) -> None:
        self._numbers.keep(kept)
        self._entries.keep(kept)
        self._keys.keep(kept[: len(self._keys.rows)])
        self.removals += 1


class RamStore(GrowingColumns):
    """Entries in RAM, gone with the process."""

    place, writing = "RAM", True

    def __init__(self, spaces: TaskSpaces, chunk_len: int, key_width: int) -> None:
        self.spaces, self.chunk_len = spaces, chunk_len
        self.episodes, self.removals = 0, 0
        self._written = 0  # entries so far
        self._chunks = GrowingRecord(blank(spaces, 0, chunk_len))
        self._begin_columns(key_width)

    def append(self, new: NewEntries) -> None:
        self._take_in(torch.arange(self._written, self._written + len(new)), new)
        self._written += len(new)
        if len(new):
            self.episodes = max(self.episodes, int(new.entries.episode.max()) + 1)

    def _take_in(self, numbers: Tensor, new: NewEntries) -> None:
        self._add(numbers, new.entries, new.keys)
        self._chunks.append(new.chunks)

    def keep(self, kept: Tensor) -> None:
        self._chunks.keep(kept)
        self._drop(kept)

    def chunks(self, ids: Tensor) -> Batch:
        if not len(self.entries):
            return nothing(self.spaces, ids.shape, self.chunk_len)
        batch = self._chunks.rows.rows(ids.clamp_min(0).flatten())
        return concat_chunks(batch, batch.mask & (ids.flatten() >= 0)[:, None], ids.shape)

    def refresh(self) -> None:
        """Nobody else writes here."""

    def close(self) -> None:
        """There is nothing to give back."""


class LocalCopy(RamStore):
    """A copy in RAM of a store elsewhere, `copy:postgres:room`: a read asks nobody.

    A refresh, at the start of each trial, brings what is new; what others have removed stays until
    then.
    """

    def __init__(self, source: Store, who: Identity) -> None:
        super().__init__(who.spaces, who.halves.chunk_len, who.key_width)
        self.source, self.place, self.writing = source, source.place, source.writing
        self._removed = source.removals
        self._follow()

    def append(self, new: NewEntries) -> None:
        """Add entries to the source, safe when this returns, and take in what is new there."""
        self.source.append(new)
        with contextlib.suppress(StoreError):  # it is written; the next refresh says what is wrong
            self._follow()

    def keep(self, kept: Tensor) -> None:
        gone = self.numbers[~kept]
        self.source.keep(~torch.isin(self.source.numbers, gone))
        self._follow()

    def refresh(self) -> None:
        self.source.refresh()
        self._follow()

    def close(self) -> None:
        self.source.close()

    def _follow(self) -> None:
        """Read what the source holds more, all or nothing, and drop what it holds no more."""
        source, known = self.source, self.numbers
        self.episodes = source.episodes
        new = (source.numbers > (known[-1] if len(known) else -1)).nonzero()[:, 0]
        found = NewEntries(source.entries.rows(new), source.keys[new], source.chunks(new[:, None]))
        if self._removed != source.removals:
            super().keep(torch.isin(known, source.numbers))
            self._removed = source.removals
        self._take_in(source.numbers[new], found)


STORES.register(
    "ram",
    lambda _, who, writing: RamStore(who.spaces, who.halves.chunk_len, who.key_width),
)
STORES.register("copy", lambda place, who, writing: LocalCopy(open_store(place, who, writing), who))


class DatasetStore:
    """Every trajectory of a dataset, cut into entries; the steps stay where they are."""

    def __init__(self, dataset: Dataset, halves: Halves) -> None:
        self.dataset, self.chunk_len = dataset, halves.chunk_len
        episodes = dataset.episodes
        self.entries = cut(
            task=torch.from_numpy(episodes.task).long(),
            episode=torch.arange(len(episodes.task)),
            age=torch.from_numpy(episodes.index).long(),
            length=torch.from_numpy(episodes.length).long(),
            total_return=torch.from_numpy(episodes.total_return).float(),
            halves=halves,
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
        self.entries = self.entries.rows(kept)

    def chunks(self, ids: Tensor) -> Batch:
        if not len(self.entries):
            return nothing(self.dataset.spaces, ids.shape, self.chunk_len)
        known = ids.clamp_min(0).flatten()
        batch = self.dataset.windows(
            self.entries.episode[known].numpy(), self.entries.start[known].numpy(), self.chunk_len
        )
        length = (self.entries.stop - self.entries.start)[known]
        within = torch.arange(self.chunk_len) < length[:, None]
        return concat_chunks(batch, within & (ids.flatten() >= 0)[:, None], ids.shape)


def cut_trials(
    trajectories: Sequence[Trajectory], spaces: TaskSpaces, halves: Halves, first: int
) -> tuple[Entries, Batch]:
    """Cut trajectories, numbered from `first` on, into entries [n] and chunks [n, chunk_len]."""
    count = len(trajectories)
    entries = cut(
        task=torch.tensor([trajectory.task for trajectory in trajectories]),
        episode=torch.arange(first, first + count),
        age=torch.tensor([trajectory.episode for trajectory in trajectories]),
        length=torch.tensor([len(trajectory) for trajectory in trajectories]),
        total_return=torch.tensor([trajectory.total_return for trajectory in trajectories]),
        halves=halves,
    )
    pieces = [
        trajectories[int(episode) - first].cut(int(start), int(stop))
        for episode, start, stop in zip(entries.episode, entries.start, entries.stop, strict=True)
    ]
    return entries, stack(pieces, spaces, halves.chunk_len)


class StoreIndex:
    """The keys of a store in an index, by the numbers of their entries, which never change."""

    def __init__(self, index: Index, store: Store) -> None:
        self._index, self._store = index, store
        self._numbers = store.numbers[:0]  # [n] of the keys in the index
        self._newest, self._removals = -1, store.removals
        self.follow()

    def __len__(self) -> int:
        return len(self._index)

    def follow(self) -> None:
        """Bring the index to what the store holds."""
        numbers = self._store.numbers
        if self._removals != self._store.removals:
            gone = self._numbers[~torch.isin(self._numbers, numbers)]
            if len(gone):
                self._index.remove(gone)
            self._removals = self._store.removals
        first = int(torch.searchsorted(numbers, self._newest, right=True))
        if first < len(numbers):
            tasks = self._store.entries.task[first:]
            self._index.add(self._store.keys[first:], tasks, numbers[first:])
            self._newest = int(numbers[-1])
        self._numbers, self._known = numbers, numbers.numpy()

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        relevance, numbers = self._index.search(queries, k, partition)
        return relevance.cpu(), ids_of(self._known, numbers.cpu())
