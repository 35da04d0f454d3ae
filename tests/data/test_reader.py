from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from dataclasses import fields
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from radt.data import Dataset, History, reader, store, write_history, write_manifest
from radt.data.reader import returns_to_go_by_episode
from radt.spaces import ActionSpace, StateSpace, TaskSpaces
from radt.trajectory import Batch, returns_to_go
from tests.data.histories import GRID, SPACES, VECTOR, manifest_of, random_history, write_dataset

MODES = pytest.mark.parametrize("in_memory", [True, False], ids=["ram", "disk"])
KINDS = pytest.mark.parametrize("kind", SPACES)


def assert_same(one: Batch, other: Batch) -> None:
    for item in fields(Batch):
        left, right = getattr(one, item.name), getattr(other, item.name)
        assert left.dtype == right.dtype
        assert torch.equal(left, right), item.name


def random_windows(dataset: Dataset, rng: np.random.Generator, count: int):
    rows = rng.integers(0, len(dataset), count)
    return rows, rng.integers(0, dataset.episodes.length[rows])


@MODES
@KINDS
def test_the_table_lists_every_complete_episode(tmp_path: Path, kind: str, in_memory: bool) -> None:
    histories = write_dataset(tmp_path, SPACES[kind])
    dataset = Dataset.open(tmp_path, in_memory=in_memory)
    table, row = dataset.episodes, 0
    assert dataset.tasks == (4, 1, 7)
    for history in histories:
        start = 0
        for index, length in enumerate(history.lengths):
            got = (table.task[row], table.index[row], table.start[row], table.length[row])
            assert got == (history.task, index, start, length)
            total = history.rewards[start : start + length].sum(dtype=np.float64)
            assert table.total_return[row] == pytest.approx(total, abs=1e-5)
            start += length
            row += 1
    assert row == len(table) == len(dataset)


@MODES
@KINDS
def test_trajectories_are_what_was_written(tmp_path: Path, kind: str, in_memory: bool) -> None:
    spaces = SPACES[kind]
    histories = {h.task: h for h in write_dataset(tmp_path, spaces)}
    dataset = Dataset.open(tmp_path, in_memory=in_memory)
    states = {"discrete": np.int64, "image": np.uint8}.get(spaces.state.kind, np.float32)
    for row in range(len(dataset)):
        trajectory = dataset.trajectory(row)
        history = histories[trajectory.task]
        start = dataset.episodes.start[row]
        steps = slice(start, start + dataset.episodes.length[row])
        np.testing.assert_array_equal(trajectory.states, history.states[steps])
        np.testing.assert_array_equal(trajectory.actions, history.actions[steps])
        np.testing.assert_array_equal(trajectory.rewards, history.rewards[steps])
        assert trajectory.episode == dataset.episodes.index[row]
        assert trajectory.states.dtype == states
        assert trajectory.actions.dtype == (
            np.int64 if spaces.action.kind == "discrete" else np.float32
        )
        assert trajectory.total_return == pytest.approx(dataset.episodes.total_return[row], 1e-5)


@KINDS
def test_disk_and_ram_give_the_same_batches(
    tmp_path: Path, kind: str, rng: np.random.Generator
) -> None:
    write_dataset(tmp_path, SPACES[kind])
    ram, disk = (Dataset.open(tmp_path, in_memory=mode) for mode in (True, False))
    assert (ram.in_memory, disk.in_memory) == (True, False)
    for item in fields(ram.episodes):
        np.testing.assert_array_equal(
            getattr(ram.episodes, item.name), getattr(disk.episodes, item.name)
        )
    for length in (1, 7, 30, 50):
        rows, start = random_windows(ram, rng, 32)
        assert_same(ram.windows(rows, start, length), disk.windows(rows, start, length))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    folder = tmp_path_factory.mktemp("vectors")
    write_dataset(folder, VECTOR)
    return Dataset.open(folder, in_memory=True), Dataset.open(folder, in_memory=False)


