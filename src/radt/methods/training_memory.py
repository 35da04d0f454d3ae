"""The memory at training time: the whole dataset, searched with the paper's regularisers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.embed import Embedder, device_of
from radt.memory.entries import DedupOrder, deduplicate, key_start
from radt.memory.index import build_index, group
from radt.memory.memory import MemoryConfig
from radt.memory.retrieve import Queries, blend_queries, draw_from_own_task, retrieve
from radt.memory.reweight import UTILITIES, reweight
from radt.memory.store import DatasetStore
from radt.methods.method import Progress
from radt.methods.windows import Windows, up_to
from radt.trajectory import Batch, Retrieval

EMBED_AT_ONCE = 128  # what a batch of prefixes goes through stays in the cache of a CPU
SAMPLED = 256  # queries by which the choices of two searches are compared


@dataclass(frozen=True)
class RetrievalTraining:
    """The regularisers of retrieval that act at training only (appendix C.4)."""

    utility: str = "task"
    cut_off: float | None = 0.98  # remove candidates more similar than this
    query_dropout: float = 0.2  # share of state tokens left out of a query
    blend: float | None = None  # weight of the query against a random key
    min_length: int = 10  # earlier queries get a random chunk of their own task
    dedup: float | None = 0.98
    dedup_order: DedupOrder = "return"
    own_task_only: bool = False  # search only the own task: faster, but may choose otherwise
    context_dropout: float = 0.1  # share of windows that read the null chunk
    query_offsets: tuple[int, ...] | None = None  # ask only so far behind an entry's step
    truncated_chunks: float = 0.0  # share that ends with an early reward (see transforms.py)
    start_chunks: bool = False  # only chunks from the start of an episode


def check_query_offsets(offsets: tuple[int, ...] | None, context_len: int) -> None:
    """Refuse steps behind an entry that belong to the next one."""
    if offsets is None or (0 in offsets and all(0 <= step < context_len for step in offsets)):
        return
    raise ValueError(
        f"query_offsets are steps behind an entry, 0 among them and all below context_len="
        f"{context_len}; got {offsets}"
    )


class TrainingMemory:
    """Every sub-trajectory of a dataset, ready to be retrieved for its windows."""

    def __init__(
        self,
        dataset: Dataset,
        embedder: Embedder,
        config: MemoryConfig,
        training: RetrievalTraining,
        progress: Progress | None = None,
    ) -> None:
        self.dataset, self.embedder, self._progress = dataset, embedder, progress
        self.config, self.training = config, training
        self.store = DatasetStore(dataset, config.context_len)
        self.sizes: dict[str, float] = {}
        self._note("cut")
        if config.store_above is not None:
            steps = self.store.entries.stop - self.store.entries.start
            earned = dataset.spaces.above_lowest(self.store.earned(), steps)
            self.store.keep(earned > config.store_above)
            self._note("rewarded")
        if training.start_chunks:
            self.store.keep(self.store.entries.start == 0)
            self._note("start_chunks")
        self.index = build_index(config.index, embedder.width, device_of(embedder))
        self.keys = torch.zeros(0, embedder.width)
        if self.searches:
            self._fill()
        count = int(dataset.episodes.task.max()) + 1  # tasks without an entry count, too
        self.members = group(self.store.entries.task, count)  # [tasks, longest] ids
        if training.own_task_only and self.searches:
            self.sizes["choices_changed_by_own_task_only"] = self.share_changed()

    @property
    def searches(self) -> bool:
        """Whether any window asks late enough in its episode to be searched for."""
        return self.config.retrieve_every != 0 or self.training.min_length == 0

    def draw_query_steps(self, windows: Windows, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the step p of each window's query, [B], as an agent would make one."""
        config, offsets = self.config, self.training.query_offsets
        if config.retrieve_every == 0:
            return np.zeros_like(windows.start)
        step = rng.integers(windows.start, windows.stop)
        if offsets is None:
            return step // config.retrieve_every * config.retrieve_every
        entry = step // config.context_len * config.context_len
        known = np.array(sorted(offsets), dtype=np.int64)
        latest: NDArray[np.int64] = known[np.searchsorted(known, step - entry, side="right") - 1]
        return entry + latest

    def retrieve_for(
        self, episode: NDArray[np.int64], query_step: NDArray[np.int64], rng: np.random.Generator
    ) -> Batch:
        """Return the chunks for queries asked at a step of each episode, [B, k * 2C]."""
        chosen = torch.full((len(episode), self.config.top_k), -1)
        short = query_step < self.training.min_length
        queries = self._queries(episode, query_step, ~short, rng)
        chosen[torch.from_numpy(short)] = draw_from_own_task(
            queries.rows(short), self.store.entries, self.members, self.config.top_k, rng
        )
        if not short.all():
            found = self.search(queries.rows(~short), self.training.own_task_only)
            chosen[torch.from_numpy(~short)] = found.chosen
        unseen = torch.from_numpy(rng.random(len(episode)) < self.training.context_dropout)
        chosen[unseen] = -1
        return self.store.chunks(chosen)

    def search(self, queries: Queries, own_task_only: bool = False) -> Retrieval:
        """Retrieve (Eq. 3) and reweight (Eq. 4, 5)."""
        entries, training, config = self.store.entries, self.training, self.config
        found = retrieve(
            queries, self.index, entries, config.top_l, training.cut_off, own_task_only
        )
        utility = UTILITIES[training.utility]
        return reweight(found, queries, entries, utility, config.alpha, config.top_k)

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
            prefixes = self._prefixes(episode[embedded], query_step[embedded])
            dropped = rng.random(tuple(prefixes.mask.shape)) < self.training.query_dropout
            found = self.embedder(prefixes, torch.from_numpy(dropped))
            found = self._blended(found, torch.from_numpy(episode[embedded]), rng)
            vectors[torch.from_numpy(embedded)] = found
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

    def _prefixes(self, episode: NDArray[np.int64], query_step: NDArray[np.int64]) -> Batch:
        """Read the C states up to and including the one at which the query is asked, [B, C]."""
        context_len = self.config.context_len
        start = key_start(torch.from_numpy(query_step), context_len).numpy()
        return up_to(self.dataset.windows(episode, start, context_len), query_step + 1)

    def _note(self, stage: str) -> None:
        """Count the entries, and average their returns, after a stage of building the index."""
        returns = self.store.entries.total_return
        self.sizes[stage] = len(returns)
        self.sizes[f"{stage}_return"] = float(returns.mean()) if len(returns) else 0.0

    def _fill(self) -> None:
        """Embed all entries, drop duplicates, index the rest."""
        entries = self.store.entries
        self.keys = torch.zeros(len(entries), self.embedder.width)
        done = 0
        for position in entries.position.unique():  # early prefixes are short and cheap together
            for part in (entries.position == position).nonzero().squeeze(1).split(EMBED_AT_ONCE):
                rows = entries.rows(part)
                prefixes = self._prefixes(rows.episode.numpy(), rows.position.numpy())
                self.keys[part] = self.embedder(prefixes)
                done += len(part)
                if self._progress is not None:
                    self._progress(done, len(entries))
        if self.training.dedup is not None:
            kept = deduplicate(self.keys, entries, self.training.dedup, self.training.dedup_order)
            self.store.keep(kept)
            self.keys = self.keys[kept]
            self._note("distinct")
        self.index.add(self.keys, self.store.entries.task)
