"""The memory at training time: the whole dataset, searched with the paper's regularisers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from radt.data.reader import Dataset
from radt.memory.embed import Embedder, ProjectedEmbedder, device_of
from radt.memory.index import build_index
from radt.memory.memory import MemoryConfig
from radt.memory.retrieve import Queries, blend_queries, candidates, retrieve
from radt.memory.reweight import UTILITIES, reweight
from radt.memory.similarity import group
from radt.methods.method import Progress
from radt.methods.training_contexts import (
    Contexts,
    Pools,
    RetrievalTraining,
    draw_earlier_worse,
    draw_from_all_tasks,
    draw_from_own_task,
    draw_of_equal_return,
)
from radt.methods.training_index import TrainingIndex
from radt.methods.windows import Windows
from radt.trajectory import Batch, Retrieval

SAMPLED = 256  # queries by which searches are compared
GOOD, FAILED = 0.5, 0.1  # shares of the best return


def correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the correlation of two series, 0 where one of them never changes."""
    varies = one.std() > 0 and other.std() > 0
    return float(np.corrcoef(one, other)[0, 1]) if varies else 0.0


class TrainingMemory(TrainingIndex):
    """Every sub-trajectory of a dataset, ready to be retrieved for its windows."""

    def __init__(
        self,
        dataset: Dataset,
        embedder: Embedder,
        config: MemoryConfig,
        training: RetrievalTraining,
        progress: Progress | None = None,
    ) -> None:
        self.embedder, self.config, self.training = embedder, config, training
        projected = embedder if isinstance(embedder, ProjectedEmbedder) else None
        self.frozen = embedder if projected is None else projected.frozen
        searched = self.searches or projected is not None  # if only to see what W would find
        super().__init__(dataset, self.frozen, config, training, searched, progress)
        self.frozen_keys = self.keys  # [N, d]
        count = int(dataset.episodes.task.max()) + 1  # tasks without an entry count, too
        self.members = group(self.store.entries.task, count)  # [tasks, longest] ids
        self._pools = self._new_pools()
        if projected is not None:
            self.re_embed(projected.projection.weight)
        if training.own_task_only and self.searches:
            self.sizes["choices_changed_by_own_task_only"] = self.share_changed()

    @property
    def searches(self) -> bool:
        """Whether any window asks late enough in its episode to be searched for."""
        training = self.training
        late = self.config.retrieve_every != 0 or training.min_length == 0
        all_drawn = training.sampled_share + training.any_task_share >= 1
        return late and training.contexts == "retrieved" and not all_drawn

    def _new_pools(self) -> Pools | None:
        training = self.training
        if training.pool is None or not self.searches:
            return None
        return Pools(self.keys, self.store.entries, training.pool, training.earlier_only)

    def re_embed(self, weight: Tensor) -> None:
        """Project the frozen keys by W [d, d]; from now on these are searched."""
        self.projected_by = weight.detach().cpu().clone()
        self.keys = linear(self.frozen_keys, self.projected_by)
        self.index = build_index(self.config.index, self.embedder.width, device_of(self.embedder))
        self.index.add(self.keys, self.store.entries.task)
        self._pools = self._new_pools()

    def draw_query_steps(
        self, windows: Windows, rng: np.random.Generator, by_prefix: bool = False
    ) -> NDArray[np.int64]:
        """Return the step of each window's query, [B]: its last, or one that an agent asks at."""
        config, offsets = self.config, self.training.query_offsets
        if config.retrieve_every == 0:
            return np.zeros_like(windows.start)
        if not (by_prefix or self.training.asks_by_prefix):
            return windows.stop - 1
        step = rng.integers(windows.start, windows.stop)
        if offsets is None:
            return step // config.retrieve_every * config.retrieve_every
        entry = step // config.halves.past * config.halves.past
        known = np.array(sorted(offsets), dtype=np.int64)
        latest: NDArray[np.int64] = known[np.searchsorted(known, step - entry, side="right") - 1]
        return entry + latest

    def retrieve_for(
        self, episode: NDArray[np.int64], query_step: NDArray[np.int64], rng: np.random.Generator
    ) -> Batch:
        """Return the chunks for queries asked at a step of each episode, [B, k * chunk_len]."""
        return self.store.chunks(self.choose_for(episode, query_step, rng))

    def choose_for(
        self, episode: NDArray[np.int64], query_step: NDArray[np.int64], rng: np.random.Generator
    ) -> Tensor:
        """Choose entries for queries asked at a step of each episode, [B, k] ids; -1: none."""
        chosen = torch.full((len(episode), self.config.top_k), -1)
        kind = self._kinds(query_step, rng)  # [B]
        queries = self._queries(episode, query_step, kind == "retrieved", rng)
        for one in ("own-task", "all-tasks", "equal-return", "earlier-worse", "retrieved"):
            if (rows := kind == one).any():
                chosen[torch.from_numpy(rows)] = self._chosen(one, queries.rows(rows), rng)
        unseen = torch.from_numpy(rng.random(len(episode)) < self.training.context_dropout)
        chosen[unseen] = -1
        return chosen

    def confound(self, episode: NDArray[np.int64], chosen: Tensor) -> dict[str, float]:
        """Say how much chosen chunks [B] tell of the return of the windows that read them.

        Every new task begins with failures in memory and a high target. If that is never seen in
        training, failures mislead (docs/results/training-contexts.md).
        """
        read = (chosen >= 0).numpy()
        if not read.any():
            return {"windows_with_chunk": 0.0}
        window = self.dataset.episodes.total_return[episode[read]]
        chunk = self.store.entries.total_return[chosen[read]].numpy()
        best = self.dataset.episodes.total_return.max()
        failed = chunk[window >= GOOD * best] <= FAILED * best
        return {
            **self._same_level(episode[read], chosen[read]),
            "windows_with_chunk": float(read.mean()),
            "return_correlation": correlation(window, chunk),
            "failures_beside_good": float(failed.mean()) if len(failed) else 0.0,
        }

    def _same_level(self, episode: NDArray[np.int64], chosen: Tensor) -> dict[str, float]:
        """Say how many chunks are of their window's own level, where tasks have levels."""
        table, other = self.dataset.episodes, self.store.entries.episode[chosen].numpy()
        if (table.level < 0).any():
            return {}
        same = (table.level[episode] == table.level[other]) & (
            table.task[episode] == table.task[other]
        )
        return {"same_level": float(same.mean())}

    def _kinds(self, query_step: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.str_]:
        """Say which contexts each window reads, [B]."""
        training = self.training
        own, any_task = training.sampled_share, training.any_task_share
        kind = np.full(len(query_step), training.contexts, dtype="<U16")
        if training.contexts == "retrieved":
            kind[query_step < training.min_length] = "own-task"
        if own or any_task:
            place = rng.random(len(kind))
            kind[place < own + any_task] = "all-tasks"
            kind[place < own] = "own-task"
        return kind

    def _chosen(self, contexts: Contexts, queries: Queries, rng: np.random.Generator) -> Tensor:
        """Retrieve entries, or draw random ones, [B, k] ids."""
        entries, top_k = self.store.entries, self.config.top_k
        if contexts == "retrieved":
            return self.search(queries, self.training.own_task_only, rng).chosen
        if contexts == "all-tasks":
            return draw_from_all_tasks(queries, entries, top_k, rng)
        if contexts in ("equal-return", "earlier-worse"):
            draw = draw_of_equal_return if contexts == "equal-return" else draw_earlier_worse
            earned = torch.from_numpy(self.dataset.episodes.total_return)[queries.episode]
            return draw(queries, earned, entries, self.members, top_k, rng)
        return draw_from_own_task(queries, entries, self.members, top_k, rng)

    def search(
        self,
        queries: Queries,
        own_task_only: bool = False,
        rng: np.random.Generator | None = None,
    ) -> Retrieval:
        """Retrieve (Eq. 3) and reweight (Eq. 4, 5); `rng` draws pools."""
        entries, training, config = self.store.entries, self.training, self.config
        if self._pools is None:
            found = retrieve(
                queries, self.index, entries, config.top_l, self.cut_off, own_task_only
            )
        else:
            wanted = config.top_l if self.cut_off is None else 2 * config.top_l
            similar = self._pools.search(queries, wanted, rng or np.random.default_rng(0))
            found = candidates(*similar, queries, entries, config.top_l, self.cut_off)
        alpha = config.alpha if training.alpha is None else training.alpha
        return reweight(found, queries, entries, UTILITIES[training.utility], alpha, config.top_k)

    def share_changed(self) -> float:
        """Return the share of queries whose choice differs if only the own task is searched."""
        rng = np.random.default_rng(0)  # the same sample in every run
        episode = rng.integers(len(self.dataset), size=SAMPLED)
        query_step = rng.integers(self.dataset.episodes.length[episode])
        every = self.config.retrieve_every
        query_step = query_step // every * every if every else np.zeros_like(query_step)
        late = query_step >= self.training.min_length
        if not late.any():
            return 0.0
        queries = self._queries(episode, query_step, late, rng).rows(late)
        everywhere, at_home = (self.search(queries, only).chosen for only in (False, True))
        return float((everywhere != at_home).any(1).float().mean())

    def _queries(
        self,
        episode: NDArray[np.int64],
        query_step: NDArray[np.int64],
        embedded: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> Queries:
        """Construct q = g(tau_{p-C:p}) of the rows that will be searched for."""
        vectors = torch.zeros(len(episode), self.embedder.width)
        if embedded.any():
            prefixes = self.prefixes(episode[embedded], query_step[embedded])
            dropped = rng.random(tuple(prefixes.mask.shape)) < self.training.query_dropout
            found = self.embedder(prefixes, torch.from_numpy(dropped))
            found = self._blended(found, torch.from_numpy(episode[embedded]), rng)
            vectors[torch.from_numpy(embedded)] = found
        return self._asking(vectors, episode, query_step)

    def frozen_queries(self, episode: NDArray[np.int64], query_step: NDArray[np.int64]) -> Queries:
        """Construct queries as an agent does, before W: nothing is dropped or blended."""
        return self._asking(
            self.frozen(self.prefixes(episode, query_step)).cpu(), episode, query_step
        )

    def _asking(
        self, vectors: Tensor, episode: NDArray[np.int64], query_step: NDArray[np.int64]
    ) -> Queries:
        episodes = self.dataset.episodes
        return Queries(
            vectors=vectors,
            task=torch.from_numpy(episodes.task[episode]).long(),
            episode=torch.from_numpy(episode),
            age=torch.from_numpy(episodes.index[episode]).long(),
            position=torch.from_numpy(query_step),
        )

    def _blended(self, vectors: Tensor, episode: Tensor, rng: np.random.Generator) -> Tensor:
        """Blend queries with random keys, but never with their own episode: it knows the future."""
        if self.training.blend is None or not len(self.keys):
            return vectors
        drawn = torch.from_numpy(rng.integers(len(self.keys), size=len(vectors)))
        own = self.store.entries.episode[drawn] == episode
        others = torch.where(own[:, None], vectors, self.keys[drawn])
        return blend_queries(vectors, others, self.training.blend)