@given(data=st.data(), length=st.integers(1, 45), count=st.integers(0, 6))
def test_a_window_is_the_cut_of_its_trajectory(
    vectors: tuple[Dataset, Dataset], data: st.DataObject, length: int, count: int
) -> None:
    ram, disk = vectors
    rows = [data.draw(st.integers(0, len(ram) - 1)) for _ in range(count)]
    start = [data.draw(st.integers(0, int(ram.episodes.length[row]) - 1)) for row in rows]
    batch = ram.windows(rows, start, length)
    assert_same(batch, disk.windows(rows, start, length))
    assert batch.states.shape == (count, length, 7)
    for i, (row, begin) in enumerate(zip(rows, start, strict=True)):
        whole = ram.trajectory(row)
        cut = whole.cut(begin, begin + length)
        size = len(cut)
        steps = slice(begin, cut.stop)
        assert batch.mask[i].tolist() == [True] * size + [False] * (length - size)
        np.testing.assert_array_equal(batch.states[i, :size], whole.states[steps])
        np.testing.assert_array_equal(batch.actions[i, :size], whole.actions[steps])
        np.testing.assert_array_equal(batch.rewards[i, :size], whole.rewards[steps])
        to_go = returns_to_go(whole.rewards)
        np.testing.assert_array_equal(batch.returns_to_go[i, :size], to_go[steps])
        assert batch.timesteps[i, :size].tolist() == list(range(begin, cut.stop))
        for item in fields(Batch):
            assert not getattr(batch, item.name)[i, size:].any()


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 5))
def test_returns_to_go_stop_at_every_episodes_end(lengths: list[int], trailing: int) -> None:
    rewards = np.random.default_rng(0).normal(size=sum(lengths) + trailing).astype(np.float32)
    expected = [np.zeros(0, np.float32)]
    for part in np.split(rewards[: sum(lengths)], np.cumsum(lengths, dtype=int))[:-1]:
        expected.append(returns_to_go(part))
    got = returns_to_go_by_episode(rewards, np.asarray(lengths, np.int64))
    np.testing.assert_array_equal(got, [*np.concatenate(expected), *[0] * trailing])


@MODES
def test_a_subset_is_the_same_as_opening_it(
    tmp_path: Path, in_memory: bool, rng: np.random.Generator
) -> None:
    write_dataset(tmp_path)
    whole = Dataset.open(tmp_path, in_memory=in_memory)
    part = whole.select([7, 4])
    opened = Dataset.open(tmp_path, tasks=[4, 7, 7], in_memory=in_memory)
    assert part.tasks == opened.tasks == (4, 7)
    assert set(part.episodes.task.tolist()) == {4, 7}
    rows, start = random_windows(part, rng, 20)
    assert_same(part.windows(rows, start, 12), opened.windows(rows, start, 12))
    assert part.sha256 == whole.sha256 == opened.sha256
    assert part._steps is whole._steps
    np.testing.assert_array_equal(part.history(7).states, whole.history(7).states)


@MODES
def test_a_history_comes_back_whole_but_for_its_trailing_steps(
    tmp_path: Path, in_memory: bool
) -> None:
    for history in write_dataset(tmp_path):
        read = Dataset.open(tmp_path, in_memory=in_memory).history(history.task)
        assert len(read.rewards) == history.lengths.sum() == len(history.rewards) - 4
        for name in ("states", "actions", "rewards"):
            whole = getattr(history, name)
            np.testing.assert_array_equal(getattr(read, name), whole[: len(read.rewards)])
        np.testing.assert_array_equal(read.lengths, history.lengths)


@MODES
def test_a_task_without_a_complete_episode_is_kept_but_has_no_rows(
    tmp_path: Path, in_memory: bool, rng: np.random.Generator
) -> None:
    empty, full = (random_history(t, GRID, rng, episodes=e) for t, e in ((0, 0), (1, 3)))
    files = [write_history(tmp_path, history, GRID) for history in (empty, full)]
    write_manifest(tmp_path, manifest_of(files, GRID))
    dataset = Dataset.open(tmp_path, in_memory=in_memory)
    assert dataset.tasks == (0, 1)
    assert dataset.episodes.task.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(dataset.trajectory(0).rewards, full.rewards[: full.lengths[0]])
    with pytest.raises(ValueError, match="no complete episode"):
        dataset.history(0)
    assert len(dataset.select([0])) == 0


