"""The server store: what clients share, who may open a memory, and how it is searched."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.cli import main
from radt.memory.entries import Entries
from radt.memory.identity import StoreError
from radt.memory.index import FlatIndex
from radt.memory.memory import Memory, MemoryConfig
from radt.memory.store import NewEntries, Store, open_store
from radt.registry import UnknownNameError
from tests.contracts.store import assert_same_steps
from tests.memory.postgres import needs_server, place, running_server
from tests.memory.stores import (
    WIDTH,
    assert_same,
    contents,
    filled_folder,
    identity,
    some_trajectories,
    write,
)
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID

WHO = identity(TOY_GRID.spaces)
LIVED = some_trajectories(TOY_GRID)
CLOSE = 1e-4  # how far a relevance may be from that of the flat index


def client(folder: Path, writing: bool = True) -> Store:
    return open_store(place(folder), WHO, writing)


def filled(folder: Path) -> Store:
    store = client(folder)
    for trajectory in LIVED:
        write(store, [trajectory], WHO)
    return store


def assert_agree(one: Store, other: Store) -> None:
    assert_same(contents(one), contents(other))
    assert torch.equal(one.numbers, other.numbers)


def append_keys(store: Store, keys: Tensor, tasks: Tensor) -> None:
    """Write entries with these keys, whose chunks nobody looks at."""
    write(store, LIVED[:1], WHO)
    zero = torch.zeros(len(keys), dtype=torch.int64)
    entries = Entries(tasks, zero + store.episodes, zero, zero, zero, zero + 1, zero.float())
    store.append(NewEntries(entries, keys, store.chunks(zero[:, None])))
    store.keep(store.numbers > 3)  # without the first trial


@needs_server
def test_clients_write_in_turn_and_see_each_other(tmp_path: Path) -> None:
    with closing(client(tmp_path)) as one, closing(client(tmp_path)) as other:
        write(one, LIVED[:2], WHO)
        write(other, LIVED[2:3], WHO)  # does not know yet that there are two
        assert other.entries.episode.unique().tolist() == [0, 1, 2]
        assert len(one.entries) < len(other.entries)
        one.refresh()
        assert_agree(one, other)
        one.keep(one.entries.task == 1)
        write(other, LIVED[3:], WHO)
        assert (other.removals, other.episodes) == (1, 4)
        one.refresh()
        assert_agree(one, other)
        assert set(one.entries.task.tolist()) == {1}


@needs_server
def test_what_others_remove_is_neither_found_nor_read(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as store, closing(client(tmp_path)) as other:
        store.keep(store.entries.task == 1)
        gone = other.entries.task == 0
        chunks = other.chunks(torch.arange(len(other.entries))[:, None])
        assert torch.equal(chunks.mask.any(1), ~gone)
        assert torch.equal(other.keys.any(1), ~gone)
        asked = torch.ones(2, WIDTH), 50, torch.tensor([0, 1])
        ids = other.search_there(*asked)[1]  # type: ignore[attr-defined]
        assert (ids[0] == -1).all()
        assert set(ids[1].tolist()) == {-1, *(~gone).nonzero().flatten().tolist()}
        assert not other.chunks(other.search(*asked)[1]).mask[0].any()
        other.keep(~gone)  # once more, at the same time
        assert_agree(other, store)


@needs_server
def test_what_others_write_is_not_found_before_it_is_taken_in(tmp_path: Path) -> None:
    with closing(client(tmp_path)) as store, closing(client(tmp_path, writing=False)) as other:
        write(store, LIVED, WHO)
        query, task = store.keys[1:2], store.entries.task[1:2]
        for asked in (None, task):
            assert other.search(query, 3, asked)[1].tolist() == [[-1, -1, -1]]
        other.refresh()
        assert int(other.search(query, 3, task)[1][0, 0]) == 1


@needs_server
def test_a_memory_is_made_once_however_many_come(tmp_path: Path) -> None:
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(client(tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        write(store, LIVED[:1], WHO)
    stores[0].refresh()
    assert stores[0].entries.episode.unique().tolist() == [0, 1, 2, 3]
    for store in stores:
        store.close()


@needs_server
def test_readers_find_only_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such memory on the server"):
        client(tmp_path / "none", writing=False)


@pytest.mark.parametrize(
    "name", ["", "//me:pw@host/db", "host=h password=pw", "Room", "a" * 51, "a;b"]
)
def test_what_is_no_name_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(StoreError, match="named as in postgres:room") as caught:
        open_store(f"postgres:{name}", WHO)
    assert not name or name not in str(caught.value)
    with pytest.raises(UnknownNameError, match="unknown store 'postgresql'") as unknown:
        open_store("postgresql://me:pw@host/db", WHO)
    assert "pw" not in str(unknown.value)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("radt.memory.postgres.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"needs psycopg: pip install 'radt\[server\]'"):
        open_store("postgres:room", WHO)


def hold(monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    """Let clients hold the keys of the tasks that they search, as usual, or of none."""
    if not held:
        monkeypatch.setattr("radt.memory.postgres.store.HELD", 0)


@needs_server
def test_held_keys_follow_what_anybody_writes_and_removes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with closing(client(tmp_path)) as store, closing(client(tmp_path)) as other:
        for turn in range(8):
            first = len(store.entries)
            append_keys(store, torch.randn(40, WIDTH), torch.arange(40) % 3)
            if turn % 3 == 2:
                other.refresh()
                other.keep(torch.rand(len(other.entries)) < 0.7)
            queries, asked = torch.randn(12, WIDTH), torch.arange(12) % 4
            for each in (store, other):
                each.refresh()
                flat = FlatIndex(WIDTH)
                flat.add(each.keys, each.entries.task)
                theirs, ours = each.search(queries, 60, asked), flat.search(queries, 60, asked)
                assert torch.equal(theirs[0], ours[0])
                assert torch.equal(theirs[1], ours[1])
        assert len(store.entries) > first


@needs_server
@pytest.mark.parametrize("held", [True, False])
def test_searches_agree_with_the_flat_index(
    held: bool, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(monkeypatch, held)
    keys = torch.from_numpy(rng.normal(size=(600, WIDTH)).astype(np.float32))
    keys[200:300], keys[300:303] = keys[100:200], 0  # ties, and keys that resemble none
    keys[400], keys[401] = 1e25 * keys[400], 1e-25 * keys[401]
    tasks = torch.arange(600) % 4
    queries = torch.cat([keys[95:105], torch.randn(10, WIDTH), torch.zeros(1, WIDTH)])
    flat = FlatIndex(WIDTH)
    flat.add(keys, tasks)
    with closing(client(tmp_path)) as store:
        append_keys(store, keys, tasks)
        assert torch.equal(store.keys, keys)
        tasks_asked = torch.arange(21) % 5
        for k, asked in ((1, tasks_asked), (50, tasks_asked), (199, tasks_asked), (700, None)):
            theirs, exact = store.search(queries, k, asked), flat.search(queries, k, asked)
            torch.testing.assert_close(theirs[0], exact[0], rtol=0, atol=CLOSE)
            assert (theirs[1] == exact[1]).float().mean() > 0.99  # near ties may change places
            if held and asked is not None:  # the same search
                assert torch.equal(theirs[0], exact[0])
                assert torch.equal(theirs[1], exact[1])
        newest_first = store.search(keys[150:151], 2, tasks[150:151])
        assert newest_first[1].tolist() == [[250, 150]]
        assert newest_first[0].tolist() == [[1, 1]]
        with pytest.raises(ValueError, match=r"\[n, 6\], not \[2, 3\]"):
            store.search(torch.ones(2, 3), 1)
        with pytest.raises(ValueError, match="NaN"):
            store.search(torch.full((1, WIDTH), torch.nan), 1)
        assert store.search(queries[:0], 3)[0].shape == (0, 3)


@needs_server
def test_an_approximate_index_never_answers_for_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much the planner would like to use it."""
    hold(monkeypatch, False)
    from radt.memory.postgres import tables as search

    torch.manual_seed(0)
    keys, tasks = torch.randn(1000, WIDTH), torch.arange(1000) % 100
    with closing(client(tmp_path)) as store:
        append_keys(store, keys, tasks)
        server = store.server  # type: ignore[attr-defined]
        graph = "CREATE INDEX graph ON directions USING hnsw (direction vector_ip_ops)"
        server.run(lambda session: session.execute(graph))
        server.run(lambda session: session.execute("SET enable_seqscan = off"))
        server.run(lambda session: session.execute("SET enable_sort = off"))
        server.run(lambda session: session.execute("ANALYZE directions"))
        values = {
            "vectors": [search.Vector(keys[0].numpy())],
            "tasks": [0],
            "newest": 10**6,
            "k": 5,
        }

        def plan(asked: str) -> str:
            rows = server.run(
                lambda session: session.execute(f"EXPLAIN {asked}", values).fetchall()
            )
            return "\n".join(line for (line,) in rows)

        assert "graph" in plan(search.QUICK)
        for asked in (search.IN_TASK, search.ANYWHERE):
            assert "graph" not in plan(asked)
        found = store.search(keys[:100], 10, tasks[:100])[1]  # a task has ten entries
        assert (store.entries.task[found] == tasks[:100, None]).all()
        exact = FlatIndex(WIDTH)
        exact.add(keys, tasks)
        theirs, ours = store.search(keys[:100], 50)[1], exact.search(keys[:100], 50)[1]
        hits = [len({*a} & {*b}) for a, b in zip(theirs.tolist(), ours.tolist(), strict=True)]
        assert sum(hits) / (50 * 100) > 0.95


