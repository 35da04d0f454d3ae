"""What "similar" means (Eq. 3): the cosine of two vectors, and which of many come first.

Similarities are rounded to a grid of 2^-20, so that equal keys tie in every implementation and
ties go to the newest entry. All exact searches then agree with each other bit for bit.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

GRID = 2.0**20
SHORTEST = 1e-12  # the length that shorter vectors are taken to have
NO_NUMBER = "a key or query holds NaN or infinity; check the embedder's input"


def with_length(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return vectors in double precision and their lengths, [..., 1]; refuse NaN and infinity."""
    vectors = vectors.double()
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    if not math.isfinite(float(length.sum())):
        raise ValueError(NO_NUMBER)
    return vectors, length.clamp_min(SHORTEST)


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1 in double precision; the zero vector stays and resembles none."""
    vectors, length = with_length(vectors)
    return vectors / length


def similarity(queries: Tensor, keys: Tensor) -> Tensor:
    """Cosine of unit vectors on the grid: [..., B, d] and [..., N, d] -> [..., B, N] float32."""
    return on_grid(queries @ keys.transpose(-1, -2))


def on_grid(cosine: Tensor) -> Tensor:
    """Round cosines in double precision to the grid, as float32."""
    return (cosine * GRID).round_().div_(GRID).float()


def best_first(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best scores on the grid of each row and their columns; ties go to the last.

    The last is the newest: an agent that goes on must be able to find what it did lately.
    """
    count = scores.shape[1]
    column = torch.arange(count, device=scores.device)
    rank = scores.double().mul_(GRID * count).add_(column)  # whole numbers, so no two are equal
    best = rank.topk(min(k, count), dim=1).indices
    return scores.gather(1, best), best


def group(partition: Tensor, partitions: int = 0) -> Tensor:
    """Turn a partition number per id, [N], into rising ids per partition, [P, longest], then -1.

    There are at least so many `partitions`, whether or not all of them have ids.
    """
    if not len(partition):
        return torch.full((partitions, 0), -1)
    count = torch.bincount(partition, minlength=partitions)
    order = torch.sort(partition, stable=True).indices
    column = torch.arange(len(partition)) - (count.cumsum(0) - count)[partition[order]]
    table = torch.full((len(count), int(count.max())), -1)
    table[partition[order], column] = order
    return table
