from __future__ import annotations

from pathlib import Path

import pytest
import torch

from radt.envs.suite import TaskSuite
from radt.memory.store import DatasetStore, RamStore, stack
from radt.trajectory import Trajectory
from tests.contracts import store as contract
from tests.memory.toy_data import write_toys
from tests.toys import TOY_GRID, TOY_REACH, TOYS, histories

SUITES = pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
KINDS = pytest.mark.parametrize("kind", ["ram", "dataset"])


def some_trajectories(suite: TaskSuite) -> list[Trajectory]:
    """Roll two episodes of each of two tasks, the later ones shorter."""
    lived = histories(suite, episodes=2, tasks=suite.train_tasks[:2])
    shorten = {0: 100, 1: 7}
    return [
        Trajectory(t.states[:n], t.actions[:n], t.rewards[:n], t.task, t.episode)
        for episodes in lived.values()
        for t, n in ((t, shorten[t.episode]) for t in episodes)
    ]


def maker(kind: str, suite: TaskSuite, folder: Path) -> contract.MakeStore:
    def make(lived, context_len: int):
        if kind == "ram":
            store = RamStore(suite.spaces, context_len)
            for trajectory in lived:
                store.write([trajectory])
            return store
        by_task: dict[int, list[Trajectory]] = {}
        for trajectory in lived:
            by_task.setdefault(trajectory.task, []).append(trajectory)
        return DatasetStore(write_toys(folder, suite, by_task), context_len)

    return make


@SUITES
@KINDS
def test_contract(kind: str, suite: TaskSuite, tmp_path: Path) -> None:
    make, lived = maker(kind, suite, tmp_path), some_trajectories(suite)
    contract.check_chunks(make, lived, suite.spaces)
    contract.check_several_and_none(make, lived)
    empty = make(lived, 5)
    empty.keep(torch.zeros(len(empty.entries), dtype=torch.bool))
    contract.check_empty(make, empty, lived)


@SUITES
def test_ram_and_dataset_give_equal_chunks(suite: TaskSuite, tmp_path: Path) -> None:
    lived = some_trajectories(suite)
    stores = [maker(kind, suite, tmp_path)(lived, 4) for kind in ("ram", "dataset")]
    for name in stores[0].entries.__dataclass_fields__:
        one, other = (getattr(store.entries, name) for store in stores)
        assert torch.equal(one, other), name
    ids = torch.arange(len(stores[0].entries)).reshape(-1, 1).repeat(1, 2)
    contract.assert_same_steps(stores[0].chunks(ids), stores[1].chunks(ids))


@KINDS
def test_keeping_some_entries(kind: str, tmp_path: Path) -> None:
    store = maker(kind, TOY_GRID, tmp_path)(some_trajectories(TOY_GRID), 4)
    before = store.chunks(torch.arange(len(store.entries))[:, None])
    kept = torch.arange(len(store.entries)) % 2 == 1
    store.keep(kept)
    after = store.chunks(torch.arange(int(kept.sum()))[:, None])
    contract.assert_same_steps(after, before.rows(kept))


def test_episodes_stay_unique_after_forgetting() -> None:
    lived = some_trajectories(TOY_GRID)
    store = RamStore(TOY_GRID.spaces, 4)
    store.write(lived[:2])
    store.keep(store.entries.episode == 0)
    new = store.write(lived[2:])
    assert set(new.episode.tolist()) == {2, 3}


def test_writing_at_once_equals_writing_one_by_one() -> None:
    lived = some_trajectories(TOY_REACH)
    at_once, one_by_one = RamStore(TOY_REACH.spaces, 4), RamStore(TOY_REACH.spaces, 4)
    at_once.write(lived)
    for trajectory in lived:
        one_by_one.write([trajectory])
    contract.assert_same_steps(at_once.all_chunks, one_by_one.all_chunks)


def test_what_is_stored_does_not_change_with_its_source() -> None:
    (trajectory, *_) = some_trajectories(TOY_GRID)
    store = RamStore(TOY_GRID.spaces, 4)
    store.write([trajectory])
    before = store.chunks(torch.tensor([[0]])).rewards.clone()
    trajectory.rewards[:] = 77
    assert torch.equal(store.chunks(torch.tensor([[0]])).rewards, before)


def test_stacking_nothing_gives_no_rows() -> None:
    batch = stack([], TOY_GRID.spaces, 8)
    assert batch.mask.shape == (0, 8)