@needs_server
def test_an_agents_memory_moves_by_changing_its_place(tmp_path: Path) -> None:
    spaces, config = TOY_GRID.spaces, MemoryConfig(context_len=4, top_l=5, dedup=0.999)
    ram = Memory(toy_embedder(spaces), spaces, config)
    with ram.at(place(tmp_path)) as server, ram.at(place(tmp_path), writing=False) as reader:
        for memory in (ram, server):
            memory.write(LIVED)
            memory.forget(torch.tensor([0]))
            memory.write(LIVED[:1])
        reader.refresh()
        queries, slots = ram.keys, ram.entries.task
        position = torch.zeros_like(slots)
        for memory in (server, reader):
            assert len(memory) == len(ram) == len(memory.index)
            found, expected = (m.retrieve(queries, slots, position) for m in (memory, ram))
            assert torch.equal(found.chosen, expected.chosen)
            assert_same_steps(memory.chunks(found.chosen), ram.chunks(expected.chosen))


@needs_server
def test_memories_move_between_folders_and_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(filled_folder(tmp_path / "from")) as folder:
        folder.keep(folder.entries.task == 1)
        before = contents(folder)
    name, back = place(tmp_path), tmp_path / "back"
    for target, source in ((name, tmp_path / "from"), (back, name), (name, back)):
        assert main(["memory", "import", str(target), str(source)]) == 0
    assert "5 entries are added, 10 are there now" in capsys.readouterr().out
    with closing(open_store(back, WHO, writing=False)) as there:
        assert_same_steps(contents(there).chunks, before.chunks)
        assert torch.equal(there.keys, before.keys)
    with closing(client(tmp_path)) as store:
        assert store.episodes == 4


