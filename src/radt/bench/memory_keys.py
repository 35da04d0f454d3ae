"""What `radt bench memory` reads: memories of real chunk embeddings and more of their kind.

The key of an entry at step t embeds what an agent has seen up to t. A dataset's episodes are walked
through as an agent would, so that every step t < C of each gives a real key at the price of one
step. Beyond the real ones an entry is a real key moved by a tenth of the difference of two others:
it stays among the directions in which real keys differ. Wider keys are the same keys turned into
more dimensions, which changes no cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data import Dataset
from radt.experiments.run import RunError
from radt.memory.embed import Embedder
from radt.memory.entries import Entries
from radt.memory.index import INDEXES, Index
from radt.memory.index.faiss_indexes import faiss_library
from radt.memory.memory import Memory
from radt.memory.store import RamStore, ids_of
from radt.methods.trials import RunningTrials

K = 50  # entries that one read asks for
PERTURBATION = "real key + 0.1 * (another real key - a third one)"
SHARE = 0.1
EPISODES_AT_ONCE = 256
BLOCK = 1 << 16  # keys that are made together
RETURNS = 100  # different returns of episodes


@dataclass(frozen=True)
class RealKeys:
    """Keys of a dataset's first steps, and queries from other episodes, both in random order."""

    keys: NDArray[np.float32]  # [R, d]
    task: NDArray[np.int64]  # [R]
    queries: NDArray[np.float32]  # [Q, d]
    asked_by: NDArray[np.int64]  # [Q] tasks

    def blocks(self, size: int, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Make so many keys [n, width] with their tasks [n], the real ones first."""
        turn = turned(self.keys.shape[1], width)
        for start in range(0, size, BLOCK):
            keys, task = self._some(start, min(BLOCK, size - start))
            yield torch.from_numpy(keys @ turn), torch.from_numpy(task)

    def _some(self, start: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if start + count <= len(self.keys):
            return self.keys[start : start + count], self.task[start : start + count]
        rng = np.random.default_rng(start)
        first, second, third = rng.integers(len(self.keys), size=(3, count))
        moved = self.keys[first] + np.float32(SHARE) * (self.keys[second] - self.keys[third])
        real = max(0, len(self.keys) - start)
        moved[:real], first[:real] = self.keys[start:], np.arange(start, start + real)
        return moved, self.task[first]

    def asked(self, width: int) -> Tensor:
        """Return the queries, [Q, width]."""
        return torch.from_numpy(self.queries @ turned(self.keys.shape[1], width))


def turned(width: int, wider: int) -> NDArray[np.float32]:
    """Return a turn of keys into a space of more dimensions that keeps all cosines, [d, D]."""
    if width == wider:
        return np.eye(width, dtype=np.float32)
    if wider < width:
        raise RunError(f"keys have {width} numbers; --widths cannot ask for {wider}")
    noise = np.random.default_rng(width).normal(size=(wider, width))
    return np.ascontiguousarray(np.linalg.qr(noise)[0].T, np.float32)


def real_keys(
    embedder: Embedder,
    dataset: Dataset,
    context_len: int,
    count: int,
    queries: int,
    advance: Callable[[int], None] = lambda done: None,
) -> RealKeys:
    """Embed as many prefixes of real episodes as are asked for, or as there are."""
    rng = np.random.default_rng(0)
    episodes = rng.permutation(np.flatnonzero(dataset.episodes.length >= context_len))
    each = context_len - 1  # at step 0 all agents have seen the same
    asking = -(-queries // each)
    if len(episodes) <= asking:
        raise RunError(
            f"{queries} queries need {asking} episodes of at least {context_len} steps; the "
            f"dataset has {len(episodes)} in all. Ask for fewer --reads, or collect more"
        )
    episodes = episodes[: asking + -(-count // each)]
    keys = np.concatenate(
        [
            walked(embedder, dataset, part, context_len, advance)
            for part in np.split(episodes, range(EPISODES_AT_ONCE, len(episodes), EPISODES_AT_ONCE))
        ]
    )[:, 1:].reshape(-1, embedder.width)
    task = np.repeat(dataset.episodes.task[episodes].astype(np.int64), each)
    asked = rng.permutation(asking * each)[:queries]
    held = asking * each + rng.permutation(len(keys) - asking * each)[:count]
    return RealKeys(keys[held], task[held], keys[asked], task[asked])


def walked(
    embedder: Embedder,
    dataset: Dataset,
    episodes: NDArray[np.int64],
    context_len: int,
    advance: Callable[[int], None] = lambda done: None,
) -> NDArray[np.float32]:
    """Embed what is seen up to each of the first C steps of some episodes, [E, C, d]."""
    slots = np.arange(len(episodes))
    stepper = embedder.stepper(len(slots), context_len)
    if stepper is None:
        raise RunError("this embedder takes no single steps; give a checkpoint with another one")
    stepper.reset(torch.from_numpy(slots))
    no_action = cast(Any, embedder.network).embed.no_action
    windows = dataset.windows(episodes, np.zeros_like(episodes), context_len)
    trials = RunningTrials(dataset.spaces, len(slots))
    keys = np.zeros((len(slots), context_len, embedder.width), np.float32)
    for step in range(context_len):
        trials.see(slots, windows.states[:, step].numpy())
        latest = trials.latest(slots, no_action)
        keys[:, step] = stepper.step(latest, torch.from_numpy(slots)).numpy()
        actions, rewards = windows.actions[:, step].numpy(), windows.rewards[:, step].numpy()
        trials.record(slots, actions, rewards)
    advance(len(episodes))
    return keys


class SearchedStore(RamStore):
    """Entries in RAM whose keys are in an index alone: ten million chunks would need 27 GB."""

    def __init__(self, index: Index, task: Tensor, like: Memory) -> None:
        super().__init__(like.spaces, like.config.context_len, like.embedder.width)
        self.index, number = index, torch.arange(len(task))
        self.known = number.numpy()
        step, returns = torch.zeros_like(number), (number % RETURNS).float()
        self._numbers.append(number)
        self._entries.append(Entries(task, number, number, step, step, step + 1, returns))

    def search(
        self, queries: Tensor, k: int, partition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return relevance and ids of entries, as an index beside a store does."""
        relevance, numbers = self.index.search(queries, k, partition)
        return relevance, ids_of(self.known, numbers)


def filled_index(name: str, real: RealKeys, size: int, width: int) -> tuple[Index, Tensor]:
    """Fill an index with so many keys and let it build what it needs; return their tasks, too."""
    index, tasks = INDEXES[name](width), list[Tensor]()
    for keys, task in real.blocks(size, width):
        index.add(keys, task)
        tasks.append(task)
    index.search(real.asked(width)[:1], K)
    return index, torch.cat(tasks)


def filled_memory(index: Index, task: Tensor, like: Memory) -> Memory:
    """Put a memory with the options of another around a filled index."""
    config = replace(like.config, top_l=K)
    return Memory(like.embedder, like.spaces, config, SearchedStore(index, task, like))


def held_bytes(memory: Memory, index: Any) -> int:
    """Count the bytes of an index and of the entries beside it, without their chunks.

    What a process grows by would say less: it gives memory that was freed to whatever comes next.
    """
    columns = (getattr(memory.entries, field.name) for field in fields(memory.entries))
    beside: int = sum(column.nbytes for column in columns) + memory.store.numbers.nbytes
    held: list[int] = []
    if (finder := getattr(index, "finder", None)) is not None:  # what Faiss would write, not kept
        faiss = faiss_library()
        faiss.write_index(finder, faiss.PyCallbackIOWriter(lambda part: held.append(len(part))))
    return int(index.table.nbytes) + beside + sum(held)
