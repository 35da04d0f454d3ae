"""Searching on the server: exact among the entries of a task, and quick among all of them.

PostgreSQL uses an index of pgvector only for an order by its operator alone. The exact search
orders by the relevance and then by age, so that no approximate index, let alone one with a filter
after it, can ever answer it. The quick one uses a graph if somebody has made one, and is exact if
not:

    CREATE INDEX ON radt_room.directions USING hnsw (direction vector_ip_ops)
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from pgvector import Vector
from torch import Tensor

from radt.memory.postgres.server import NEIGHBOURS, Connection
from radt.memory.similarity import GRID, best_first, unit

EXACT = """
SELECT asked.n, found.id, found.relevance
FROM unnest(%(vectors)s::vector[], %(tasks)s::bigint[]) WITH ORDINALITY AS asked(vector, task, n)
CROSS JOIN LATERAL (
    SELECT id, round(-(direction <#> asked.vector) * {grid}) / {grid} AS relevance FROM directions
    WHERE {scope} id <= %(newest)s
    ORDER BY relevance DESC, id DESC LIMIT %(k)s
) AS found ORDER BY asked.n, found.id
"""
QUICK = """
SELECT asked.n, found.id, found.relevance
FROM unnest(%(vectors)s::vector[]) WITH ORDINALITY AS asked(vector, n)
CROSS JOIN LATERAL (
    SELECT id, -(direction <#> asked.vector) AS relevance FROM directions
    WHERE id <= %(newest)s ORDER BY direction <#> asked.vector LIMIT %(k)s
) AS found ORDER BY asked.n, found.id
"""
IN_TASK = EXACT.format(grid=GRID, scope="task = asked.task AND")
ANYWHERE = EXACT.format(grid=GRID, scope="")


def search(
    connection: Connection, queries: Tensor, k: int, partition: Tensor | None, newest: int
) -> tuple[Tensor, Tensor]:
    """Find the k best entries up to the `newest` id of each query's task, or of all tasks.

    Returns relevance and ids of the server, both [B, k], best first; absent: -inf and -1.
    """
    directions = unit(queries).float().numpy()
    values = {
        "vectors": [Vector(direction) for direction in directions],
        "tasks": [0] * len(queries) if partition is None else partition.tolist(),
        "newest": newest,
        "k": k,
    }
    asked = IN_TASK if partition is not None else QUICK if 2 * k <= NEIGHBOURS else ANYWHERE
    found = connection.execute(asked, values, binary=True).fetchall()
    if asked is QUICK and len(found) < k * len(queries):  # few entries, or many newer ones
        found = connection.execute(ANYWHERE, values, binary=True).fetchall()
    return _arranged(np.array(found, np.float64).reshape(-1, 3), len(queries), k)


def _arranged(found: NDArray[np.float64], rows: int, k: int) -> tuple[Tensor, Tensor]:
    """Lay what was found, by row and id, into [B, k], best first and of equal ones the newest."""
    row = found[:, 0].astype(np.int64) - 1
    column = np.arange(len(row)) - np.searchsorted(row, row)
    scores = torch.full((rows, k), -torch.inf)
    ids = torch.full((rows, k), -1)
    scores[row, column] = torch.from_numpy((found[:, 2] * GRID).round() / GRID).float()
    ids[row, column] = torch.from_numpy(found[:, 1]).long()
    best, order = best_first(scores, k)
    return best, ids.gather(1, order)
