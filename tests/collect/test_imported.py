"""Histories from files of others: what is read, and what is refused with file, task and index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from radt.collect import CollectError, record_histories
from radt.collect.imported import MinariOptions, NpzOptions
from radt.data import DataError, Dataset
from radt.data.minari import to_minari
from radt.envs import SUITES
from radt.envs.suite import TaskSuite
from radt.memory.demonstrations import write_npz
from radt.trajectory import Trajectory
from tests.toys import TOY_ENCODED, TOY_GRID, TOY_REACH, Plain, histories


def read(toy: TaskSuite, path: Path, folder: Path, split: str = "train") -> Dataset:
    options: Any = NpzOptions(path=str(path), split=split)
    suite: Any = Plain(toy)
    return Dataset.open(record_histories(suite, options, folder, quiet=True, source="npz"))


def assert_same(dataset: Dataset, episodes: Mapping[int, list[Trajectory]]) -> None:
    wanted = [episode for own in episodes.values() for episode in own]
    assert len(dataset) == len(wanted)
    for row, episode in enumerate(wanted):
        found = dataset.trajectory(row)
        assert (found.task, found.episode) == (episode.task, episode.episode)
        for name in ("states", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(found, name), getattr(episode, name))


def flat(episodes: list[Trajectory]) -> dict[str, Any]:
    """Write steps as the paper's authors do: one task, axes of one, and an episode cut off."""
    cut = episodes[-1]
    every = [*episodes, Trajectory(cut.states[:5], cut.actions[:5], cut.rewards[:5], 0, 0)]
    dones = [step == len(cut) - 1 for episode in every for step in range(len(episode))]
    states, actions, rewards = (
        np.concatenate([getattr(episode, name) for episode in every])
        for name in ("states", "actions", "rewards")
    )
    return {
        "observations": states[:, None].astype(np.float64),
        "next_observations": states[:, None],
        "actions": actions[:, None].astype(np.int64 if actions.ndim == 1 else np.float32),
        "rewards": rewards[:, None],
        "dones": np.array(dones)[:, None],
    }


@pytest.mark.parametrize("toy", [TOY_GRID, TOY_REACH, TOY_ENCODED], ids=lambda toy: toy.name)
def test_our_own_files(toy: Any, tmp_path: Path) -> None:
    episodes = histories(toy, 3, 0)
    write_npz(tmp_path / "x.npz", [one for own in episodes.values() for one in own])
    assert_same(read(toy, tmp_path / "x.npz", tmp_path / "data"), episodes)


@pytest.mark.parametrize("toy", [TOY_GRID, TOY_REACH], ids=lambda toy: toy.name)
def test_the_authors_files_of_one_task_each(toy: Any, tmp_path: Path) -> None:
    episodes = histories(toy, 3, 0)
    for number, own in enumerate(episodes.values()):
        np.savez(tmp_path / f"goal_{number + 8}.npz", **flat(own))  # 10 comes after 9
    assert_same(read(toy, tmp_path, tmp_path / "data"), episodes)


def test_the_authors_files_of_one_episode_each(tmp_path: Path) -> None:
    episodes = histories(TOY_ENCODED, 3, 0)
    for number, own in enumerate(episodes.values()):
        (tmp_path / f"game{number}").mkdir()
        for one in own:
            with h5py.File(tmp_path / f"game{number}" / f"2024_{one.episode}.hdf5", "w") as file:
                file["states"] = np.zeros((len(one), 3, 64, 64), np.uint8)
                file.create_dataset("states_encoded", data=one.states, compression="gzip")
                file["actions"], file["rewards"] = one.actions, one.rewards
                file["dones"], file["returns_to_go"] = one.rewards, one.rewards
    assert_same(read(TOY_ENCODED, tmp_path, tmp_path / "data"), episodes)


def test_a_split_says_whose_files_they_are(tmp_path: Path) -> None:
    (files := tmp_path / "files").mkdir()
    for number in range(6):
        np.savez(files / f"{number}.npz", **flat(histories(TOY_GRID, 2, 0)[0]))
    dataset = read(TOY_GRID, files, tmp_path / "data", "all")
    assert dataset.tasks == TOY_GRID.train_tasks  # those of unseen tasks are not even read
    with pytest.raises(CollectError, match="6 files or folders are more than the 4 tasks"):
        read(TOY_GRID, files, tmp_path / "other")
    with pytest.raises(CollectError, match="has no split 'seen'"):
        read(TOY_GRID, files, tmp_path / "none", "seen")


BAD: list[tuple[Any, str, int, Any, str]] = [
    (TOY_GRID, "observations", 14, 9, "episode 1: states from .* first at step 2: "),
    (TOY_GRID, "observations", 14, 0.5, "episode 1: the states are float64"),
    (TOY_GRID, "actions", 3, 77, "episode 0: actions from .* first at step 3: 77"),
    (
        TOY_REACH,
        "actions",
        13,
        1.5,
        r"episode 1: actions from .* leave \[-1, 1\], first at step 1: ",
    ),
    (TOY_REACH, "observations", 12, np.nan, "episode 1: some states .* first at step 0: "),
    (TOY_REACH, "rewards", 23, np.inf, "episode 1: some rewards .* first at step 11: inf"),
    (TOY_GRID, "dones", 11, False, "episode 0: 24 steps are not 1 to 12, the horizon"),
]


