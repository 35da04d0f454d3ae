"""What every store does, and what those do that outlive a process."""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from radt.envs.suite import TaskSuite
from radt.memory.entries import Halves, stack
from radt.memory.identity import Identity, MemoryBusyError, MemoryMismatchError
from radt.memory.store import DatasetStore, open_store
from radt.trajectory import Trajectory
from tests.contracts import store as contract
from tests.memory.postgres import needs_server, running_server
from tests.memory.stores import (
    KINDS,
    WIDTH,
    assert_same,
    contents,
    identity,
    keys_of,
    open_kind,
    place_of,
    some_trajectories,
    write,
)
from tests.memory.toy_data import write_toys
from tests.toys import TOY_GRID, TOY_REACH, TOYS

SUITES = pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
READABLE = pytest.mark.parametrize("kind", [*KINDS, "dataset"])
WRITABLE = pytest.mark.parametrize("kind", KINDS)
DURABLE = pytest.mark.parametrize("kind", KINDS[1:])
WHO = identity(TOY_GRID.spaces)
LIVED = some_trajectories(TOY_GRID)
FIXTURE = Path(__file__).parents[1] / "fixtures" / "memory-format-1"


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


@DURABLE
def test_what_was_written_is_there_when_it_is_opened_again(kind: str, tmp_path: Path) -> None:
    with closing(open_kind(kind, tmp_path, TOY_GRID.spaces)) as store:
        for trajectory in LIVED:
            write(store, [trajectory], WHO)
        before, numbers = contents(store), store.numbers
    for writing in (False, True):
        with closing(open_store(place_of(kind, tmp_path / kind), WHO, writing)) as again:
            assert_same(contents(again), before)
            assert torch.equal(again.numbers, numbers)
            assert again.episodes == 4


@DURABLE
def test_readers_cannot_write(kind: str, tmp_path: Path) -> None:
    open_kind(kind, tmp_path, TOY_GRID.spaces).close()
    with closing(open_store(place_of(kind, tmp_path / kind), WHO, writing=False)) as store:
        for change in (lambda: write(store, LIVED, WHO), lambda: store.keep(store.numbers > 1)):
            with pytest.raises(MemoryBusyError, match="opened for reading"):
                change()


@DURABLE
@pytest.mark.parametrize(
    ("other", "what", "rescue"),
    [
        (replace(WHO, embedder="ffff"), "embedder: '0123456789abcdef'.*'ffff' here", "re-embed"),
        (replace(WHO, key_width=7), f"key_width: {WIDTH} in the memory, 7 here", "re-embed"),
        (replace(WHO, context_len=5), "context_len: 4 in the memory, 5 here", "import"),
        (identity(TOY_REACH.spaces), "spaces.state.kind: 'discrete'.* 'vector' here", "import"),
    ],
)
def test_another_agents_memory_is_refused(
    other: Identity, what: str, rescue: str, kind: str, tmp_path: Path
) -> None:
    open_kind(kind, tmp_path, TOY_GRID.spaces).close()
    place = place_of(kind, tmp_path / kind)
    for writing in (False, True):
        with pytest.raises(MemoryMismatchError, match=what) as caught:
            open_store(place, other, writing)
        assert f"radt memory {rescue}" in str(caught.value)
    open_store(place, WHO).close()  # and nothing is left locked


@DURABLE
def test_a_child_process_cannot_use_what_it_inherited(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, parent = open_kind(kind, tmp_path, TOY_GRID.spaces), os.getpid()
    gc.collect()  # what other tests left behind is given back as long as this is its process
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: parent + 1)
        for use in (store.refresh, lambda: write(store, LIVED, WHO)):
            with pytest.raises(MemoryBusyError, match=f"opened by process {parent}"):
                use()
        if kind != "postgres":
            store.close()  # leaves the parent's connection alone
    write(store, LIVED, WHO)
    store.close()


@pytest.mark.parametrize("kind", ["folder", pytest.param("postgres", marks=needs_server)])
def test_the_format_of_today_is_read_for_ever(kind: str, tmp_path: Path) -> None:
    place = str(tmp_path / "m")
    if kind == "folder":
        shutil.copytree(FIXTURE / "folder", place)
    else:
        place = "postgres:format-1"
        running_server().admin('DROP SCHEMA IF EXISTS "radt_format-1" CASCADE')
        import psycopg

        with psycopg.connect(running_server().dsn(), autocommit=True) as session:
            session.execute((FIXTURE / "server.sql").read_text())
    said = json.loads((FIXTURE / "expected.json").read_text())
    for writing in (False, True):
        with closing(open_store(place, WHO, writing)) as store:
            found = contents(store)
            assert found.entries.task.tolist() == said["task"]
            assert found.entries.total_return.tolist() == said["total_return"]
            assert found.keys.tolist() == said["keys"]
            assert found.chunks.states.tolist() == said["states"]
            assert found.chunks.returns_to_go.tolist() == said["returns_to_go"]


def test_stacking_nothing_gives_no_rows() -> None:
    batch = stack([], TOY_GRID.spaces, 8)
    assert batch.mask.shape == (0, 8)
