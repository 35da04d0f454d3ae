"""A full memory forgets what is worth least, task by task, and never holds more than it may."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.memory.entries import EVICTIONS, Entries, surplus
from radt.memory.memory import Memory, MemoryConfig
from radt.registry import UnknownNameError
from radt.trajectory import Trajectory
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_REACH, histories


def entries_of(task: list[int], total_return: list[float]) -> Entries:
    number = torch.arange(len(task))
    returns = torch.tensor(total_return, dtype=torch.float32)
    return Entries(torch.tensor(task).long(), number, number, number, number, number, returns)


@pytest.mark.parametrize("name", EVICTIONS.names())
@given(
    written=st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), max_size=60),
    capacity=st.integers(1, 20),
)
def test_no_task_keeps_more_than_it_may_and_none_less(
    name: str, written: list[tuple[int, int]], capacity: int
) -> None:
    entries = entries_of([task for task, _ in written], [float(value) for _, value in written])
    gone = surplus(entries, capacity, EVICTIONS[name])
    assert gone.shape == (len(entries),)
    for task in range(4):
        own = (entries.task == task).sum()
        assert (~gone & (entries.task == task)).sum() == min(own, capacity)
    worth = EVICTIONS[name](entries).numpy()
    for task in entries.task.unique().tolist():  # who stays is worth as much, or is newer
        own = np.flatnonzero((entries.task == task).numpy())
        order = own[np.lexsort((own, worth[own]))]
        assert gone[order].tolist() == sorted(gone[order].tolist(), reverse=True)


def test_the_oldest_go_first_and_of_equal_returns_the_oldest() -> None:
    entries = entries_of([0, 1, 0, 0, 1, 0], [5, 1, 2, 2, 9, 3])
    assert surplus(entries, 2, EVICTIONS["oldest"]).tolist() == [1, 0, 1, 0, 0, 0]
    assert surplus(entries, 3, EVICTIONS["lowest-return"]).tolist() == [0, 0, 1, 0, 0, 0]
    assert surplus(entries, 1, EVICTIONS["lowest-return"]).tolist() == [0, 1, 1, 1, 0, 1]


@pytest.mark.parametrize("index", ["flat", "auto"])
@pytest.mark.parametrize("name", EVICTIONS.names())
def test_a_full_memory_never_finds_what_it_forgot(name: str, index: str) -> None:
    config = MemoryConfig(context_len=4, top_l=50, capacity=7, evict=name, index=index)
    memory = Memory(toy_embedder(TOY_REACH.spaces), TOY_REACH.spaces, config)
    lived = histories(TOY_REACH, 6, seed=0, tasks=TOY_REACH.train_tasks[:2])
    seen: dict[int, set[tuple[int, int]]] = {0: set(), 1: set()}
    for trial in range(6):
        for slot, task in enumerate(lived):
            one = lived[task][trial]
            memory.write([Trajectory(one.states, one.actions, one.rewards, slot, trial)])
        for slot in (0, 1):
            own = memory.of_task(slot)
            assert len(own) <= 7
            kept = set(zip(own.episode.tolist(), own.position.tolist(), strict=True))
            seen[slot] |= kept
            slots = torch.tensor([slot])
            ids = memory.retrieve(torch.ones(1, memory.embedder.width), slots, slots).ids[0]
            found = memory.entries.rows(ids[ids >= 0])
            assert set(zip(found.episode.tolist(), found.position.tolist(), strict=True)) == kept
    assert len(memory) == len(memory.index) == 14
    assert all(len(entries) > 7 for entries in seen.values())


def test_what_makes_no_sense_is_refused_before_anything_is_written() -> None:
    with pytest.raises(ValueError, match=r"capacity must lie in 1\.\..*, not 0"):
        MemoryConfig(capacity=0)
    with pytest.raises(UnknownNameError, match="unknown eviction policy 'lowest'"):
        MemoryConfig(evict="lowest")
