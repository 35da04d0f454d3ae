"""What an index refuses, before anything has changed."""

from __future__ import annotations

import torch
from torch import Tensor


def check_new(
    keys: Tensor, partition: Tensor, ids: Tensor | None, width: int, newest: int
) -> Tensor:
    """Return the ids of new keys [n, d]: those given, or the numbers after the newest one."""
    count = len(keys)
    _check_vectors("keys", keys, width)
    _check_numbers("partition", partition, count)
    if ids is None:
        return torch.arange(newest + 1, newest + 1 + count)
    _check_numbers("ids", ids, count)
    ids = ids.cpu().long()
    after = torch.cat([torch.tensor([newest]), ids[:-1]])
    if bool((wrong := ids <= after).any()):
        raise ValueError(
            f"ids must rise and never come twice, but {int(ids[wrong][0])} follows "
            f"{int(after[wrong][0])}; number entries in the order they are written"
        )
    return ids


def check_queries(queries: Tensor, k: int, partition: Tensor | None, width: int) -> None:
    """Refuse queries of another shape than [B, d], and numbers that make no sense."""
    _check_vectors("queries", queries, width)
    if k < 1:
        raise ValueError(f"a search needs k of at least 1, not {k}")
    if partition is not None and partition.shape != (len(queries),):
        raise ValueError(
            f"{len(queries)} queries came with a partition of shape {list(partition.shape)}; give "
            "one number for each"
        )


def check_known(ids: Tensor, there: Tensor) -> None:
    """Refuse to remove ids [n] that are not all `there` [n]."""
    if not bool(there.all()):
        raise ValueError(
            f"there is no entry {int(ids[~there][0])} to remove; give ids that a search can find"
        )


def _check_vectors(name: str, vectors: Tensor, width: int) -> None:
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise ValueError(
            f"{name} must have the shape [n, {width}], not {list(vectors.shape)}; was another "
            "embedder used?"
        )


def _check_numbers(name: str, numbers: Tensor, count: int) -> None:
    if numbers.shape != (count,) or numbers.is_floating_point():
        raise ValueError(
            f"{name} must be {count} whole numbers, one for each key, not {numbers.dtype} of shape "
            f"{list(numbers.shape)}"
        )
    if count and int(numbers.min()) < 0:
        raise ValueError(f"{name} must be 0 or more, not {int(numbers.min())}")
