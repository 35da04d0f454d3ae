"""How keys are searched: cosine similarity, batched, partitioned by task (Eq. 3)."""

from radt.memory.index.exact import FlatIndex
from radt.memory.index.faiss_indexes import ApproximateIndex, auto_index, hnsw_index, ivf_index
from radt.memory.index.protocol import (
    INDEXES,
    Index,
    build_index,
    check_known,
    check_new,
    check_queries,
)
from radt.memory.similarity import GRID, best_first, group, similarity, unit

__all__ = [
    "GRID",
    "INDEXES",
    "ApproximateIndex",
    "FlatIndex",
    "Index",
    "auto_index",
    "best_first",
    "build_index",
    "check_known",
    "check_new",
    "check_queries",
    "group",
    "hnsw_index",
    "ivf_index",
    "similarity",
    "unit",
]