@pytest.mark.parametrize(("toy", "name", "step", "value", "says"), BAD)
def test_an_error_names_file_task_and_index(
    toy: Any, name: str, step: int, value: Any, says: str, tmp_path: Path
) -> None:
    arrays = flat(histories(toy, 2, 0)[0])
    arrays[name][step] = value
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(CollectError, match=rf"mine\.npz: task 0, {says}"):
        read(toy, tmp_path, tmp_path / "data")


def test_files_that_lack_something_are_refused(tmp_path: Path) -> None:
    arrays = flat(histories(TOY_GRID, 2, 0)[0])
    for name, says in (
        ("dones", "need as many `dones`"),
        ("actions", r"has no actions, only .*'dones'"),
        ("observations", "has no observations"),
    ):
        np.savez(tmp_path / "x.npz", **{key: arrays[key] for key in arrays if key != name})
        with pytest.raises(CollectError, match=says):
            read(TOY_GRID, tmp_path, tmp_path / "data")
    np.savez(tmp_path / "x.npz", **arrays | {"rewards": arrays["rewards"][1:]})
    with pytest.raises(CollectError, match="as many states as actions and rewards"):
        read(TOY_GRID, tmp_path, tmp_path / "data")
    with pytest.raises(CollectError, match=r"no file or folder.*collect\.path"):
        read(TOY_GRID, tmp_path / "nothing", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CollectError, match=r"no \.npz and no HDF5 files"):
        read(TOY_GRID, tmp_path / "empty", tmp_path / "other")


class Trap:
    """Would be heard if it were ever unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("it was unpickled",))


def test_pickles_are_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "buffer.pkl").write_bytes(b"cbuiltins\nexit\n(tR.")
    with pytest.raises(DataError, match=r"buffer\.pkl is refused.*np\.savez"):
        read(TOY_GRID, tmp_path, tmp_path / "data")
    (tmp_path / "buffer.pkl").unlink()
    objects = np.array([Trap()], object)
    np.savez(tmp_path / "x.npz", **flat(histories(TOY_GRID, 2, 0)[0]) | {"actions": objects})
    with pytest.raises(DataError, match=r"'actions' holds Python objects.*np\.savez"):
        read(TOY_GRID, tmp_path, tmp_path / "data")


def test_what_claims_more_than_memory_is_refused_unread(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 8), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in ("observations", "actions", "rewards", "dones"):
            head = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
            archive.writestr(f"{name}.npy", head)
    with pytest.raises(DataError, match=r"'observations' claims \d+ bytes and holds \d+"):
        read(TOY_GRID, tmp_path, tmp_path / "data")


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_what_does_not_fit_into_memory_is_refused_unread(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = flat(histories(TOY_GRID, 2, 0)[0])
    if kind == "npz":
        np.savez(tmp_path / "x.npz", **arrays)
    else:
        with h5py.File(tmp_path / "x.hdf5", "w") as file:
            file.update(arrays)
    monkeypatch.setattr("radt.room.SMALL", 0)
    monkeypatch.setattr("radt.room.free_memory", lambda: 100)
    with pytest.raises(DataError, match="GB of memory are free"):
        read(TOY_GRID, tmp_path, tmp_path / "data")


def test_links_and_odd_filters_of_hdf5_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["states"] = h5py.ExternalLink("other.hdf5", "states")
    with pytest.raises(DataError, match="a link to elsewhere"):
        read(TOY_GRID, tmp_path, tmp_path / "data")


def test_minari_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    episodes = histories(TOY_REACH, 2, 0)
    written = [one for own in episodes.values() for one in own]
    to_minari("toy/reach-v0", written, TOY_REACH.spaces)
    suite: Any = Plain(TOY_REACH)

    def imported(name: str, **options: Any) -> Dataset:
        chosen: Any = MinariOptions(dataset_id="toy/reach-v0", **options)
        folder = tmp_path / name
        return Dataset.open(record_histories(suite, chosen, folder, quiet=True, source="minari"))

    assert_same(imported("usual"), episodes)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))
    assert_same(imported("given", path=str(tmp_path / "minari")), episodes)
    one = imported("one", path=str(tmp_path / "minari"), task=3)
    assert one.tasks == (3,)
    assert len(one) == len(written)
    with pytest.raises(CollectError, match=r"toy/reach-v0, episode 0: task 99"):
        imported("wrong", path=str(tmp_path / "minari"), task=99)
    with pytest.raises(DataError, match="cannot be read"):
        imported("gone")
    with pytest.raises(CollectError, match=r"collect\.dataset_id"):
        record_histories(suite, MinariOptions(), tmp_path / "x", quiet=True, source="minari")


def test_a_registered_suite_reads_them_by_name(tmp_path: Path) -> None:
    suite = SUITES["dark-room-10x10"]
    room = histories(suite, 1, 0)
    write_npz(tmp_path / "x.npz", [own[0] for own in list(room.values())[:2]])
    options = NpzOptions(path=str(tmp_path / "x.npz"))
    folder = record_histories(suite, options, tmp_path / "data", quiet=True, source="npz")
    assert Dataset.open(folder).manifest.source == "npz"
