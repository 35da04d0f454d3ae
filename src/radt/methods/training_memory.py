"""The memory at training time: the whole dataset, searched with the paper's regularisers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.embed import Embedder, device_of
from radt.memory.entries import DedupOrder, deduplicate, deduplicate_to, key_start
from radt.memory.index import build_index, group
from radt.memory.memory import MemoryConfig
from radt.memory.retrieve import Queries, blend_queries, candidates, retrieve
from radt.memory.reweight import UTILITIES, reweight
from radt.memory.store import DatasetStore
from radt.methods.method import Progress
from radt.methods.training_contexts import (
    Pools,
    draw_from_all_tasks,
    draw_from_own_task,
    draw_of_equal_return,
)
from radt.methods.windows import Windows, check_share, up_to
from radt.trajectory import Batch, Retrieval

LOG = logging.getLogger(__name__)
EMBED_AT_ONCE = 128  # what a batch of prefixes goes through stays in the cache of a CPU
SAMPLED = 256  # queries by which searches are compared and bounds are set
GOOD, FAILED = 0.5, 0.1  # shares of the best return
FEW = 0.2  # a regulariser that leaves less is a warning
Contexts = Literal["retrieved", "own-task", "all-tasks", "equal-return"]


@dataclass(frozen=True)
class RetrievalTraining:
    """What is retrieved for training windows, and the regularisers of it (appendix C.4)."""

    query: Literal["window", "prefix"] = "window"  # embed all of it, or what a random step knows
    contexts: Contexts = "retrieved"  # or random chunks (see training_contexts.py)
    sampled_share: float = 0.0  # share of windows that read a random chunk of their own task
    pool: int | None = None  # search so many random episodes of the own task; 0: all of it
    earlier_only: bool = False  # only what the own task's source had generated before
    utility: str = "task"
    cut_off: float | None = 0.98  # remove candidates more similar than this
    cut_off_keep: float | None = None  # instead: the share of candidates that stays
    query_dropout: float = 0.2  # share of state tokens left out of a query
    blend: float | None = None  # weight of the query against a random key
    min_length: int = 10  # earlier queries get a random chunk of their own task
    dedup: float | None = 0.98
    dedup_keep: float | None = None  # instead: the share of entries that stays
    dedup_order: DedupOrder = "return"
    dedup_spares_start: bool = False  # keep entries at t = 0, whose keys a fixed start makes equal
    own_task_only: bool = False  # search only the own task: faster, but may choose otherwise
    context_dropout: float = 0.1  # share of windows that read the null chunk
    query_offsets: tuple[int, ...] | None = None  # ask only so far behind an entry's step
    truncated_chunks: float = 0.0  # share that ends with an early reward (see transforms.py)
    start_chunks: bool = False  # only chunks from the start of an episode

    @property
    def asks_by_prefix(self) -> bool:
        """Whether a query is made before the window's end."""
        return self.query == "prefix" or self.query_offsets is not None

    def __post_init__(self) -> None:
        for name in ("sampled_share", "cut_off_keep", "dedup_keep"):
            check_share(name, getattr(self, name) or 0.0)
        if self.pool is not None and self.pool < 0:
            raise ValueError(f"pool must be 0 (all episodes of the task) or more, not {self.pool}")
        if self.earlier_only and self.pool is None:
            raise ValueError("earlier_only searches the own task: give pool, 0 for all of it")


def correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the correlation of two series, 0 where one of them never changes."""
    varies = one.std() > 0 and other.std() > 0
    return float(np.corrcoef(one, other)[0, 1]) if varies else 0.0


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
        self._cut_off = self._bound()
        self._pools = None
        if training.pool is not None and self.searches:
            size, earlier = training.pool, training.earlier_only
            self._pools = Pools(self.keys, self.store.entries, size, earlier)
        if training.own_task_only and self.searches:
            self.sizes["choices_changed_by_own_task_only"] = self.share_changed()

    @property
    def searches(self) -> bool:
        """Whether any window asks late enough in its episode to be searched for."""
        late = self.config.retrieve_every != 0 or self.training.min_length == 0
        return late and self.training.contexts == "retrieved"

    def draw_query_steps(self, windows: Windows, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the step of each window's query, [B]: its last, or one that an agent asks at."""
        config, offsets = self.config, self.training.query_offsets
        if config.retrieve_every == 0:
            return np.zeros_like(windows.start)
        if not self.training.asks_by_prefix:
            return windows.stop - 1
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
        return self.store.chunks(self.choose_for(episode, query_step, rng))

    def choose_for(
        self, episode: NDArray[np.int64], query_step: NDArray[np.int64], rng: np.random.Generator
    ) -> Tensor:
        """Choose entries for queries asked at a step of each episode, [B, k] ids; -1: none."""
        chosen = torch.full((len(episode), self.config.top_k), -1)
        sampled = query_step < self.training.min_length
        if share := self.training.sampled_share:
            sampled |= rng.random(len(episode)) < share
        if self.training.contexts != "retrieved":
            sampled[:] = True
        queries = self._queries(episode, query_step, ~sampled, rng)
        chosen[torch.from_numpy(sampled)] = self._sampled(queries.rows(sampled), rng)
        if not sampled.all():
            own_task_only = self.training.own_task_only
            found = self.search(queries.rows(~sampled), own_task_only, rng)
            chosen[torch.from_numpy(~sampled)] = found.chosen
        unseen = torch.from_numpy(rng.random(len(episode)) < self.training.context_dropout)
        chosen[unseen] = -1
        return chosen

    def confound(
        self, episode: NDArray[np.int64], query_step: NDArray[np.int64], rng: np.random.Generator
    ) -> dict[str, float]:
        """Say how much chunks tell of the return of the windows that read them.

        Every new task begins with failures in memory and a high target. If that is never seen in
        training, failures mislead (docs/results.md).
        """
        chosen = self.choose_for(episode, query_step, rng)[:, 0]
        read = (chosen >= 0).numpy()
        if not read.any():
            return {"windows_with_chunk": 0.0}
        window = self.dataset.episodes.total_return[episode[read]]
        chunk = self.store.entries.total_return[chosen[read]].numpy()
        best = self.dataset.episodes.total_return.max()
        failed = chunk[window >= GOOD * best] <= FAILED * best
        return {
            "windows_with_chunk": float(read.mean()),
            "return_correlation": correlation(window, chunk),
            "failures_beside_good": float(failed.mean()) if len(failed) else 0.0,
        }

    def _sampled(self, queries: Queries, rng: np.random.Generator) -> Tensor:
        """Draw random chunks instead of retrieving, [B, k] ids."""
        entries, top_k = self.store.entries, self.config.top_k
        if self.training.contexts == "all-tasks":
            return draw_from_all_tasks(queries, entries, top_k, rng)
        if self.training.contexts == "equal-return":
            earned = torch.from_numpy(self.dataset.episodes.total_return)[queries.episode]
            return draw_of_equal_return(queries, earned, entries, self.members, top_k, rng)
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
                queries, self.index, entries, config.top_l, self._cut_off, own_task_only
            )
        else:
            wanted = config.top_l if self._cut_off is None else 2 * config.top_l
            similar = self._pools.search(queries, wanted, rng or np.random.default_rng(0))
            found = candidates(*similar, queries, entries, config.top_l, self._cut_off)
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
        if (kept := self._distinct()) is not None:
            self.store.keep(kept)
            self.keys = self.keys[kept]
            self._note("distinct")
            self._warn_of_few("dedup", len(self.keys) / len(entries))
        self.index.add(self.keys, self.store.entries.task)

    def _distinct(self) -> Tensor | None:
        """Say which entries deduplication keeps, [N] bool; None: all."""
        training, entries = self.training, self.store.entries
        if training.dedup_keep is not None:
            kept, bound = deduplicate_to(
                self.keys, entries, training.dedup_keep, training.dedup_order
            )
            self.sizes["dedup_bound"] = bound
        elif training.dedup is not None:
            kept = deduplicate(self.keys, entries, training.dedup, training.dedup_order)
        else:
            return None
        return kept | (entries.position == 0) if training.dedup_spares_start else kept

    def _bound(self) -> float | None:
        """Return the similarity above which candidates are removed, and note how many stay."""
        training = self.training
        if not self.searches or not len(self.keys):
            return training.cut_off
        if training.cut_off is None and training.cut_off_keep is None:
            return None
        rng = np.random.default_rng(0)  # the same sample in every run
        sample = torch.from_numpy(rng.integers(len(self.keys), size=SAMPLED))
        relevance, ids = self.index.search(self.keys[sample], 2 * self.config.top_l)
        known = relevance.cpu()[ids.cpu() != sample[:, None]]
        known = known[known.isfinite()]
        bound = training.cut_off
        if training.cut_off_keep is not None:
            bound = float(torch.quantile(known, training.cut_off_keep))
            self.sizes["cut_off_bound"] = bound
        if bound is not None and len(known):
            share = float((known <= bound).float().mean())
            self.sizes["kept_by_cut_off"] = share
            self._warn_of_few("cut_off", share)
        return bound

    def _warn_of_few(self, option: str, share: float) -> None:
        if share < FEW:
            LOG.warning(
                "training.%s leaves %.1f %%: a bound on a cosine depends on the embedder; set "
                "options.training.%s_keep to a share, or options.training.%s to null",
                *(option, 100 * share, option, option),
            )
