"""The data types that everything else takes and returns.

`Trajectory` is one finished episode, `SubTrajectory` a cut of it, `Batch` many cuts padded to one
length, and `Retrieval` the full record of one search in a memory: what was found, how it was
scored, why it was dropped, what was chosen.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def _shapes(record: object) -> str:
    """Name a record by the shapes and types of its arrays instead of their contents."""
    parts = []
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray | Tensor):
            kind = str(value.dtype).removeprefix("torch.")
            parts.append(f"{field.name}={kind}{list(value.shape)}")
        else:
            parts.append(f"{field.name}={value!r}")
    return f"{type(record).__name__}({', '.join(parts)})"


def returns_to_go(rewards: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sum the rewards from each step to the end of the last axis, undiscounted (R-hat)."""
    backwards = np.cumsum(rewards[..., ::-1], axis=-1, dtype=np.float64)
    return np.ascontiguousarray(backwards[..., ::-1], dtype=np.float32)


@dataclass(frozen=True, repr=False)
class Trajectory:
    """One episode: in state `states[t]` the agent took `actions[t]` and received `rewards[t]`."""

    states: NDArray[np.generic]  # [T, *state_shape]
    actions: NDArray[np.generic]  # [T] integers, or [T, action_size] floats
    rewards: NDArray[np.float32]  # [T]
    task: int
    episode: int  # position in the task's history, from 0

    def __post_init__(self) -> None:
        lengths = {len(self.states), len(self.actions), len(self.rewards)}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError(
                "a trajectory needs as many states as actions and rewards, and at least one; got "
                f"{len(self.states)}, {len(self.actions)}, {len(self.rewards)}"
            )
        if not np.isfinite(self.rewards).all():
            raise ValueError("a trajectory's rewards must be finite numbers")

    __repr__ = _shapes

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def total_return(self) -> float:
        """The undiscounted sum of all rewards."""
        return float(self.rewards.sum(dtype=np.float64))

    def cut(self, start: int, stop: int) -> SubTrajectory:
        """Return the steps from `start` up to, not including, `stop`, clipped to the episode."""
        return SubTrajectory(self, max(0, start), min(len(self), stop))


@dataclass(frozen=True, repr=False)
class SubTrajectory:
    """Steps `start` to `stop` (excluded) of an episode, whose return and task it remembers."""

    source: Trajectory
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= len(self.source):
            raise ValueError(
                f"steps {self.start}:{self.stop} are not inside an episode of {len(self.source)}"
            )

    __repr__ = _shapes

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, repr=False)
class Batch:
    """Sub-trajectories padded at the end to one length, so that no real step can see padding."""

    states: Tensor  # [B, L, *state_shape]
    actions: Tensor  # [B, L] int64, or [B, L, action_size] float32
    rewards: Tensor  # [B, L]
    returns_to_go: Tensor  # [B, L]
    timesteps: Tensor  # [B, L] int64, counted from the start of the episode
    mask: Tensor  # [B, L] bool, True on real steps

    __repr__ = _shapes

    def __len__(self) -> int:
        return len(self.mask)

    def to(self, device: torch.device) -> Batch:
        """Move every tensor to a device."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))

    def rows(self, index: Tensor) -> Batch:
        """Select rows of the batch."""
        return Batch(*(getattr(self, field.name)[index] for field in fields(self)))

    def put(self, index: Tensor, rows: Batch) -> None:
        """Write other rows of the same length over some of the batch, in place."""
        for field in fields(self):
            getattr(self, field.name)[index] = getattr(rows, field.name)

    def trimmed(self) -> Batch:
        """Drop the steps at the end that are padding in every row, but for one."""
        return self.steps(max(1, int(self.mask.sum(1).max())))

    def steps(self, count: int) -> Batch:
        """Keep only the first `count` steps of every row."""
        return Batch(*(getattr(self, field.name)[:, :count] for field in fields(self)))


class Verdict(enum.IntEnum):
    """What became of a candidate between the search and the choice."""

    CHOSEN = 0
    OUTSCORED = 1  # scored, but not among the top k
    BEYOND_L = 2  # relevant, but not among the top l that are scored
    TOO_SIMILAR = 3  # above the similarity cut-off
    OWN_TRAJECTORY = 4  # the query's own episode
    ABSENT = 5  # the memory held fewer entries than were asked for


@dataclass(frozen=True, repr=False)
class Retrieval:
    """One search per query: candidates by falling relevance, their scores, and the choice."""

    ids: Tensor  # [B, m] int64 entry ids, -1 where absent
    relevance: Tensor  # [B, m] cosine similarity s_rel
    utility: Tensor  # [B, m] s_u before normalisation, 0 until reweighted
    score: Tensor  # [B, m] s_ret, Eq. 4, -inf where not scored
    verdict: Tensor  # [B, m] int64 `Verdict`
    chosen: Tensor  # [B, k] int64 entry ids in the order the policy reads them, -1 where none

    __repr__ = _shapes

    def __len__(self) -> int:
        return len(self.ids)
