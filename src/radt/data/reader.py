"""Reading a dataset: the table of its episodes, and windows of them as batches.

All steps of the chosen tasks are thought of as one long sequence. It lies in RAM where it fits half
of what is free; else windows come from the chunked files, which each process opens for itself.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from radt.data.manifest import Manifest, TaskFile, read_manifest, unusable
from radt.data.store import History, open_task, open_task_here
from radt.room import free_memory
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory, returns_to_go

IMAGE_BYTES = 2**30  # more images than that stay on disk: they are read to be encoded, once
_OUTPUT = {"image": np.uint8, "vector": np.float32, "encoded": np.float32, "discrete": np.int64}


@dataclass(frozen=True)
class Episodes:
    """All complete episodes, task after task, each task's in the order they were made."""

    task: NDArray[np.int64]  # [E]
    index: NDArray[np.int64]  # [E] position in the task's history, from 0
    start: NDArray[np.int64]  # [E] offset of the first step in the task's arrays
    length: NDArray[np.int64]  # [E]
    total_return: NDArray[np.float32]  # [E]
    level: NDArray[np.int64]  # [E] which of its task's levels; -1 where there are none

    def __len__(self) -> int:
        return len(self.task)

    def rows(self, chosen: NDArray[Any]) -> Episodes:
        """Select episodes by a mask or by positions."""
        return Episodes(*(getattr(self, item.name)[chosen] for item in fields(self)))

    @cached_property
    def same_level(self) -> SameLevel:
        """The episodes in sequences of one task and one level."""
        order = np.lexsort((self.index, self.level, self.task))  # [E]
        task, level = self.task[order], self.level[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (np.diff(task) != 0) | (np.diff(level) != 0)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))  # [E]
        return SameLevel(order, place, place - first[place])


class SameLevel(NamedTuple):
    """Episodes by task and level, each sequence in the order they were made."""

    order: NDArray[np.int64]  # [E] rows of the table, one sequence after the other
    place: NDArray[np.int64]  # [E] where each row stands in `order`
    before: NDArray[np.int64]  # [E] how many of its sequence stand before each row


class Steps(NamedTuple):
    """Steps as they are stored: all of them in RAM, [N], or windows, [B, L]."""

    states: NDArray[Any]  # [..., *state_shape]
    actions: NDArray[Any]  # [..., *action_shape]
    rewards: NDArray[np.float32]  # [...]
    returns_to_go: NDArray[np.float32]  # [...]

    @classmethod
    def zeros(cls, spaces: TaskSpaces, *shape: int) -> Steps:
        return cls(
            np.zeros((*shape, *spaces.state.shape), spaces.state.dtype),
            np.zeros((*shape, *spaces.action.shape), spaces.action.dtype),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
        )

    def read(self, first: NDArray[Any], remaining: NDArray[Any], length: int) -> Steps:
        """Gather windows from `first`, whose episodes go on for `remaining` steps, [N] -> [B, L].

        Behind its end an episode's last step is repeated.
        """
        step = np.minimum(np.arange(length), remaining[:, None] - 1)  # [B, L]
        index = first[:, None] + step
        return Steps(*(field.take(index, axis=0) for field in self))


@dataclass(frozen=True, repr=False)
class OnDisk:
    """Every step in its task's file; a batch of windows is some reads of a few chunks each."""

    folder: Path
    spaces: TaskSpaces
    files: tuple[TaskFile, ...]
    offset: NDArray[np.int64]  # [tasks] place of each file's first step in the sequence

    def read(self, first: NDArray[Any], remaining: NDArray[Any], length: int) -> Steps:
        """Read windows in the order they lie on disk; what is behind an episode's end is 0."""
        steps = Steps.zeros(self.spaces, len(first), length)
        files = np.searchsorted(self.offset, first, side="right") - 1  # [B]
        for row in np.argsort(first, kind="stable"):
            task = open_task_here(self.folder, self.files[files[row]], self.spaces)
            start = int(first[row] - self.offset[files[row]])
            count = min(length, int(remaining[row]))
            for name in ("states", "actions"):
                getattr(steps, name)[row, :count] = task.read(name, start, start + count)
            rewards = task.read("rewards", start, start + int(remaining[row]))
            steps.rewards[row, :count] = rewards[:count]
            steps.returns_to_go[row, :count] = returns_to_go(rewards)[:count]
        return steps