@MODES
def test_wrong_requests_say_what_is_wrong(tmp_path: Path, in_memory: bool) -> None:
    write_dataset(tmp_path)
    dataset = Dataset.open(tmp_path, in_memory=in_memory)
    behind = int(dataset.episodes.length[0])
    for rows, start, length, message in (
        ([0], [behind], 5, rf"0 <= start < length; got start {behind}"),
        ([0, 0], [0, -1], 5, "got start -1"),
        ([0], [0], 0, "at least 1"),
        ([0, 1], [0], 5, "two lists of one length"),
        ([0.5], [0], 5, "whole numbers"),
        ([-1], [0], 5, "episode rows"),
        ([len(dataset)], [0], 5, "episode rows"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            dataset.windows(rows, start, length)
    with pytest.raises(ValueError, match=r"tasks \[9\] are not in this dataset"):
        dataset.select([9])
    with pytest.raises(ValueError, match="at least one task"):
        Dataset.open(tmp_path, tasks=[])


def test_batches_do_not_share_memory_with_the_dataset(tmp_path: Path) -> None:
    write_dataset(tmp_path, VECTOR)
    dataset = Dataset.open(tmp_path, in_memory=True)
    before = dataset.windows([0], [0], 10)
    again = dataset.windows([0], [0], 10)
    again.states.fill_(7)
    again.rewards.fill_(7)
    assert_same(before, dataset.windows([0], [0], 10))


def test_ram_is_used_only_if_half_of_what_is_free_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path)
    dataset = Dataset.open(tmp_path)
    assert dataset.in_memory
    assert "in RAM" in repr(dataset)
    need = reader.memory_needed(GRID, dataset.manifest.files)
    assert need == sum(entry.transitions for entry in dataset.manifest.files) * (2 + 1 + 8)
    for free, in_memory in ((2 * need, True), (2 * need - 2, False)):
        monkeypatch.setattr(reader, "free_memory", lambda free=free: free)
        assert Dataset.open(tmp_path).in_memory is in_memory


def test_threads_may_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_opened", lru_cache(maxsize=1)(store._opened.__wrapped__))
    write_dataset(tmp_path)
    disk, ram = (Dataset.open(tmp_path, in_memory=mode) for mode in (False, True))
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(15):
                rows, start = random_windows(disk, rng, 8)
                assert_same(disk.windows(rows, start, 9), ram.windows(rows, start, 9))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def _child(dataset: Dataset, connection) -> None:
    before = store._opened.cache_info().misses
    batch = dataset.windows([0, 3], [0, 0], 9)
    connection.send((batch.states.numpy().tolist(), store._opened.cache_info().misses - before))


@pytest.mark.parametrize(("method", "workers"), [("fork", 3), ("spawn", 1)])
def test_every_worker_opens_its_own_handles(tmp_path: Path, method: str, workers: int) -> None:
    write_dataset(tmp_path)
    dataset = Dataset.open(tmp_path, in_memory=False)
    expected = dataset.windows([0, 3], [0, 0], 9)
    context = multiprocessing.get_context(method)
    for _ in range(workers):
        ours, theirs = context.Pipe()
        worker = context.Process(target=_child, args=(dataset, theirs))
        worker.start()
        assert ours.poll(60)
        states, opened = ours.recv()
        worker.join()
        assert worker.exitcode == 0
        assert states == expected.states.tolist()
        assert opened == len({int(dataset.episodes.task[row]) for row in (0, 3)})
        assert_same(dataset.windows([0, 3], [0, 0], 9), expected)


def test_a_relative_folder_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    dataset = Dataset.open("data", in_memory=False)
    monkeypatch.chdir("/")
    assert len(dataset.trajectory(0)) == dataset.episodes.length[0]


CAPPED = """
import resource, sys
import numpy as np, psutil, torch
from radt.data import Dataset

torch.set_num_threads(1)
spare = 32 * 2**20
folder, size = sys.argv[1], int(sys.argv[2])
limit = psutil.Process().memory_info().vms + spare
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    np.ones(size, np.uint8)
except MemoryError:
    print("capped")
dataset = Dataset.open(folder)
assert not dataset.in_memory
rng, total = np.random.default_rng(0), 0.0
for _ in range(20):
    rows = rng.integers(0, len(dataset), 16)
    batch = dataset.windows(rows, rng.integers(0, dataset.episodes.length[rows]), 20)
    total += float(batch.states.double().sum())
print(total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the cap is that of Linux")
def test_sampling_works_under_a_memory_cap_smaller_than_the_data(tmp_path: Path) -> None:
    spaces = TaskSpaces(StateSpace("vector", (256,)), ActionSpace("discrete", 2), 100, 1.0)
    rng = np.random.default_rng(0)
    files = []
    for task in range(6):
        states = rng.random((10_000, 256), dtype=np.float32)
        zeros = np.zeros(10_000)
        history = History(task, states, zeros.astype(int), zeros, np.full(100, 100))
        files.append(write_history(tmp_path, history, spaces))
    write_manifest(tmp_path, manifest_of(files, spaces))
    size = reader.memory_needed(spaces, files)
    assert size > 58 * 2**20
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(root / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", CAPPED, str(tmp_path), str(size)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    capped, total = done.stdout.split()
    assert capped == "capped"
    ram, rng, expected = Dataset.open(tmp_path, in_memory=True), np.random.default_rng(0), 0.0
    for _ in range(20):
        rows, start = random_windows(ram, rng, 16)
        expected += float(ram.windows(rows, start, 20).states.double().sum())
    assert float(total) == expected
