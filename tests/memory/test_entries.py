from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radt.memory.entries import DedupOrder, Entries, Halves, cut, deduplicate, key_start
from tests.memory.toy_data import cut_lengths, random_entries


@pytest.mark.parametrize(
    ("length", "expected"),  # (position, start, stop) of each entry, for C = 5
    [
        (1, [(0, 0, 1)]),
        (4, [(0, 0, 4)]),
        (5, [(0, 0, 5)]),
        (6, [(0, 0, 5), (5, 0, 6)]),
        (10, [(0, 0, 5), (5, 0, 10)]),
        (13, [(0, 0, 5), (5, 0, 10), (10, 5, 13)]),
    ],
)
def test_entries_stand_at_every_c_th_step(length: int, expected: list[tuple[int, ...]]) -> None:
    entries = cut_lengths([length], 5)
    found = zip(
        entries.position.tolist(), entries.start.tolist(), entries.stop.tolist(), strict=True
    )
    assert list(found) == expected


def test_the_most_entries_of_one_episode_are_counted() -> None:
    entries = cut_lengths([3, 12, 7, 1], 5)
    assert entries.most_per_episode == 3
    assert entries.rows(entries.episode != 1).most_per_episode == 2
    assert Entries.none().most_per_episode == 0


def test_a_key_embeds_the_c_latest_states() -> None:
    assert key_start(torch.tensor([0, 3, 4, 5, 10, 15]), 5).tolist() == [0, 0, 0, 1, 6, 11]


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=8),
    past=st.integers(1, 12),
    more=st.integers(0, 4),
)
def test_cutting_equals_a_loop(lengths: list[int], past: int, more: int) -> None:
    future = past + more
    numbers = torch.arange(len(lengths))
    returns = numbers.float() / 3
    length, halves = torch.tensor(lengths).long(), Halves(past, future)
    entries = cut(numbers + 7, numbers, numbers + 2, length, returns, halves)
    rows = [
        (e + 7, e, e + 2, t, max(0, t - past), min(length, t + future))
        for e, length in enumerate(lengths)
        for t in range(0, length, past)
    ]
    columns = [entries.task, entries.episode, entries.age]
    columns += [entries.position, entries.start, entries.stop]
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == rows
    assert entries.total_return.tolist() == [returns[row[1]].item() for row in rows]
    for e, length in enumerate(lengths):  # the chunks of an episode cover it to its last step
        own = entries.rows(entries.episode == e)
        assert int(own.start.min()) == 0
        assert int(own.stop.max()) == length


def test_no_entries() -> None:
    none = Entries.none()
    assert len(none) == 0
    some = cut_lengths([7], 5)
    for joined in (none.followed_by(some), some.followed_by(none)):
        for name in Entries.__dataclass_fields__:
            left, right = getattr(joined, name), getattr(some, name)
            assert torch.equal(left, right)
            assert left.dtype == right.dtype
    assert deduplicate(torch.zeros(0, 4), none, 0.98).shape == (0,)


def naive_dedup(keys: Tensor, entries: Entries, threshold: float, order: str) -> list[bool]:
    """Visit entry after entry and compare with each one kept before."""
    rank = -entries.total_return if order == "return" else entries.age
    visits = sorted(range(len(entries)), key=lambda i: (float(rank[i]), i))
    kept: list[int] = []
    directions = keys.double() / keys.double().norm(dim=1, keepdim=True).clamp_min(1e-12)
    for i in visits:
        if not any(
            entries.task[i] == entries.task[j]
            and entries.episode[i] != entries.episode[j]
            and round(float(directions[i] @ directions[j]) * 2**20) / 2**20 > np.float32(threshold)
            for j in kept
        ):
            kept.append(i)
    return [i in kept for i in range(len(entries))]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 25),
    order=st.sampled_from(["return", "chronological"]),
)
def test_deduplication_equals_a_loop(seed: int, count: int, order: DedupOrder) -> None:
    rng = np.random.default_rng(seed)
    blocks = patch("radt.memory.entries.COMPARED_AT_ONCE", 1 + seed % 30)
    keys = torch.from_numpy(rng.integers(-2, 3, (count, 2)).astype(np.float32))
    entries = random_entries(rng, count)
    for threshold in (0.6, 0.98):
        with blocks:
            kept = deduplicate(keys, entries, threshold, order)
        assert kept.tolist() == naive_dedup(keys, entries, threshold, order)


@pytest.mark.parametrize(("order", "kept"), [("return", 2), ("chronological", 0)])
def test_the_order_says_which_duplicate_stays(order: DedupOrder, kept: int) -> None:
    numbers = torch.arange(3)
    zero = torch.zeros_like(numbers)
    returns = torch.tensor([1.0, 0.0, 5.0])
    entries = Entries(zero, numbers, numbers, zero, zero, zero + 1, returns)
    found = deduplicate(torch.ones(3, 2), entries, 0.98, order)
    assert found.tolist() == [i == kept for i in range(3)]