@dataclass(frozen=True, repr=False)
class Dataset:
    """The learning histories of some tasks, read as episodes and windows of them."""

    manifest: Manifest
    tasks: tuple[int, ...]
    episodes: Episodes
    _first: NDArray[np.int64]  # [E] place of each episode's first step in the sequence
    _steps: Steps | OnDisk

    @classmethod
    def open(
        cls,
        folder: Path | str,
        tasks: Collection[int] | None = None,
        in_memory: bool | None = None,
    ) -> Dataset:
        """Open a finished dataset, or some of its tasks; None puts it into RAM if it fits."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        chosen = _choose([entry.task for entry in manifest.files], tasks)
        files = tuple(entry for entry in manifest.files if entry.task in chosen)
        if in_memory is None:
            needed = memory_needed(manifest.spaces, files)
            is_image = manifest.spaces.state.kind == "image"
            in_memory = needed <= free_memory() // 2 and not (is_image and needed > IMAGE_BYTES)
        steps, tables = _load(folder, manifest.spaces, files, in_memory)
        episodes = Episodes(
            *(np.concatenate([getattr(t, item.name) for t in tables]) for item in fields(Episodes))
        )
        first = episodes.start + np.repeat(_offsets(files), [len(table) for table in tables])
        return cls(manifest, tuple(entry.task for entry in files), episodes, first, steps)

    def __repr__(self) -> str:
        place = "in RAM" if self.in_memory else "on disk"
        contents = f"{len(self.tasks)} tasks, {len(self)} episodes"
        return f"Dataset({self.manifest.env}, {contents}, {place})"

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def spaces(self) -> TaskSpaces:
        return self.manifest.spaces

    @property
    def sha256(self) -> str:
        """The hash of the whole dataset, whichever of its tasks are chosen."""
        return self.manifest.sha256

    @property
    def in_memory(self) -> bool:
        return isinstance(self._steps, Steps)

    def select(self, tasks: Collection[int]) -> Dataset:
        """Choose some of the tasks; the steps are shared, not copied."""
        chosen = _choose(self.tasks, tasks)
        left = tuple(task for task in self.tasks if task in chosen)
        return self._kept(np.isin(self.episodes.task, sorted(chosen)), left)

    def thinned(self, every: int) -> Dataset:
        """Keep every n-th episode of each task, from the first on; the steps are shared."""
        if every < 1:
            raise ValueError(f"every n-th episode needs n of at least 1, not {every}")
        return self._kept(self.episodes.index % every == 0, self.tasks)

    def _kept(self, kept: NDArray[np.bool_], tasks: tuple[int, ...]) -> Dataset:
        episodes, first = self.episodes.rows(kept), self._first[kept]
        return Dataset(self.manifest, tasks, episodes, first, self._steps)

    def windows(self, episode_rows: ArrayLike, start: ArrayLike, length: int) -> Batch:
        """Cut `length` steps from each episode, fewer and padded where the episode ends."""
        rows, begin = _whole_numbers(episode_rows, start)
        if length < 1:
            raise ValueError(f"a window needs a length of at least 1, not {length}")
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(
                f"episode rows {rows.min()}..{rows.max()} are not in 0..{len(self) - 1}"
            )
        remaining = self.episodes.length[rows] - begin  # [B]
        if rows.size and (begin.min() < 0 or remaining.min() < 1):
            raise ValueError(
                "a window must start inside its episode, 0 <= start < length; got start "
                f"{begin[(begin < 0) | (remaining < 1)][0]}"
            )
        steps = self._steps.read(self._first[rows] + begin, remaining, length)
        return self._batch(steps, begin, remaining, length)

    def trajectory(self, episode_row: int) -> Trajectory:
        batch = self.windows([episode_row], [0], int(self.episodes.length[episode_row]))
        return Trajectory(
            batch.states[0].numpy(),
            batch.actions[0].numpy(),
            batch.rewards[0].numpy(),
            int(self.episodes.task[episode_row]),
            int(self.episodes.index[episode_row]),
        )

    def history(self, task: int) -> History:
        """Read all complete episodes of one task as they are stored, in order."""
        rows = np.flatnonzero(self.episodes.task == task)
        if task not in self.tasks or not rows.size:
            raise ValueError(f"task {task} has no complete episode among the chosen tasks")
        if (np.diff(self.episodes.index[rows]) != 1).any():
            raise ValueError(f"the history of task {task} was thinned out; open the whole dataset")
        lengths = self.episodes.length[rows]
        count = int(lengths.sum())
        steps = self._steps.read(self._first[rows[:1]], np.array([count]), count)
        levels = self.episodes.level[rows].astype(np.int32)
        return History(
            *(task, steps.states[0], steps.actions[0], steps.rewards[0]),
            lengths.astype(np.int32),
            levels if (levels >= 0).all() else None,
        )

    def _batch(
        self, steps: Steps, start: NDArray[Any], remaining: NDArray[Any], length: int
    ) -> Batch:
        """Give steps their output types, and zeros behind the end."""
        step = np.arange(length)
        mask = step < remaining[:, None]  # [B, L]
        action_type = np.int64 if self.spaces.action.kind == "discrete" else np.float32
        values = [
            steps.states.astype(_OUTPUT[self.spaces.state.kind], copy=False),
            steps.actions.astype(action_type, copy=False),
            steps.rewards,
            steps.returns_to_go,
            start[:, None] + step,
        ]
        if not mask.all():
            for field in values:
                field[~mask] = 0
        return Batch(*map(torch.from_numpy, [*values, mask]))


def memory_needed(spaces: TaskSpaces, files: Sequence[TaskFile]) -> int:
    """Count the bytes that the steps of these files take in RAM, returns-to-go included."""
    state, action = spaces.state, spaces.action
    step = math.prod(state.shape) * state.dtype.itemsize + 8
    step += math.prod(action.shape) * action.dtype.itemsize
    return step * sum(entry.transitions for entry in files)


def _load(
    folder: Path, spaces: TaskSpaces, files: tuple[TaskFile, ...], in_memory: bool
) -> tuple[Steps | OnDisk, list[Episodes]]:
    """Read every file's table of episodes and, if asked for, all its steps."""
    offset = _offsets(files)
    count = sum(entry.transitions for entry in files)
    memory = Steps.zeros(spaces, count) if in_memory else None
    tables = []
    for entry, begin in zip(files, offset, strict=True):
        with contextlib.closing(open_task(folder, entry, spaces)) as task:
            rewards = task.read("rewards")
            lengths = task.read("lengths").astype(np.int64)
            if lengths.sum() > entry.transitions:
                raise unusable(folder / entry.file, "its episodes are longer than its history")
            to_go = returns_to_go_by_episode(rewards, lengths)
            start = np.cumsum(lengths) - lengths
            same_task = np.full(len(lengths), entry.task, np.int64)
            index = np.arange(len(lengths))
            told = "levels" in task.arrays
            levels = task.read("levels").astype(np.int64) if told else np.full_like(index, -1)
            tables.append(Episodes(same_task, index, start, lengths, to_go[start], levels))
            if memory:
                place = slice(begin, begin + entry.transitions)
                memory.states[place] = task.read("states")
                memory.actions[place] = task.read("actions")
                memory.rewards[place] = rewards
                memory.returns_to_go[place] = to_go
    return memory or OnDisk(folder.absolute(), spaces, files, offset), tables


