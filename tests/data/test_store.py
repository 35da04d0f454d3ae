from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from radt.data import (
    DataError,
    Dataset,
    History,
    dataset_folder,
    home,
    read_manifest,
    write_history,
    write_manifest,
)
from radt.files import sha256
from radt.spaces import TaskSpaces
from tests.data.histories import GRID, IMAGE, SPACES, VECTOR, random_history, write_dataset

TASK = "task-00004.h5"


def accept_hash(folder: Path) -> None:
    """Make the manifest agree with the files, as one who forges both would do."""
    manifest = read_manifest(folder)
    files = (dataclasses.replace(f, sha256=sha256(folder / f.file)) for f in manifest.files)
    write_manifest(folder, dataclasses.replace(manifest, files=tuple(files)))


@pytest.mark.parametrize("kind", SPACES)
def test_every_array_is_kept_in_order(tmp_path: Path, kind: str) -> None:
    histories = write_dataset(tmp_path, SPACES[kind])
    for history, entry in zip(histories, read_manifest(tmp_path).files, strict=True):
        with h5py.File(tmp_path / entry.file) as file:
            for name in ("states", "actions", "rewards", "lengths"):
                np.testing.assert_array_equal(file[name][:], getattr(history, name))
        assert (entry.transitions, entry.episodes) == (len(history.rewards), len(history.lengths))


