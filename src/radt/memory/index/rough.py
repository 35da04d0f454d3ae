"""Which keys may be among the best, by a look in single precision.

Rounding can move a cosine by no more than a known margin. So a key that is farther than this behind
the k-th best cannot be among the k best, and all but a few are out of the question.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.index.table import KeyTable, Rows
from radt.memory.similarity import GRID

GROUP = 32  # cosines of which only the largest counts when the k-th is estimated
LOWEST = -2.0  # below every cosine, but above the -inf of a removed key
Directions = NDArray[np.float64]  # unit vectors [B, d]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]  # query, column of a block; both rising


def candidates(
    table: KeyTable, directions: Directions, k: int, block: Rows, floor: NDArray[np.float32]
) -> Pairs:
    """Find the keys of a block that may be among the k best of unit vectors [B, d].

    Only those count that may reach the `floor` [B]: so much was found elsewhere already.
    """
    keys, factor = table.scaled(block)
    queries = torch.from_numpy(directions.astype(np.float32)).to(table.device)
    cosine = (queries @ keys.T).mul_(factor)  # [B, n]
    if table.removed:
        cosine.masked_fill_(~table.living(block), -torch.inf)
    reached = torch.maximum(_reached_by(cosine, k), torch.from_numpy(floor).to(cosine.device))
    reached = reached.sub_(margin(table.width)).clamp_min_(LOWEST)
    query, column = divmod(np.flatnonzero((cosine >= reached[:, None]).cpu().numpy()), len(keys))
    return query, column


def _reached_by(cosine: Tensor, k: int) -> Tensor:
    """Return a value that at least k cosines of each row reach, close to the k-th best: [B]."""
    rows, count = cosine.shape
    if count < k:
        return cosine.new_full((rows,), -torch.inf)
    if (groups := count // GROUP) > 2 * k:
        cosine = cosine[:, : groups * GROUP].unflatten(1, (GROUP, groups)).amax(1)
    return cosine.topk(k, sorted=False).values.amin(1)


def candidates_of_one(
    table: KeyTable, direction: NDArray[np.float64], k: int, block: Rows, floor: float
) -> NDArray[np.int64]:
    """Do the same for one query [d] in NumPy, which takes half the time where little is done."""
    keys, factor = table.scaled_arrays(block)
    cosine: NDArray[np.float32] = keys @ direction.astype(np.float32)  # [n]
    cosine *= factor
    if table.removed:
        cosine[~table.living(block).numpy()] = -np.inf
    largest, count = cosine, len(cosine)
    if (groups := count // GROUP) > 2 * k:
        largest = cosine[: groups * GROUP].reshape(GROUP, groups).max(0)
    if count >= k:
        floor = max(floor, float(np.partition(largest, len(largest) - k)[-k]))
    column: NDArray[np.int64] = (cosine >= max(floor - margin(table.width), LOWEST)).nonzero()[0]
    return column


def margin(width: int) -> float:
    """How much lower than the k-th best a cosine in single precision may be and still beat it.

    A sum of d products of unit vectors is wrong by at most d roundings, whatever their order.
    """
    rounding = (width + 8) * 2.0**-24
    return 2 * rounding + 1 / GRID
