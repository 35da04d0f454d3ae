from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from radt.envs.suite import TaskSuite
from radt.memory.entries import Halves, stack
from radt.memory.store import DatasetStore
from radt.trajectory import Trajectory
from tests.contracts import store as contract
from tests.memory.stores import KINDS, identity, keys_of, open_kind, some_trajectories, write
from tests.memory.toy_data import write_toys
from tests.toys import TOY_GRID, TOY_REACH, TOYS

SUITES = pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
READABLE = pytest.mark.parametrize("kind", [*KINDS, "dataset"])
WRITABLE = pytest.mark.parametrize("kind", KINDS)


def maker(kind: str, suite: TaskSuite, folder: Path) -> contract.MakeStore:
    counter = itertools.count()

    def make(lived, context_len: int):
        if kind != "dataset":
            place = folder / str(next(counter))
            store = open_kind(kind, place, suite.spaces, context_len)
            for trajectory in lived:
                write(store, [trajectory], identity(suite.spaces, context_len))
            return store
        by_task: dict[int, list[Trajectory]] = {}
        for trajectory in lived:
            by_task.setdefault(trajectory.task, []).append(trajectory)
        return DatasetStore(write_toys(folder, suite, by_task), Halves(context_len, context_len))

    return make


@SUITES
@READABLE
def test_contract(kind: str, suite: TaskSuite, tmp_path: Path) -> None:
    make, lived = maker(kind, suite, tmp_path), some_trajectories(suite)
    contract.check_chunks(make, lived, suite.spaces)
    contract.check_several_and_none(make, lived)
    empty = make(lived, 5)
    empty.keep(torch.zeros(len(empty.entries), dtype=torch.bool))
    contract.check_empty(make, empty, lived)


@SUITES
@WRITABLE
def test_every_store_gives_the_chunks_of_the_dataset(
    kind: str, suite: TaskSuite, tmp_path: Path
) -> None:
    lived = some_trajectories(suite)
    stores = [maker(each, suite, tmp_path)(lived, 4) for each in (kind, "dataset")]
    for name in stores[0].entries.__dataclass_fields__:
        one, other = (getattr(store.entries, name) for store in stores)
        assert torch.equal(one, other), name
    ids = torch.arange(len(stores[0].entries)).reshape(-1, 1).repeat(1, 2)
    contract.assert_same_steps(stores[0].chunks(ids), stores[1].chunks(ids))


@READABLE
def test_keeping_some_entries(kind: str, tmp_path: Path) -> None:
    store = maker(kind, TOY_GRID, tmp_path)(some_trajectories(TOY_GRID), 4)
    before = store.chunks(torch.arange(len(store.entries))[:, None])
    kept = torch.arange(len(store.entries)) % 2 == 1
    store.keep(kept)
    after = store.chunks(torch.arange(int(kept.sum()))[:, None])
    contract.assert_same_steps(after, before.rows(kept))


@WRITABLE
def test_keys_follow_their_entries_and_removals_are_counted(kind: str, tmp_path: Path) -> None:
    store = maker(kind, TOY_GRID, tmp_path)(some_trajectories(TOY_GRID), 4)
    assert store.removals == 0
    assert torch.equal(store.keys, keys_of(store.entries))
    store.keep(store.entries.task == 1)
    assert store.removals == 1
    assert torch.equal(store.keys, keys_of(store.entries))
    assert set(store.entries.task.tolist()) == {1}


@WRITABLE
def test_episodes_stay_unique_after_forgetting(kind: str, tmp_path: Path) -> None:
    lived, who = some_trajectories(TOY_GRID), identity(TOY_GRID.spaces)
    store = open_kind(kind, tmp_path, TOY_GRID.spaces)
    write(store, lived[:2], who)
    store.keep(store.entries.episode == 0)
    assert set(write(store, lived[2:], who).entries.episode.tolist()) == {2, 3}
    assert store.entries.episode.unique().tolist() == [0, 2, 3]


@WRITABLE
def test_writing_at_once_equals_writing_one_by_one(kind: str, tmp_path: Path) -> None:
    lived, who = some_trajectories(TOY_REACH), identity(TOY_REACH.spaces)
    one_by_one, at_once = (open_kind(kind, tmp_path / n, TOY_REACH.spaces) for n in ("a", "b"))
    write(at_once, lived, who)
    for trajectory in lived:
        write(one_by_one, [trajectory], who)
    ids = torch.arange(len(at_once.entries))[:, None]
    contract.assert_same_steps(at_once.chunks(ids), one_by_one.chunks(ids))
    assert torch.equal(at_once.keys, one_by_one.keys)


@WRITABLE
def test_what_is_stored_does_not_change_with_its_source(kind: str, tmp_path: Path) -> None:
    (trajectory, *_) = some_trajectories(TOY_GRID)
    store = open_kind(kind, tmp_path, TOY_GRID.spaces)
    write(store, [trajectory], identity(TOY_GRID.spaces))
    before = store.chunks(torch.tensor([[0]])).rewards.clone()
    trajectory.rewards[:] = 77
    assert torch.equal(store.chunks(torch.tensor([[0]])).rewards, before)


@WRITABLE
def test_what_was_read_stays_as_it_was(kind: str, tmp_path: Path) -> None:
    lived, who = some_trajectories(TOY_GRID), identity(TOY_GRID.spaces)
    store = open_kind(kind, tmp_path, TOY_GRID.spaces)
    write(store, lived[:1], who)
    entries, keys = store.entries, store.keys
    age, before = entries.age.clone(), keys.clone()
    for trajectory in lived[1:]:
        write(store, [trajectory], who)
    store.keep(store.entries.task == 1)
    assert torch.equal(entries.age, age)
    assert torch.equal(keys, before)


def test_stacking_nothing_gives_no_rows() -> None:
    batch = stack([], TOY_GRID.spaces, 8)
    assert batch.mask.shape == (0, 8)
