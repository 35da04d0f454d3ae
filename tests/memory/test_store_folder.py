"""The folder store: what is in it, who may open it, and what is found again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from radt.envs.suite import TaskSuite
from radt.files import NotOursError
from radt.memory import rows
from radt.memory.folder.rewrite import compact, export, read_exported, read_memory
from radt.memory.folder.store import Acknowledged, FolderStore, acknowledge, read_acknowledged
from radt.memory.folder.verify import repair, verify
from radt.memory.identity import MemoryBusyError, MemoryFileError, MemoryMismatchError
from radt.memory.rows import State
from radt.memory.store import open_store
from radt.registry import UnknownNameError
from tests.memory.stores import (
    assert_same,
    contents,
    filled_folder,
    identity,
    some_trajectories,
    write,
)
from tests.toys import TOY_GRID, TOYS

WHO = identity(TOY_GRID.spaces)
LIVED = some_trajectories(TOY_GRID)
FIXTURE = Path(__file__).parents[1] / "fixtures" / "memory-format-1"


def tamper(folder: Path, statement: str) -> None:
    """Change a folder's database behind radt's back."""
    with closing(sqlite3.connect(folder / "entries-000001.sqlite3")) as database:
        database.execute(statement)
        database.commit()


def reader(folder: Path) -> FolderStore:
    return FolderStore(folder, WHO, writing=False)


def test_a_write_is_flushed_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed, real = list[int](), os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    with closing(filled_folder(tmp_path)) as store:
        for setting, value in (("synchronous", 2), ("journal_mode", "wal")):  # a commit is flushed
            assert store.database.connection.execute(f"PRAGMA {setting}").fetchone() == (value,)
        monkeypatch.setattr(os, "fsync", fsync)
        write(store, LIVED, WHO)
        assert flushed == [(tmp_path / "acknowledged").stat().st_ino]


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)) as store:
        store.keep(store.entries.task == 1)
        write(store, LIVED[:1], WHO)
        before = contents(store)
    with closing(reader(tmp_path)) as again:
        assert_same(contents(again), before)
        assert again.entries.episode.unique().tolist() == [2, 3, 4]
    assert verify(tmp_path).is_sound


def test_readers_follow_the_writer(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)) as store, closing(reader(tmp_path)) as other:
        assert_same(contents(other), contents(store))
        removals = other.removals
        write(store, LIVED[:2], WHO)
        assert len(other.entries) < len(store.entries)
        other.refresh()
        assert other.removals == removals
        assert_same(contents(other), contents(store))
        assert torch.equal(other.numbers, store.numbers)
        store.keep(store.entries.episode != 1)
        write(store, LIVED[2:], WHO)
        other.refresh()
        assert other.removals == removals + 1
        assert_same(contents(other), contents(store))
        assert torch.equal(other.numbers, store.numbers)


def test_what_the_writer_forgets_is_padding_to_a_reader_that_did_not_look(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)) as store, closing(reader(tmp_path)) as other:
        store.keep(store.entries.task == 1)
        chunks = other.chunks(torch.arange(len(other.entries))[:, None])
        assert torch.equal(chunks.mask.any(1), other.entries.task == 1)


def test_readers_follow_through_a_compaction(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)) as store:
        store.keep(store.entries.task == 1)
        before = contents(store)
    with closing(reader(tmp_path)) as other:
        old = other.numbers
        compact(tmp_path)
        assert_same(contents(other), before)  # still of the old database
        other.refresh()
        assert_same(contents(other), before)
        assert int(other.numbers.min()) > int(old.max())
    assert [path.name for path in sorted(tmp_path.glob("*.sqlite3"))] == ["entries-000002.sqlite3"]


def test_a_second_writer_is_told_who_writes(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)):
        message = (
            rf"process {os.getpid()} is writing to the memory in .*writer\.lock.*writing=False"
        )
        with pytest.raises(MemoryBusyError, match=message):
            FolderStore(tmp_path, WHO, writing=True)
        for work in (compact, repair):
            with pytest.raises(MemoryBusyError, match="one process writes at a time"):
                work(tmp_path)
        (tmp_path / "writer.lock").write_bytes(b"\xff")
        with pytest.raises(MemoryBusyError, match="one process writes at a time"):
            FolderStore(tmp_path, WHO, writing=True)
    FolderStore(tmp_path, WHO, writing=True).close()


def test_there_is_no_memory_where_there_is_none(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(MemoryFileError, match="there is no memory in"):
            reader(place)
        with pytest.raises(MemoryFileError, match="there is no memory in"):
            verify(place)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(MemoryFileError, match="is a file, but a memory is a folder"):
        FolderStore(tmp_path / "file", WHO, writing=True)


def test_places_are_named_by_kind_and_address(tmp_path: Path) -> None:
    for place in (f"folder:{tmp_path / 'a'}", str(tmp_path / "b"), tmp_path / "c"):
        with closing(open_store(place, WHO)) as store:
            assert isinstance(store, FolderStore)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}
    with closing(open_store("ram:", WHO)) as store:
        assert store.place == "RAM"
    with pytest.raises(UnknownNameError, match="unknown store 'flder'; did you mean 'folder'"):
        open_store("flder:x", WHO)


def test_an_unfinished_folder_is_finished(tmp_path: Path) -> None:
    """Killed between making the database and saying that it counts."""
    FolderStore(tmp_path, WHO, writing=True).close()
    (tmp_path / "acknowledged").unlink()
    with closing(FolderStore(tmp_path, WHO, writing=True)) as store:
        assert store.state == State()
        write(store, LIVED, WHO)
    (tmp_path / "acknowledged").unlink()
    for writing in (False, True):
        with pytest.raises(MemoryFileError, match="acknowledged: it is damaged or missing"):
            FolderStore(tmp_path, WHO, writing)


def test_leftovers_of_a_killed_compaction_are_removed(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    shutil.copy(tmp_path / "entries-000001.sqlite3", tmp_path / "entries-000002.sqlite3")
    (tmp_path / ".entries-000002.sqlite3.1234.tmp").write_bytes(b"half")
    FolderStore(tmp_path, WHO, writing=True).close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "acknowledged",
        "entries-000001.json",
        "entries-000001.sqlite3",
        "writer.lock",
    }


def test_a_write_that_was_not_acknowledged_any_more_counts_when_it_is_whole(tmp_path: Path) -> None:
    """Killed between the commit and the acknowledgement."""
    store = filled_folder(tmp_path)
    before = contents(store)
    store.close()
    acknowledge(tmp_path, Acknowledged(1, store.state.writes - 1))
    acknowledge(tmp_path, Acknowledged(1, store.state.writes - 2))
    with closing(FolderStore(tmp_path, WHO, writing=True)) as again:
        assert_same(contents(again), before)
    assert read_acknowledged(tmp_path) == Acknowledged(1, store.state.writes)


def test_lost_writes_are_noticed(tmp_path: Path) -> None:
    store = filled_folder(tmp_path)
    store.close()
    acknowledge(tmp_path, Acknowledged(1, store.state.writes + 2))
    message = "its last 2 acknowledged writes are missing; `radt memory verify"
    with pytest.raises(MemoryFileError, match=message):
        reader(tmp_path)
    assert not verify(tmp_path).is_sound
    done = repair(tmp_path)
    assert (done.kept, done.missing_writes) == (store.state.entries, 2)
    assert verify(tmp_path).is_sound


def test_a_foreign_database_is_refused(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    trigger = "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM about; END"
    tamper(tmp_path, trigger)
    with pytest.raises(MemoryFileError, match="is no memory"):
        reader(tmp_path)


def test_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rows, "FORMAT", 2)
        filled_folder(tmp_path).close()
    with pytest.raises(MemoryFileError, match="it has format 2, this radt reads 1"):
        reader(tmp_path)


def test_an_edited_entry_is_named(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    tamper(tmp_path, "UPDATE entries SET total_return = 99 WHERE id = 3")
    with pytest.raises(MemoryFileError, match=r"entry 3 is damaged .*radt memory repair"):
        reader(tmp_path)
    found = verify(tmp_path)
    assert found.lost == (3,)
    assert [problem.partition(":")[0] for problem in found.problems] == ["entry 3"]
    done = repair(tmp_path)
    assert (done.lost, done.kept) == ((3,), found.whole)
    assert Path(done.aside, "entries-000001.sqlite3").exists()
    assert verify(tmp_path).is_sound


def test_ids_that_cannot_be_are_not_looked_for(tmp_path: Path) -> None:
    """There would be more of them than fit into any memory."""
    filled_folder(tmp_path).close()
    tamper(tmp_path, f"UPDATE entries SET id = {1 << 60} WHERE id = 3")
    assert verify(tmp_path).lost == (3,)
    assert repair(tmp_path).lost == (3,)


def test_a_changed_content_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    changed = "UPDATE entries SET content = zeroblob(length(content)) WHERE id = 2"
    tamper(tmp_path, changed)
    with closing(reader(tmp_path)) as store:
        store.chunks(torch.tensor([[0], [2]]))
        with pytest.raises(MemoryFileError, match="entry 2 is damaged"):
            store.chunks(torch.tensor([[0], [1]]))
    assert verify(tmp_path).lost == (2,)


def test_a_lost_entry_is_noticed(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    tamper(tmp_path, "DELETE FROM entries WHERE id = 4")
    with pytest.raises(MemoryFileError, match="10 entries are expected, 9 were found"):
        reader(tmp_path)
    assert verify(tmp_path).lost == (4,)


def broken_off(folder: Path, suite: TaskSuite) -> FolderStore:
    """Write and forget in a folder, and leave a copy beside it as a killed process would."""
    who, lived = identity(suite.spaces), some_trajectories(suite)
    store = FolderStore(folder / "open", who, writing=True)
    for trajectory in 2 * lived:
        write(store, [trajectory], who)
    store.keep(store.entries.episode % 3 != 1)
    write(store, lived, who)
    shutil.copytree(folder / "open", folder / "copy")
    return store


def zeros(path: Path, start: int, count: int) -> None:
    content = bytearray(path.read_bytes())
    content[start : start + count] = bytes(count)
    path.write_bytes(content)


@pytest.mark.parametrize("start", [0, 100, 8192], ids=["header", "tables", "about"])
@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_a_memory_without_a_header_or_a_name_is_saved_whole(
    suite: TaskSuite, start: int, tmp_path: Path
) -> None:
    store = broken_off(tmp_path, suite)
    before = contents(store)
    store.close()
    zeros(tmp_path / "open" / "entries-000001.sqlite3", start, 60)
    assert not verify(tmp_path / "open").is_sound
    done = repair(tmp_path / "open")
    assert (done.kept, done.lost) == (len(before), ())
    with closing(FolderStore(tmp_path / "open", store.identity, writing=False)) as again:
        assert_same(contents(again), before)


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_a_log_that_a_killed_writer_left_is_read(suite: TaskSuite, tmp_path: Path) -> None:
    with closing(broken_off(tmp_path, suite)) as store:
        assert (tmp_path / "copy" / "entries-000001.sqlite3-wal").exists()
        assert verify(tmp_path / "copy").whole == len(store.entries)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def files_in(folder: Path) -> dict[str, bytes]:
    """Read what a memory keeps; SQLite may rebuild its index of the log, and locks are no data."""
    derived = ("-shm", ".lock")
    return {f.name: f.read_bytes() for f in folder.iterdir() if not f.name.endswith(derived)}


@pytest.mark.parametrize("name", ["acknowledged", "entries-000001.sqlite3"])
def test_nothing_is_written_through_a_link(name: str, tmp_path: Path) -> None:
    for folder in ("ours", "theirs"):
        with closing(open_store(f"folder:{tmp_path / folder}", WHO)) as store:
            write(store, LIVED, WHO)
    (tmp_path / "ours" / name).unlink()
    (tmp_path / "ours" / name).symlink_to(tmp_path / "theirs" / name)
    there = files_in(tmp_path / "theirs")
    with pytest.raises(NotOursError, match="is a link"):
        FolderStore(tmp_path / "ours", WHO, writing=True)
    assert files_in(tmp_path / "theirs") == there


@pytest.mark.parametrize("damage", ["log", "log's middle", "entry", "other identity"])
def test_an_opening_that_is_refused_changes_nothing(damage: str, tmp_path: Path) -> None:
    with closing(broken_off(tmp_path, TOY_GRID)) as store:
        before = contents(store)
    folder, who = tmp_path / "copy", WHO
    path, log = folder / "entries-000001.sqlite3", folder / "entries-000001.sqlite3-wal"
    (folder / "entries-000000.sqlite3").write_bytes(path.read_bytes())  # which was replaced
    whole = log.read_bytes()
    if damage == "log":
        flip(log, 16)
    elif damage == "log's middle":
        flip(log, len(whole) // 2)
    elif damage == "entry":
        with closing(reader(folder)), closing(sqlite3.connect(path)) as database:
            database.execute("UPDATE entries SET total_return = 99 WHERE id = 3")
            database.commit()
    else:
        who = replace(WHO, embedder="f" * 16)
    there = files_in(folder)
    for shared in (False, True):
        with pytest.raises((MemoryFileError, MemoryMismatchError)):
            FolderStore(folder, who, writing=True, shared=shared)
        assert files_in(folder) == there
    if damage.startswith("log"):
        with pytest.raises(MemoryFileError, match="acknowledged writes are missing"):
            compact(folder)
        assert files_in(folder) == there
        log.write_bytes(whole)
        with closing(FolderStore(folder, WHO, writing=True)) as again:
            assert_same(contents(again), before)
        assert not log.exists()


@pytest.mark.parametrize("content", [b"", b"x", bytes(50), b"noise" * 9999], ids=len)
def test_looking_at_an_emptied_database_leaves_its_log(content: bytes, tmp_path: Path) -> None:
    with closing(broken_off(tmp_path, TOY_GRID)) as store:
        before = contents(store)
    folder = tmp_path / "copy"
    (folder / "entries-000001.sqlite3").write_bytes(content)
    there = files_in(folder)
    for look in (reader, partial(export, file=tmp_path / "out"), compact):
        with pytest.raises(MemoryFileError, match="first page is gone"):
            look(folder)
    with pytest.raises(MemoryFileError, match="first page is gone"):
        FolderStore(folder, WHO, writing=True)
    assert not verify(folder).is_sound
    assert files_in(folder) == there
    done = repair(folder)
    assert (done.kept, done.lost, done.missing_writes) == (len(before), (), 0)
    with closing(reader(folder)) as again:
        assert_same(contents(again), before)


def test_a_repair_that_saves_nothing_does_not_say_that_nothing_is_lost(tmp_path: Path) -> None:
    broken_off(tmp_path, TOY_GRID).close()
    folder = tmp_path / "copy"
    (folder / "entries-000001.sqlite3-wal").unlink()
    there = files_in(folder)
    assert "acknowledged writes are missing" in verify(folder).problems[0]
    with pytest.raises(MemoryFileError, match="bring the folder back from a copy"):
        repair(folder)
    assert there.items() <= files_in(folder).items()


def test_rows_on_both_sides_of_a_broken_page_are_saved(tmp_path: Path) -> None:
    store = filled_folder(tmp_path, times=60)
    before = contents(store)
    store.close()
    path = tmp_path / "entries-000001.sqlite3"
    pages = path.stat().st_size // 8192
    assert pages > 10
    for page in (6, 9):
        zeros(path, page * 8192, 8192)
    found = verify(tmp_path)
    assert 0 < len(found.lost) < 0.5 * len(before)
    done = repair(tmp_path)
    assert (done.kept, done.lost) == (found.whole, found.lost)
    assert done.kept + len(done.lost) == len(before)
    kept = [number for number in range(len(before)) if number + 1 not in done.lost]
    with closing(reader(tmp_path)) as again:
        assert_same(contents(again), before.rows(torch.tensor(kept)))


def test_noise_is_no_memory(tmp_path: Path) -> None:
    filled_folder(tmp_path).close()
    for size in (0, 1, 8191, 8192, 50_000):
        noise = b"\x0d\xff\xff\xff\xff" * (size // 5)
        (tmp_path / "entries-000001.sqlite3").write_bytes(noise)
        assert verify(tmp_path).whole == 0
        with pytest.raises(MemoryFileError, match="bring the folder back from a copy"):
            repair(tmp_path)


def test_nothing_is_repaired_where_nothing_is_damaged(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path)) as store:
        before = contents(store)
    done = repair(tmp_path)
    assert (done.aside, done.lost) == ("", ())
    with closing(reader(tmp_path)) as store:
        assert_same(contents(store), before)
        assert store.generation == 1


def test_compacting_keeps_all_and_gives_room_back(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path, times=20)) as store:
        store.keep(store.entries.episode > 70)
        before = contents(store)
    done = compact(tmp_path)
    assert done.bytes_after < done.bytes_before
    with closing(FolderStore(tmp_path, WHO, writing=True)) as store:
        assert_same(contents(store), before)
        assert store.episodes == 80
        write(store, LIVED, WHO)
    assert verify(tmp_path).is_sound


def test_an_exported_file_holds_the_memory(tmp_path: Path) -> None:
    with closing(filled_folder(tmp_path / "m")) as store:
        store.keep(store.entries.task == 1)
        before = contents(store)
        assert export(tmp_path / "m", tmp_path / "out.memory") == len(store.entries)
    who, entries = read_exported(tmp_path / "out.memory")
    assert who == WHO
    assert_same(entries, before)
    assert_same(read_memory(str(tmp_path / "m"))[1], before)
    with pytest.raises(MemoryFileError, match="exists; remove it or name another"):
        export(tmp_path / "m", tmp_path / "out.memory")
    whole = (tmp_path / "out.memory").read_bytes()
    (tmp_path / "out.memory").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MemoryFileError, match=r"out\.memory"):
        read_exported(tmp_path / "out.memory")


def test_exported_files_of_today_are_read_for_ever() -> None:
    said = json.loads((FIXTURE / "expected.json").read_text())
    assert read_exported(FIXTURE / "exported.memory")[1].keys.tolist() == said["keys"]
