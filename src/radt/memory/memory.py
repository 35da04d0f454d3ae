"""The external memory of a running agent: write trials, search them, forget them.

Entries are partitioned by slot: each of the tasks that run side by side has a memory of its own.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from radt.errors import RadtWarning
from radt.memory.chunk_values import ChunkValues
from radt.memory.embed import Embedder, device_of
from radt.memory.entries import EVICTIONS, Entries, Halves, deduplicate, key_start, stack, surplus
from radt.memory.identity import Identity, MemoryFileError, StoreError, check_trajectories
from radt.memory.index import build_index
from radt.memory.inner_product import InnerProducts
from radt.memory.loop_erasure import loop_erased_trial
from radt.memory.memory_file import read_file, renumbered, write_file
from radt.memory.retrieve import Queries, Searchable, retrieve
from radt.memory.reweight import NO_NETWORK, UTILITIES, VALUE, Utility, reweight
from radt.memory.similarity import unit
from radt.memory.store import NewEntries, RamStore, Store, StoreIndex, cut_trials, open_store
from radt.model.chunk_value import ChunkValue
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Retrieval, Trajectory

Place = Callable[[NewEntries, Mapping[str, Tensor]], NewEntries]
MOST_KEPT = 1 << 40  # entries of a task
PATIENCE = 10  # trials of each task that leave nothing behind before the user is told
MOST = 100_000  # steps of a context or between retrievals, candidates of a search, chunks
AT_ONCE = 1024  # prefixes that are embedded together


@dataclass(frozen=True)
class MemoryConfig:
    """How a memory is cut, searched and weighted, in the paper's names (see docs/concepts.md)."""

    context_len: int = 50  # C: steps of a query, and of each half of a chunk
    past_len: int | None = None  # steps of a chunk before its entry's; None: C
    future_len: int | None = None  # steps of a chunk from its entry's on; None: C
    top_l: int = 50  # l: candidates that are reweighted
    top_k: int = 1  # k: chunks the policy reads
    alpha: float = 1.0  # weight of utility against relevance
    utility: str = "return"  # what is added to relevance: return, or another that is registered
    similarity: Literal["cosine", "inner-product"] = "cosine"  # the authors evaluate by the latter
    index: str = "flat"  # how keys are searched; of a server's store the server decides
    retrieve_every: int = 1  # steps between retrievals; 0: once, at the start of a trial
    store_above: float | None = None  # store chunks that earned more than the lowest; None: all
    return_of: Literal["episode", "chunk"] = "episode"  # what an entry's utility is judged by
    loop_erased: bool = False  # store loop-erased trajectories (see loop_erasure.py)
    dedup: float | None = None  # drop new entries more similar than this to a stored one
    dedup_spares_start: bool = False  # keep those at t = 0, whose keys a fixed start makes equal
    capacity: int | None = None  # entries that a task keeps; None: all
    evict: str = "oldest"  # which entries go beyond capacity: oldest or lowest-return

    def __post_init__(self) -> None:
        for name in ("context_len", "top_l", "top_k"):
            if not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} must lie in 1..{MOST}, not {getattr(self, name)}")
        for name in ("past_len", "future_len"):
            if (steps := getattr(self, name)) is not None and not 1 <= steps <= MOST:
                raise ValueError(f"{name} must lie in 1..{MOST}, not {steps}; null: context_len")
        if not 0 <= self.retrieve_every <= MOST:
            raise ValueError(f"retrieve_every must lie in 0..{MOST}, not {self.retrieve_every}")
        if self.capacity is not None and not 1 <= self.capacity <= MOST_KEPT:
            raise ValueError(
                f"capacity must lie in 1..{MOST_KEPT}, not {self.capacity}; null keeps all"
            )
        if self.similarity == "inner-product" and self.index != "flat":
            raise ValueError(
                f"similarity=inner-product compares all keys, which index={self.index} does not; "
                "leave the index as it is, flat"
            )
        EVICTIONS[self.evict]  # an unknown one is refused here, not by a full memory

    @property
    def halves(self) -> Halves:
        """How chunks are cut."""
        return Halves(self.past_len or self.context_len, self.future_len or self.context_len)


