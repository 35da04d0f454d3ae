"""A map of a memory: its keys projected on two axes, so that one can see what lies near what.

Keys are compared by their direction, so the map is made of directions: their two principal axes,
by an exact decomposition, which needs no seed. A map that follows another one is turned, so that
what was known before stays where it was as far as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from radt.memory.similarity import unit


@dataclass(frozen=True)
class KeyMap:
    """Two axes through the middle of some keys."""

    middle: NDArray[np.float64]  # [d]
    axes: NDArray[np.float64]  # [d, 2]

    def places(self, vectors: Tensor) -> NDArray[np.float64]:
        """Project keys or queries, [N, d] -> [N, 2]."""
        return np.asarray((_directions(vectors) - self.middle) @ self.axes)

    def turned_to(self, other: KeyMap, keys: Tensor) -> KeyMap:
        """Turn or mirror the axes so that keys [N, d] lie as they do in the other map."""
        ours, theirs = self.places(keys), other.places(keys)
        if not ours.any() or not theirs.any():
            return self
        turn, _ = orthogonal_procrustes(ours, theirs - theirs.mean(axis=0))
        return KeyMap(self.middle, self.axes @ turn)


def fit_map(keys: Tensor) -> KeyMap:
    """Find the two directions in which keys [N, d] differ most."""
    axes = np.zeros((keys.shape[1], 2))
    if not len(keys):
        return KeyMap(axes[:, 0], axes)
    directions = _directions(keys)  # [N, d]
    middle = directions.mean(axis=0)
    _, _, principal = np.linalg.svd(directions - middle, full_matrices=False)
    found = principal[:2].T  # [d, <=2]
    largest = np.abs(found).argmax(axis=0)
    signs = np.where(found[largest, np.arange(found.shape[1])] < 0, -1.0, 1.0)
    axes[:, : found.shape[1]] = found * signs  # a decomposition leaves the sign open
    return KeyMap(middle, axes)


def _directions(vectors: Tensor) -> NDArray[np.float64]:
    return np.asarray(unit(torch.as_tensor(vectors)).numpy())
