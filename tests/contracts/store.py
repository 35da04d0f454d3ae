"""What every store must do, as functions of one that holds known trajectories."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from radt.memory.entries import stack
from radt.memory.store import Chunks
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory

MakeStore = Callable[[Sequence[Trajectory], int], Chunks]  # trajectories, context_len
FIELDS = ("states", "actions", "rewards", "returns_to_go", "timesteps")


def assert_same_steps(one: Batch, other: Batch) -> None:
    """Two batches have the same real steps at the same places."""
    assert torch.equal(one.mask, other.mask)
    for name in FIELDS:
        left, right = getattr(one, name), getattr(other, name)
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
        assert torch.equal(left[one.mask], right[one.mask]), name


def check_chunks(make: MakeStore, lived: Sequence[Trajectory], spaces: TaskSpaces) -> None:
    """The chunk of an entry at t holds the steps [t - C, t + C) of its trajectory."""
    for context_len in (1, 5, 100):
        store = make(lived, context_len)
        entries = store.entries
        chunks = store.chunks(torch.arange(len(entries))[:, None])
        source = [lived[int(episode)] for episode in entries.episode]
        pieces = [
            trajectory.cut(int(t) - context_len, int(t) + context_len)
            for trajectory, t in zip(source, entries.position, strict=True)
        ]
        assert_same_steps(chunks, stack(pieces, spaces, 2 * context_len))
        assert entries.task.tolist() == [t.task for t in source]
        assert entries.age.tolist() == [t.episode for t in source]
        expected = torch.tensor([t.total_return for t in source])
        torch.testing.assert_close(entries.total_return, expected)


def check_several_and_none(make: MakeStore, lived: Sequence[Trajectory]) -> None:
    """Chunks of one row stand one after the other; -1 gives padding."""
    store = make(lived, 5)
    last = len(store.entries) - 1
    one_by_one = store.chunks(torch.tensor([[2], [0], [last]]))
    joined = store.chunks(torch.tensor([[2, -1, 0], [-1, -1, last]]))
    assert joined.mask.shape == (2, 3 * 10)
    blank = torch.zeros(10, dtype=torch.bool)
    masks = one_by_one.mask
    assert torch.equal(joined.mask[0], torch.cat([masks[0], blank, masks[1]]))
    assert torch.equal(joined.mask[1], torch.cat([blank, blank, masks[2]]))
    for name in FIELDS:
        left, right = getattr(joined, name), getattr(one_by_one, name)
        assert torch.equal(left[joined.mask], right[masks]), name


def check_empty(make: MakeStore, empty: Chunks, lived: Sequence[Trajectory]) -> None:
    """A store without entries still gives padding of the right types and shapes."""
    nothing = torch.full((3, 2), -1)
    padding, like = empty.chunks(nothing), make(lived, 5).chunks(nothing)
    assert not padding.mask.any()
    for name in FIELDS:
        left, right = getattr(padding, name), getattr(like, name)
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
