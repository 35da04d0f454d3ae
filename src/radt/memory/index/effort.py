"""How hard a finder has to look, by measurement: until it finds what an exact search finds."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from radt.memory.index.approximate import Finder
from radt.memory.index.few import best_of_few, directions_of
from radt.memory.index.scan import nearest
from radt.memory.index.table import KeyTable

NEIGHBOURS = 50  # by which the share that is found is measured
SAMPLED = 128  # rows that take part as queries
BLEND = 0.1  # weight of another row in a query: nobody asks for exactly what is stored
ENOUGH = 0.97  # share of the neighbours that has to be found
CLOSE = 1e-6  # what is this close to the last neighbour counts as one


class AdjustableFinder(Finder, Protocol):
    """A finder that can look harder."""

    effort: int  # the more, the more it finds


def measure_effort(finder: AdjustableFinder, table: KeyTable, most: int) -> None:
    """Double the effort, up to `most`, until enough of the nearest covered rows are found."""
    sample = table.directions(evenly(finder.covered, SAMPLED))  # [SAMPLED, d]
    queries = directions_of((1 - BLEND) * sample + BLEND * sample.roll(1, 0))
    last = nearest(table, queries, NEIGHBOURS, range(finder.covered))[0][:, -1:]  # [SAMPLED, 1]
    while True:
        named = finder.raw(queries.astype(np.float32), finder.wanted(NEIGHBOURS))
        scores, _ = best_of_few(table, queries, np.sort(named, axis=1), NEIGHBOURS)
        finder.found = float((scores >= last - CLOSE).mean())
        if finder.found >= ENOUGH or finder.effort >= most:
            break
        finder.effort = min(2 * finder.effort, most)


def evenly(rows: int, count: int) -> NDArray[np.int64]:
    """Choose so many of the first rows, at equal distances; all if there are not more."""
    return np.linspace(0, rows - 1, min(rows, count)).astype(np.int64)