@needs_server
def test_a_changed_row_is_named(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as store:
        schema = f'"radt_{place(tmp_path).removeprefix("postgres:")}"'
        ids, whole = torch.tensor([[0], [2], [3]]), torch.tensor([[1]])
        for change, says in (
            ("UPDATE {}.entries SET content = '\\x00' WHERE id = 1", "entry 1 is damaged"),
            ("UPDATE {}.entries SET total_return = 99 WHERE id = 3", "entry 3 is damaged"),
            ("DELETE FROM {}.entries WHERE id = 4", "entries 4 are not there any more"),
        ):
            running_server().admin(change.format(schema))
            with pytest.raises(StoreError, match=f"{says}.*back from a backup"):
                store.chunks(ids)
            ids = ids[1:]
        store.chunks(whole)
        with pytest.raises(StoreError, match="entry 3 is damaged"):
            client(tmp_path)
        running_server().admin(f"UPDATE {schema}.about SET value = '{{}}' WHERE name = 'state'")
        with pytest.raises(StoreError, match=r"what it says of itself is damaged \(state\)"):
            write(store, LIVED, WHO)


MOVED = {
    "another task": "UPDATE {schema}.directions SET task = task + 1",
    "swapped": "UPDATE {schema}.directions AS one SET direction = other.direction FROM "
    "{schema}.directions AS other WHERE other.id = 11 - one.id",
    "dropped": "DELETE FROM {schema}.directions WHERE id = 2",
    "another return": "UPDATE {schema}.entries SET total_return = 99 WHERE id = 2",
}


@needs_server
@pytest.mark.parametrize("name", MOVED)
def test_keys_that_were_moved_are_noticed_when_a_memory_is_opened(
    name: str, tmp_path: Path
) -> None:
    filled(tmp_path).close()
    schema = f'"radt_{place(tmp_path).removeprefix("postgres:")}"'
    running_server().admin(MOVED[name].format(schema=schema))
    with pytest.raises(StoreError, match=r"searched by other keys|is damaged"):
        client(tmp_path, writing=False)


@needs_server
@pytest.mark.parametrize("name", ["another task", "dropped"])
def test_keys_that_are_moved_while_a_memory_is_open_are_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(monkeypatch, False)
    with closing(filled(tmp_path)) as store, closing(client(tmp_path)) as other:
        queries, tasks = torch.ones(2, WIDTH), store.entries.task.unique()[:2]
        _, before = store.search(queries, 3, tasks)  # type: ignore[attr-defined]
        other.keep(torch.arange(len(other.entries)) > 0)  # a removal by others is no damage
        _, after = store.search(queries, 3, tasks)  # type: ignore[attr-defined]
        assert before.shape == after.shape
        store.refresh()
        schema = f'"radt_{place(tmp_path).removeprefix("postgres:")}"'
        running_server().admin(MOVED[name].format(schema=schema))
        with pytest.raises(StoreError, match="have changed"):
            store.search(queries, 3, tasks)  # type: ignore[attr-defined]
