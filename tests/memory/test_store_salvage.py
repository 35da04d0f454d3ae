"""Reading a database without SQLite: the same rows, whatever else is broken."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from radt.envs.suite import TaskSuite
from radt.memory.folder.salvage import salvage
from radt.memory.folder.store import FolderStore
from radt.memory.folder.verify import repair, verify
from tests.memory.stores import contents, identity, some_trajectories, write
from tests.memory.test_store_folder import assert_same
from tests.toys import TOY_GRID, TOYS

NAME = "entries-000001.sqlite3"


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


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_every_row_is_found_in_the_database_and_in_its_log(
    suite: TaskSuite, tmp_path: Path
) -> None:
    store = broken_off(tmp_path, suite)
    rows = {row.id: row for row in store.database.rows(contents=True)}
    store.close()
    for folder, logged in (("copy", True), ("open", False)):
        path = tmp_path / folder / NAME
        assert path.with_name(f"{NAME}-wal").exists() is logged
        found = salvage(path)
        assert set(found.cells) - found.forgotten == set(rows)
        assert all(found.row(id) == row for id, row in rows.items())
        assert found.about is not None
        assert found.about.state == store.state
        assert found.about.identity == store.identity


@pytest.mark.parametrize("broken", ["header", "tables", "about"])
def test_a_memory_without_a_header_or_a_name_is_saved_whole(broken: str, tmp_path: Path) -> None:
    store = broken_off(tmp_path, TOY_GRID)
    before = contents(store)
    store.close()
    path = tmp_path / "open" / NAME
    content = bytearray(path.read_bytes())
    start = {"header": 0, "tables": 100, "about": 8192}[broken]
    content[start : start + 60] = bytes(60)
    path.write_bytes(content)
    assert not verify(tmp_path / "open").is_sound
    done = repair(tmp_path / "open")
    assert (done.kept, done.lost) == (len(before), ())
    with closing(FolderStore(tmp_path / "open", identity(TOY_GRID.spaces), writing=False)) as again:
        assert_same(contents(again), before)


def test_noise_is_no_memory(tmp_path: Path) -> None:
    for size in (0, 1, 8191, 8192, 50_000):
        (tmp_path / NAME).write_bytes(b"\x0d\xff\xff\xff\xff" * (size // 5))
        found = salvage(tmp_path / NAME)
        assert not found.cells
        assert found.about is None
