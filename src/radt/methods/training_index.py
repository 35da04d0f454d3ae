"""The index of training (Algorithm 2, lines 1-4): all sub-trajectories, less what is dropped."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset
from radt.memory.embed import Embedder, device_of
from radt.memory.entries import deduplicate, deduplicate_to, key_start
from radt.memory.index import build_index
from radt.memory.memory import MemoryConfig
from radt.memory.store import DatasetStore
from radt.methods.method import Progress
from radt.methods.training_contexts import RetrievalTraining
from radt.methods.windows import up_to
from radt.trajectory import Batch

LOG = logging.getLogger(__name__)
EMBED_AT_ONCE = 128  # what a batch of prefixes goes through stays in the cache of a CPU
SAMPLED = 256  # keys by which bounds are set
FEW = 0.2  # a regulariser that leaves less is a warning


class TrainingIndex:
    """Entries of a dataset and, where they are searched or deduplicated, their keys.

    `sizes` tells how many there are, and what their episodes earned, after each stage.
    """

    def __init__(
        self,
        dataset: Dataset,
        embedder: Embedder,
        config: MemoryConfig,
        training: RetrievalTraining,
        searched: bool,
        progress: Progress | None = None,
    ) -> None:
        self.dataset, self.config, self.training = dataset, config, training
        self.store = DatasetStore(dataset, config.halves)
        self.sizes: dict[str, float] = {}
        self._note("cut", self.store.entries.total_return)
        if config.store_above is not None:
            steps = self.store.entries.stop - self.store.entries.start
            earned = dataset.spaces.above_lowest(self.store.earned(), steps)
            self._keep("rewarded", earned > config.store_above)
        if training.start_chunks:
            self._keep("start_chunks", self.store.entries.start == 0)
        self.index = build_index(config.index, embedder.width, device_of(embedder))
        self.keys = torch.zeros(0, embedder.width)
        self.cut_off = training.cut_off
        drawn_from = training.contexts != "retrieved" and training.deduplicates
        if searched or drawn_from:  # what is drawn is drawn from what dedup leaves
            self._embed(embedder, progress)
            self._deduplicate()
        if searched:
            self.index.add(self.keys, self.store.entries.task)
            self._set_cut_off()

    def prefixes(self, episode: NDArray[np.int64], step: NDArray[np.int64]) -> Batch:
        """Read the C states up to and including the one at a step of each episode, [B, C]."""
        context_len = self.config.context_len
        start = key_start(torch.from_numpy(step), context_len).numpy()
        return up_to(self.dataset.windows(episode, start, context_len), step + 1)

    def _embed(self, embedder: Embedder, progress: Progress | None) -> None:
        entries, done = self.store.entries, 0
        self.keys = torch.zeros(len(entries), embedder.width)
        for position in entries.position.unique():  # early prefixes are short and cheap together
            for part in (entries.position == position).nonzero().squeeze(1).split(EMBED_AT_ONCE):
                rows = entries.rows(part)
                self.keys[part] = embedder(
                    self.prefixes(rows.episode.numpy(), rows.position.numpy())
                )
                done += len(part)
                if progress is not None:
                    progress(done, len(entries))

    def _deduplicate(self) -> None:
        """Drop entries that say the same, by a bound on the cosine or to a share."""
        training, entries = self.training, self.store.entries
        if training.dedup_keep is not None:
            kept, bound = deduplicate_to(
                self.keys, entries, training.dedup_keep, training.dedup_order
            )
            self.sizes["dedup_bound"] = bound
        elif training.dedup is not None:
            kept = deduplicate(self.keys, entries, training.dedup, training.dedup_order)
        else:
            return
        if training.dedup_spares_start:
            kept = kept | (entries.position == 0)
        self.keys = self.keys[kept]
        self._keep("distinct", kept)
        _warn_of_few("dedup", len(self.keys) / max(1, len(entries)))

    def _set_cut_off(self) -> None:
        """Look at what is near some keys: set the bound, and note which candidates stay."""
        training = self.training
        if (training.cut_off is None and training.cut_off_keep is None) or not len(self.keys):
            return
        rng = np.random.default_rng(0)  # the same sample in every run
        sample = torch.from_numpy(rng.integers(len(self.keys), size=SAMPLED))
        relevance, ids = self.index.search(self.keys[sample], 2 * self.config.top_l)
        relevance, ids = relevance.cpu(), ids.cpu()
        others = (ids != sample[:, None]) & relevance.isfinite()
        known, returns = relevance[others], self.store.entries.total_return[ids[others]]
        if training.cut_off_keep is not None:
            self.cut_off = float(torch.quantile(known, training.cut_off_keep))
            self.sizes["cut_off_bound"] = self.cut_off
        if self.cut_off is not None and len(known):
            stays = known <= self.cut_off
            self._note("candidates", returns)
            self._note("below_cut_off", returns[stays])
            self.sizes["kept_by_cut_off"] = share = float(stays.float().mean())
            _warn_of_few("cut_off", share)

    def _keep(self, stage: str, kept: Tensor) -> None:
        """Drop all entries but the marked ones, [N] bool."""
        self.store.keep(kept)
        self._note(stage, self.store.entries.total_return)

    def _note(self, stage: str, returns: Tensor) -> None:
        """Count what a stage leaves, and average what the episodes earned."""
        self.sizes[stage] = len(returns)
        self.sizes[f"{stage}_return"] = float(returns.mean()) if len(returns) else 0.0


def _warn_of_few(option: str, share: float) -> None:
    if share < FEW:
        LOG.warning(
            "training.%s leaves %.1f %%: a bound on a cosine depends on the embedder; set "
            "options.training.%s_keep to a share, or options.training.%s to null",
            *(option, 100 * share, option, option),
        )


STAGES = {
    "cut": "index",
    "rewarded": "store_above leaves",
    "start_chunks": "start_chunks leaves",
    "distinct": "dedup leaves",
    "candidates": "candidates of some queries",
    "below_cut_off": "cut_off leaves",
}


def told(sizes: Mapping[str, float]) -> Iterator[str]:
    """Say in a line each what is there before and after each regulariser."""
    for stage, name in STAGES.items():
        if stage in sizes:
            yield f"{name}: {sizes[stage]:,.0f}, mean return {sizes[f'{stage}_return']:.1f}"
