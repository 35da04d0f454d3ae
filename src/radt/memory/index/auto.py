"""The index that chooses itself by size, from a measured table.

`radt bench memory` measures one read through every index at several sizes. An exact search is taken
as long as it is about as fast as the fastest one that finds at least 95% of what it finds. The
table is the same for everybody, so that the same entries are searched in the same way everywhere.
"""

from __future__ import annotations

import importlib.util
from functools import partial

from radt.memory.index import hnsw, ivf
from radt.memory.index.approximate import ApproximateIndex, Plan, Stage
from radt.memory.index.protocol import INDEXES

TABLE = (  # so many keys of 64 numbers at most, and how they are searched
    (16_384, "flat"),
    (None, "faiss-ivf"),
)
WIDTH = 64  # a key of other width counts as so many more or fewer
PLANS: dict[str, Plan] = {
    "flat": lambda rows: None,
    "faiss-hnsw": hnsw.plan,
    "faiss-ivf": ivf.plan,
}


def choice(width: int, rows: int) -> str:
    """Name the index for keys of a width, by how many numbers an exact search goes through."""
    size = rows * width / WIDTH
    return next(name for most, name in TABLE if most is None or size <= most)


def plan(width: int, rows: int) -> Stage | None:
    """Name the finder for a number of rows."""
    return PLANS[choice(width, rows)](rows)


def auto_index(width: int) -> ApproximateIndex:
    """Build an index for any size; without Faiss every key is compared."""
    if importlib.util.find_spec("faiss") is None:
        return ApproximateIndex(width, PLANS["flat"])
    return ApproximateIndex(width, partial(plan, width))


INDEXES.register("auto", auto_index)
