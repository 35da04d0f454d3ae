"""What can be chosen about retrieval in training: what windows read, and the regularisers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from radt.memory.entries import DedupOrder
from radt.methods.windows import check_share

Contexts = Literal["retrieved", "own-task", "all-tasks", "equal-return", "earlier-worse"]


@dataclass(frozen=True)
class RetrievalTraining:
    """What is retrieved for training windows, and the regularisers of it (appendix C.4)."""

    query: Literal["window", "prefix"] = "window"  # embed all of it, or what a random step knows
    contexts: Contexts = "retrieved"  # or random chunks (see training_contexts.py)
    sampled_share: float = 0.0  # share of windows that read a random chunk of their own task
    any_task_share: float = 0.0  # share that read one of any task; the others do as `contexts` says
    pool: int | None = None  # search so many random episodes of the own task; 0: all of it
    earlier_only: bool = False  # search only what the own task's source had generated before
    utility: str = "task"  # what is added to relevance: task, or another that is registered
    alpha: float | None = None  # weight of utility against relevance; None: memory.alpha
    cut_off: float | None = 0.98  # remove candidates more similar than this
    cut_off_keep: float | None = None  # instead of cut_off: the share of candidates that stays
    query_dropout: float = 0.2  # share of state tokens left out of a query
    blend: float | None = None  # weight of the query against a random key
    min_length: int = 0  # queries before this step get a random chunk of their own task
    dedup: float | None = 0.98  # drop entries more similar than this to one that is kept
    dedup_keep: float | None = None  # instead of dedup: the share of entries that stays
    dedup_order: DedupOrder = "return"  # which entries come first, and so stay
    dedup_spares_start: bool = False  # keep entries at t = 0, whose keys a fixed start makes equal
    own_task_only: bool = False  # search only the own task: faster, but may choose otherwise
    context_dropout: float = 0.1  # share of windows that read the null chunk
    query_offsets: tuple[int, ...] | None = None  # ask only so far behind an entry's step
    truncated_chunks: float = 0.0  # share of chunks that end with an early reward (see transforms)
    start_chunks: bool = False  # only chunks from the start of an episode

    @property
    def asks_by_prefix(self) -> bool:
        """Whether a query is made before the window's end."""
        return self.query == "prefix" or self.query_offsets is not None

    @property
    def deduplicates(self) -> bool:
        """Whether entries that say the same are dropped."""
        return self.dedup is not None or self.dedup_keep is not None

    def __post_init__(self) -> None:
        shares = ("sampled_share", "any_task_share", "cut_off_keep", "dedup_keep")
        for name in (*shares, "query_dropout", "context_dropout", "blend"):
            check_share(name, getattr(self, name) or 0.0)
        check_share("sampled_share + any_task_share", self.sampled_share + self.any_task_share)
        if self.pool is not None and self.pool < 0:
            raise ValueError(f"pool must be 0 (all episodes of the task) or more, not {self.pool}")
        if self.min_length < 0:
            raise ValueError(f"min_length must be 0 or more steps, not {self.min_length}")
        if self.earlier_only and self.pool is None:
            raise ValueError("earlier_only searches the own task: give pool, 0 for all of it")


def check_query_offsets(offsets: tuple[int, ...] | None, between: int) -> None:
    """Refuse steps behind an entry that belong to the next one."""
    if offsets is None or (0 in offsets and all(0 <= step < between for step in offsets)):
        return
    raise ValueError(
        f"query_offsets are steps behind an entry, 0 among them and all below {between}, where the "
        f"next entry stands; got {offsets}"
    )
