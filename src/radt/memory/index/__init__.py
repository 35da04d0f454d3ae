"""How keys are searched: cosine similarity, batched, partitioned by task (Eq. 3)."""

from radt.memory.index.auto import auto_index
from radt.memory.index.flat import FlatIndex
from radt.memory.index.hnsw import hnsw_index
from radt.memory.index.ivf import ivf_index
from radt.memory.index.protocol import INDEXES, Index, build_index
from radt.memory.index.twin import NumpyIndex
from radt.memory.similarity import GRID, best_first, group, similarity, unit

__all__ = [
    "GRID",
    "INDEXES",
    "FlatIndex",
    "Index",
    "NumpyIndex",
    "auto_index",
    "best_first",
    "build_index",
    "group",
    "hnsw_index",
    "ivf_index",
    "similarity",
    "unit",
]
