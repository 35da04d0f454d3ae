"""Which windows of the data a method sees: ends uniform over all steps of all episodes.

Most steps of a long episode are spent on its goal, so such windows show little of how it was
reached. A share of windows may be the first C steps of an episode instead.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data.reader import Dataset
from radt.old_names import FIELDS
from radt.trajectory import Batch


@dataclass(frozen=True)
class Windows:
    """Windows of at most C steps, each named by its episode, first step and end (excluded)."""

    episode: NDArray[np.int64]  # [B] rows of the dataset's table of episodes
    start: NDArray[np.int64]  # [B]
    stop: NDArray[np.int64]  # [B]


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """What every method can be told about its windows; the defaults take all alike."""

    top_fraction: float = 1.0  # learn from this share of each task's episodes, by return
    min_return: float = 0.0  # and only from those that earned this share of the most of all
    start_windows: float = 0.0  # share of windows from the start of an episode
    translate: float = 0.0  # share of windows that are shifted on the grid (see transforms.py)

    def __init_subclass__(cls) -> None:
        for name in inspect.get_annotations(cls):
            if FIELDS.get(name) in WindowOptions.__annotations__:
                raise TypeError(f"{cls.__name__}.{name} has another name: call it {FIELDS[name]}")

    def __post_init__(self) -> None:
        if not 0 < self.top_fraction <= 1:
            raise ValueError(f"top_fraction must lie in (0, 1], not {self.top_fraction}")
        for name in ("min_return", "start_windows", "translate"):
            check_share(name, getattr(self, name))


def check_share(name: str, share: float) -> None:
    """Refuse what is no share."""
    if not 0 <= share <= 1:
        raise ValueError(f"{name} must be a share in [0, 1], not {share}")


class WindowSampler:
    """Draws windows of the episodes that the options choose."""

    def __init__(self, dataset: Dataset, context_len: int, options: WindowOptions) -> None:
        self.dataset, self.context_len = dataset, context_len
        self.start_windows = options.start_windows
        best = top_episodes(dataset, options.top_fraction)
        self.episodes = earned_enough(dataset, best, options.min_return)  # [E']
        self._ends = np.cumsum(dataset.episodes.length[self.episodes])  # [E']

    def draw(self, size: int, rng: np.random.Generator) -> Windows:
        """Draw an episode by its length and the window's end uniformly in 1..T, or at C."""
        step = rng.integers(self._ends[-1], size=size)  # a step of all steps of all episodes
        which = np.searchsorted(self._ends, step, side="right")
        episode = self.episodes[which]
        length = self.dataset.episodes.length[episode]
        stop = length - (self._ends[which] - step) + 1
        if self.start_windows:
            first = rng.random(size) < self.start_windows
            stop = np.where(first, np.minimum(length, self.context_len), stop)
        return Windows(episode, np.maximum(stop - self.context_len, 0), stop)

    def read(self, windows: Windows) -> Batch:
        """Read the steps of windows, [B, C], padded at the end."""
        batch = self.dataset.windows(windows.episode, windows.start, self.context_len)
        return up_to(batch, windows.stop)

    def valid(self, windows: Windows) -> Tensor | None:
        """Mark the dimensions of padded continuous actions that count, [B, action_size]."""
        padding = self.dataset.spaces.padding(self.dataset.episodes.task[windows.episode])
        return None if padding is None else torch.from_numpy(~padding)


def up_to(batch: Batch, stop: NDArray[np.int64]) -> Batch:
    """Hide each row's steps from `stop` [B] on."""
    inside = batch.timesteps < torch.from_numpy(stop)[:, None]
    return replace(batch, mask=batch.mask & inside).trimmed()


def rewards_before(rewards: Tensor) -> Tensor:
    """Count the rewarded steps before each step, [B, L]."""
    paid = (rewards > 0).long()
    return paid.cumsum(1) - paid


def earned_enough(
    dataset: Dataset, rows: NDArray[np.int64], min_return: float
) -> NDArray[np.int64]:
    """Keep the episodes that earned a share of the most that any did."""
    if not min_return:
        return rows
    episodes = dataset.episodes
    earned = dataset.spaces.above_lowest(episodes.total_return, episodes.length)
    enough: NDArray[np.int64] = rows[earned[rows] >= min_return * earned.max()]
    if not len(enough):
        raise ValueError(
            f"no episode earned min_return={min_return:g} of the most that any did, "
            f"{earned.max():g} above the lowest return; lower it, or let the suite say "
            "what its lowest return is"
        )
    return enough


def top_episodes(dataset: Dataset, fraction: float) -> NDArray[np.int64]:
    """Return the rows of each task's best episodes, in the order of the table.

    These are the ones that earned most and, of equal ones, those that needed fewer steps.
    """
    episodes = dataset.episodes
    if fraction == 1:
        return np.arange(len(episodes))
    rows = []
    for task in np.unique(episodes.task):
        own = np.flatnonzero(episodes.task == task)
        best = np.lexsort((episodes.length[own], -episodes.total_return[own]))
        rows.append(own[best[: max(1, round(fraction * len(own)))]])
    return np.sort(np.concatenate(rows))


def whole_episodes(dataset: Dataset, rows: NDArray[np.int64]) -> Batch:
    """Read whole episodes, [B, T]; a row of -1 stays empty."""
    present = rows >= 0
    some = np.maximum(rows, 0)
    longest = int(dataset.episodes.length[some].max())
    batch = dataset.windows(some, np.zeros_like(some), longest)
    batch.mask[torch.from_numpy(~present)] = False
    return batch