class Memory:
    """Keys and chunks of what agents experienced, in RAM or wherever its store keeps them.

    Several threads may share one: each call is whole before the next begins. Callers that retrieve
    ids and then ask for their chunks hold `lock` for both.
    """

    def __init__(
        self,
        embedder: Embedder,
        spaces: TaskSpaces,
        config: MemoryConfig,
        store: Store | None = None,
        value: ChunkValue | None = None,
    ) -> None:
        self.embedder, self.spaces, self.config, self.value = embedder, spaces, config, value
        self._values = None if value is None else ChunkValues(value)
        if value is None and config.utility == VALUE:
            raise ValueError(NO_NETWORK)
        self.lock = threading.RLock()
        new = RamStore(spaces, config.halves.chunk_len, embedder.width)
        self.store: Store = new if store is None else store
        self.index = self._new_index(self.store)
        self._left_nothing: Counter[int] = Counter()  # by task: trials, since there are no entries
        self._told = False

    def at(self, place: str | Path, writing: bool = True) -> Memory:
        """Open the memory at a place, for the same embedder and with the same options."""
        store = open_store(place, self.identity(), writing)
        return Memory(self.embedder, self.spaces, self.config, store, self.value)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.store.entries)

    @property
    def entries(self) -> Entries:
        return self.store.entries

    @property
    def keys(self) -> Tensor:
        return self.store.keys

    def write(self, trajectories: Sequence[Trajectory]) -> int:
        """Add finished trials, all or none, and return how many entries they became.

        A trajectory's `task` is the slot it belongs to.
        """
        check_trajectories(trajectories, self.spaces)
        if not trajectories:
            return 0
        with self.lock:
            new = self._cut(trajectories)
            if self.config.dedup is not None and len(new):
                new = self._distinct(new, self.config.dedup)
            if len(new):
                self.add(new)
            elif not len(self):
                self._left_nothing.update(trial.task for trial in trajectories)
                if min(self._left_nothing.values()) >= PATIENCE:
                    self.warn_empty(f"is still empty after {self._left_nothing.total()} trials")
            return len(new)

    def warn_empty(self, problem: str) -> None:
        """Say, once, which option keeps the memory from keeping anything."""
        if self._told or self.config.store_above is None:
            return
        self._told = True
        warnings.warn(
            f"the memory {problem}: options.memory.store_above={self.config.store_above:g} keeps "
            "only chunks that earned more than this above spaces.lowest_return="
            f"{self.spaces.lowest_return:g}; set it to null to keep all, or declare the lowest "
            "return of the suite",
            RadtWarning,
            stacklevel=3,
        )

    def add(self, new: NewEntries) -> None:
        """Add entries that were cut and embedded, all or none."""
        if new.keys.shape != (len(new), self.embedder.width):
            raise ValueError(f"{len(new)} entries came with keys of shape {list(new.keys.shape)}")
        unit(new.keys)  # NaN is refused here, not after it was stored
        with self.lock:
            self.store.append(new)
            try:
                self._make_room()
            except (StoreError, OSError) as error:  # the new ones are kept: the next write does it
                if getattr(error, "in_doubt", False):
                    raise
            self._follow()

    def refresh(self) -> None:
        """Take in what other processes have written since."""
        with self.lock:
            self.store.refresh()
            self._follow()

    def close(self) -> None:
        """Give back files and connections."""
        with self.lock:
            self.store.close()

    def _cut(self, trajectories: Sequence[Trajectory]) -> NewEntries:
        """Cut trials into entries, those that earned enough, and embed them."""
        first = self.store.episodes
        if self.config.loop_erased:
            trajectories = [loop_erased_trial(trial) for trial in trajectories]
        entries, chunks = cut_trials(trajectories, self.spaces, self.config.halves, first)
        if self.config.store_above is not None:
            earned = self.spaces.above_lowest(chunks.rewards.sum(1), chunks.mask.sum(1))
            kept = earned > self.config.store_above
            entries, chunks = entries.rows(kept), chunks.rows(kept)
        if self.config.return_of == "chunk":
            entries = replace(entries, total_return=chunks.rewards.sum(1))
        own = [trajectories[int(episode) - first] for episode in entries.episode]
        return NewEntries(entries, self._embed(entries, own), chunks)

    def _embed(self, entries: Entries, own: Sequence[Trajectory]) -> Tensor:
        """Return the keys g(tau_{t-C:t}) of entries [n], each of its own trajectory, [n, d]."""
        if not len(entries):
            return torch.zeros(0, self.embedder.width)
        length = self.config.context_len
        begin = key_start(entries.position, length).tolist()
        spans = zip(own, begin, (entries.position + 1).tolist(), strict=True)
        states = stack([trial.cut(*span) for trial, *span in spans], self.spaces, length)  # [n, C]
        parts = torch.arange(len(entries)).split(AT_ONCE)
        return torch.cat([self.embedder(states.rows(part)) for part in parts])

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of the k most similar entries, both [B, k], best first, Eq. 3.

        A `partition` [B] of slots restricts each query to one. Absent: -inf and -1.
        """
        with self.lock:
            return self.index.search(queries, k, partition)

    def retrieve(
        self,
        vectors: Tensor,
        slots: Tensor,
        position: Tensor,
        own_task_only: bool = True,
        now: Tensor | None = None,
    ) -> Retrieval:
        """Search the memory of each slot, Eq. 3, and choose by relevance and utility, Eq. 4, 5.

        `now` [B, 1, width] are the present states as the network of utility=value reads them.
        """
        unknown = torch.full_like(slots, -1)
        queries = Queries(vectors, slots, unknown, torch.full_like(slots, 1 << 40), position)
        config = self.config
        with self.lock:
            found = retrieve(
                queries, self.index, self.entries, config.top_l, own_task_only=own_task_only
            )
            utility = self._utility(found, now)
            return reweight(found, queries, self.entries, utility, config.alpha, config.top_k)

    def _utility(self, found: Retrieval, now: Tensor | None) -> Utility:
        if self.config.utility != VALUE or self._values is None or now is None:
            return UTILITIES[self.config.utility]
        return partial(self._values, self.store, found.ids, now)

    def chunks(self, chosen: Tensor) -> Batch:
        """Return the chosen chunks [B, k] one after the other, [B, k * 2C]."""
        with self.lock:
            return self.store.chunks(chosen)

    def forget(self, slots: Tensor) -> None:
        """Empty the memories of some slots."""
        with self.lock:
            self._left_nothing.clear()
            kept = ~torch.isin(self.entries.task, slots)
            if not bool(kept.all()):
                self.store.keep(kept)
                self._follow()

    def of_task(self, task: int) -> Entries:
        """Return the entries of one task."""
        entries = self.entries
        return entries.rows(entries.task == task)

    def _distinct(self, new: NewEntries, threshold: float) -> NewEntries:
        """Leave out new entries that resemble older ones of their task, or new ones before them."""
        near = torch.isin(self.entries.task, new.entries.task)
        older = self.entries.rows(near)
        entries = older.followed_by(new.entries)
        as_written = replace(entries, age=torch.arange(len(entries)))
        keys = torch.cat([self.keys[near], new.keys])
        kept = deduplicate(keys, as_written, threshold, order="chronological")
        if self.config.dedup_spares_start:
            kept = kept | (entries.position == 0)
        return new.rows(kept[len(older) :])

    def _make_room(self) -> None:
        """Forget the entries that are worth least where a task has more than it may."""
        if self.config.capacity is None:
            return
        gone = surplus(self.entries, self.config.capacity, EVICTIONS[self.config.evict])
        if bool(gone.any()):
            self.store.keep(~gone)

    def _new_index(self, store: Store) -> Searchable:
        cosine = self.config.similarity == "cosine"
        if isinstance(store, Searchable):  # a server searches by itself
            if cosine:
                return store
            raise ValueError(
                f"{store.place} searches by the cosine; leave options.memory.similarity as it is, "
                "or keep the memory in RAM or in a folder"
            )
        if not cosine:
            return InnerProducts(store)
        name, width = self.config.index, self.embedder.width
        return StoreIndex(build_index(name, width, device_of(self.embedder)), store)

    def _follow(self) -> None:
        if isinstance(self.index, StoreIndex):
            self.index.follow()

    def identity(self) -> Identity:
        """Name what keys and chunks depend on; another memory with another identity is refused."""
        usual, halves = self.config.context_len, self.config.halves
        return Identity(
            embedder=self.embedder.fingerprint,
            key_width=self.embedder.width,
            context_len=usual,
            spaces=self.spaces,
            past_len=None if halves.past == usual else halves.past,
            future_len=None if halves.future == usual else halves.future,
        )

    def contents(self) -> NewEntries:
        """Return all entries with their keys and chunks."""
        with self.lock:
            chunks = self.store.chunks(torch.arange(len(self))[:, None])
            return NewEntries(self.entries, self.keys, chunks)

    def save(
        self, path: Path, owner: Mapping[str, Tensor] | None = None, numbers: Tensor | None = None
    ) -> None:
        """Write keys, entries and chunks to one safetensors file, and what the owner adds.

        In the file, entries of task i stand under `numbers[i]`, where there are any.
        """
        contents = self.contents() if numbers is None else renumbered(self.contents(), numbers)
        write_file(path, self.identity(), contents, owner or {})

    def load(self, path: Path, place: Place | None = None) -> dict[str, Tensor]:
        """Replace the contents by a saved memory of the same kind; return what its owner added.

        `place` gives entries the numbers they have here, or refuses them: then nothing is replaced.
        """
        if self.store.place != RamStore.place:
            raise MemoryFileError(
                f"{path} would replace the memory in {self.store.place}; load it into an agent "
                "that has a memory of its own"
            )
        contents, owner = read_file(path, self.identity())
        contents = contents if place is None else place(contents, owner)
        store = RamStore(self.spaces, self.config.halves.chunk_len, self.embedder.width)
        store.append(contents)
        index = self._new_index(store)
        with self.lock:
            self.store, self.index = store, index
        return owner