def returns_to_go_by_episode(
    rewards: NDArray[np.float32], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Sum each episode's rewards to its end, all episodes of one length at a time."""
    to_go = np.zeros_like(rewards)  # [N], 0 behind the last complete episode
    start = np.cumsum(lengths) - lengths
    for length in np.unique(lengths):
        index = start[lengths == length][:, None] + np.arange(length)  # [episodes, length]
        to_go[index] = returns_to_go(rewards[index])
    return to_go


def _offsets(files: Sequence[TaskFile]) -> NDArray[np.int64]:
    return np.cumsum([0, *(entry.transitions for entry in files)], dtype=np.int64)[:-1]


def _choose(known: Sequence[int], tasks: Collection[int] | None) -> set[int]:
    chosen = set(known if tasks is None else map(int, tasks))
    if not chosen:
        raise ValueError("choose at least one task")
    if not chosen <= set(known):
        raise ValueError(
            f"tasks {sorted(chosen - set(known))[:8]} are not in this dataset of {len(known)} "
            f"tasks ({', '.join(map(str, known[:8]))}, ...)"
        )
    return chosen


def _whole_numbers(rows: ArrayLike, start: ArrayLike) -> tuple[NDArray[np.int64], ...]:
    given = [np.asarray(values) for values in (rows, start)]
    shapes = [values.shape for values in given]
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        raise ValueError(f"episode rows and starts must be two lists of one length, not {shapes}")
    if any(values.size and values.dtype.kind not in "iu" for values in given):
        raise ValueError("episode rows and starts must be whole numbers")
    return tuple(values.astype(np.int64) for values in given)