def test_the_same_history_gives_the_same_bytes(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a", IMAGE)
    write_dataset(tmp_path / "b", IMAGE)
    assert sha256(tmp_path / "a" / TASK) == sha256(tmp_path / "b" / TASK)


def test_files_are_chunked_by_steps(tmp_path: Path, rng: np.random.Generator) -> None:
    long = random_history(0, GRID, rng, episodes=600)
    entry = write_history(tmp_path, long, GRID)
    with h5py.File(tmp_path / entry.file) as file:
        assert file["states"].chunks == (4096, 2)
    entry = write_history(tmp_path, random_history(1, IMAGE, rng, episodes=120), IMAGE)
    with h5py.File(tmp_path / entry.file) as file:
        assert file["states"].chunks == (3 * 2**16 // 1200, 3, 20, 20)
        assert file["states"].compression == "gzip"


def read_all(folder: Path, in_memory: bool) -> None:
    """Open a dataset and read a task; on disk, states and actions are looked at only then."""
    Dataset.open(folder, in_memory=in_memory).history(4)


def _with(**changes: Any) -> Callable[[History], History]:
    return lambda history: dataclasses.replace(history, **changes)


def _at(name: str, value: Any, kind: str | None = None) -> Callable[[History], History]:
    def change(history: History) -> History:
        values = getattr(history, name).astype(kind) if kind else getattr(history, name).copy()
        values[3] = value
        return dataclasses.replace(history, **{name: values})

    return change


@pytest.mark.parametrize(
    ("change", "spaces", "message"),
    [
        (_at("states", [6, 0]), GRID, r"states from 0 to 8 are not in 0\.\.\[5, 8\]"),
        (_at("states", [-1, 0]), GRID, "states from -1"),
        (_at("states", 256), IMAGE, "to 256 are not in"),
        (_at("states", np.nan), VECTOR, "not finite"),
        (_at("states", 1e300, "float64"), VECTOR, "not finite"),
        (_at("states", 1.5, "float64"), GRID, "must be stored as uint8"),
        (_at("actions", 5), GRID, "actions from 0 to 5"),
        (_at("actions", np.inf), VECTOR, "actions are not finite numbers, first at step 3"),
        (_at("actions", 1.5), VECTOR, r"leave \[-1, 1\], first at step 3: \[1.5, 1.5, 1.5\]"),
        (_at("rewards", np.nan), GRID, "rewards are not finite"),
        (_at("lengths", 0), GRID, "lengths from 0"),
        (_at("lengths", 31), GRID, r"31 are not in 1\.\.30"),
        (_with(rewards=np.zeros(3, np.float32)), GRID, "the states have shape"),
        (_with(lengths=np.full(40, 30)), GRID, "longer than the whole history"),
        (_with(task=-1), GRID, "task -1"),
        (_with(task=1.5), GRID, "its task is 1.5"),
        (_with(task="1"), GRID, "its task is '1'"),
        (
            lambda h: History(0, h.states[:0], h.actions[:0], h.rewards[:0], h.lengths[:0]),
            GRID,
            "0 episodes in 0 steps",
        ),
    ],
)
def test_a_history_that_cannot_be_is_not_written(
    tmp_path: Path,
    rng: np.random.Generator,
    change: Callable[[History], History],
    spaces: TaskSpaces,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        write_history(tmp_path, change(random_history(0, spaces, rng)), spaces)
    assert not list(tmp_path.glob("*.h5"))


# What a forged file may try: each function is given the file and what was in it.
Forge = Callable[[h5py.File, dict[str, Any]], None]


def _put(name: str, value: Any) -> Forge:
    def change(file: h5py.File, _: dict[str, Any]) -> None:
        del file[name]
        file[name] = value

    return change


def _made(name: str, kind: Any, shape: tuple[int, ...] | None = None, **options: Any) -> Forge:
    def change(file: h5py.File, old: dict[str, Any]) -> None:
        del file[name]
        file.create_dataset(name, shape or old[name].shape, kind, **options)

    return change


def _replace(name: str, make: Callable[[Any], Any], **options: Any) -> Forge:
    def change(file: h5py.File, old: dict[str, Any]) -> None:
        del file[name]
        file.create_dataset(name, data=make(old[name]), **options)

    return change


def _virtual(file: h5py.File, old: dict[str, Any]) -> None:
    del file["rewards"]
    layout = h5py.VirtualLayout(old["rewards"].shape, "f4")
    layout[:] = h5py.VirtualSource("other.h5", "rewards", old["rewards"].shape)
    file.create_virtual_dataset("rewards", layout)


def _group(file: h5py.File, _: dict[str, Any]) -> None:
    del file["states"]
    file.create_group("states")


def _missing(file: h5py.File, _: dict[str, Any]) -> None:
    del file["lengths"]


ELSEWHERE, HUGE = [("secret", 0, 2**20)], {"maxshape": (None, 2), "chunks": (2**28, 2)}
FORGERIES: dict[str, tuple[Forge, str]] = {
    "external link": (_put("states", h5py.ExternalLink("other.h5", "/states")), "is a link"),
    "soft link": (_put("actions", h5py.SoftLink("/states")), "is a link to elsewhere"),
    "external storage": (_made("rewards", "f4", external=ELSEWHERE), "from other files"),
    "virtual dataset": (_virtual, "takes its values from other files"),
    "text": (_made("rewards", h5py.string_dtype()), "elements of type object"),
    "ragged": (_made("rewards", h5py.vlen_dtype(np.float32)), "elements of type object"),
    "references": (_made("rewards", h5py.ref_dtype), "elements of type object"),
    "group": (_group, "is not an array"),
    "named type": (_put("states", np.dtype("f4")), "is not an array"),
    "surplus": (lambda file, _: file.__setitem__("code", np.zeros(3)), "must hold exactly"),
    "missing": (_missing, "must hold exactly"),
    "huge shape": (_made("states", "u1", (2**40, 2), chunks=(4096, 2)), "has shape"),
    "no values": (_made("states", "u1", chunks=(64, 2)), "claims 174 bytes and holds 0"),
    "huge chunks": (_made("states", "u1", **HUGE), "chunks of more than"),
    "other filter": (_replace("states", lambda x: x, compression="lzf"), "filters"),
    "other type": (_replace("rewards", lambda x: x.astype("f8")), "type float64"),
    "other byte order": (_replace("rewards", lambda x: x.astype(">f4")), "type >f4"),
    "other shape": (_replace("rewards", lambda x: x[:-1]), "has shape"),
    "a scalar": (_replace("rewards", lambda x: x[0]), "has shape"),
    "state out of range": (_replace("states", lambda x: x + 6), "states from"),
    "action out of range": (_replace("actions", lambda x: x + 5), "actions from"),
    "no number": (_replace("rewards", lambda x: x * np.nan), "not finite"),
    "empty episode": (_replace("lengths", lambda x: x * 0), "lengths from 0"),
    "too long": (_replace("lengths", lambda x: x * 0 + 30), "longer than its history"),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_forged_file_is_refused(tmp_path: Path, name: str, in_memory: bool) -> None:
    forge, message = FORGERIES[name]
    write_dataset(tmp_path)
    with h5py.File(tmp_path / TASK, "r+") as file:
        forge(file, {key: file[key][:] for key in file})
    with pytest.raises(DataError, match="sha256 differs"):
        Dataset.open(tmp_path, in_memory=in_memory)
    accept_hash(tmp_path)
    with pytest.raises(DataError, match=f"{TASK}.*{message}.*radt collect") as caught:
        read_all(tmp_path, in_memory)
    assert str(tmp_path) in str(caught.value)


def test_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path / "data")
    target = tmp_path / "data" / TASK
    target.rename(tmp_path / "moved.h5")
    with pytest.raises(DataError, match=r"missing.*radt collect"):
        Dataset.open(tmp_path / "data")
    target.symlink_to(tmp_path / "moved.h5")
    with pytest.raises(DataError, match="leaves the dataset's folder"):
        Dataset.open(tmp_path / "data")
    target.unlink()
    target.mkdir()
    with pytest.raises(DataError, match="missing"):
        Dataset.open(tmp_path / "data")


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / TASK).unlink()
    os.mkfifo(tmp_path / TASK)
    with pytest.raises(DataError, match="missing"):
        Dataset.open(tmp_path)


def test_only_the_chosen_tasks_files_are_needed(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / TASK).write_bytes(b"damaged")
    assert Dataset.open(tmp_path, tasks=[1, 7]).tasks == (1, 7)
    with pytest.raises(DataError, match=TASK):
        Dataset.open(tmp_path)


def test_a_changed_byte_is_refused_wherever_it_is(tmp_path: Path, rng: np.random.Generator) -> None:
    write_dataset(tmp_path)
    whole = (tmp_path / TASK).read_bytes()
    for place in rng.integers(0, len(whole), 100):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        (tmp_path / TASK).write_bytes(damaged)
        with pytest.raises(DataError, match=TASK):
            Dataset.open(tmp_path)
    (tmp_path / TASK).write_bytes(whole)
    Dataset.open(tmp_path)


FUZZ = """
import sys
from pathlib import Path
import numpy as np
from radt.data import DataError, Dataset
from tests.data.test_store import TASK, accept_hash

folder, rng = Path(sys.argv[1]), np.random.default_rng(5)
whole = (folder / TASK).read_bytes()
refused = 0
for attempt in range(60):
    damaged = bytearray(whole if attempt % 3 else whole[: rng.integers(1, len(whole))])
    for place in rng.integers(0, min(len(damaged), 4096), rng.integers(1, 4)):
        damaged[place] ^= int(rng.integers(1, 256))
    (folder / TASK).write_bytes(damaged)
    accept_hash(folder)
    try:
        Dataset.open(folder).history(4)
    except DataError:
        refused += 1
print(refused)
"""


def test_a_damaged_file_whose_hash_agrees_never_crashes(tmp_path: Path) -> None:
    write_dataset(tmp_path, tasks=(4,))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 20


def test_the_hash_is_taken_once_per_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radt.data import store

    hashed: list[str] = []
    monkeypatch.setattr(store, "_verified", {})
    monkeypatch.setattr(store, "sha256", lambda path: hashed.append(path.name) or sha256(path))
    write_dataset(tmp_path)
    for path in tmp_path.glob("*.h5"):
        os.utime(path, (1, 1))
    hashed.clear()
    Dataset.open(tmp_path, in_memory=False).trajectory(0)
    Dataset.open(tmp_path, in_memory=True)
    assert len(hashed) == 3
    whole = (tmp_path / TASK).read_bytes()
    for content in (whole[:-1] + b"?", whole, whole[:-1] + b"!"):  # at once: maybe the same time
        (tmp_path / TASK).write_bytes(content)
        if content == whole:
            Dataset.open(tmp_path)
        else:
            with pytest.raises(DataError, match="sha256"):
                Dataset.open(tmp_path)


def test_datasets_live_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RADT_HOME", raising=False)
    assert home() == Path("data")
    assert dataset_folder("dark-room-10x10", "ppo", 0) == Path("data/dark-room-10x10/ppo-seed0")
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    assert dataset_folder("a", "b", 7) == tmp_path / "a" / "b-seed7"
    with pytest.raises(ValueError, match="cannot name a folder"):
        dataset_folder("../a", "ppo", 0)
