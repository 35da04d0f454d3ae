"""Learning histories on disk: one HDF5 file per task, written atomically, opened with suspicion.

A file is hashed before HDF5 parses a byte of it, and its layout is compared with the manifest
before an array is read: nothing in it can point elsewhere, run code or ask for unlimited memory.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from radt.data.manifest import (
    ArraySpec,
    DataError,
    TaskFile,
    array_specs,
    check_spaces,
    is_plain_name,
    unusable,
)
from radt.files import atomic_write, sha256
from radt.room import check_room
from radt.spaces import TaskSpaces, is_whole_number, value_problem

MAX_OPEN_FILES = 128  # of one process
CHUNK_STEPS = 4096
IMAGE_CHUNK_BYTES = 3 * 2**16  # a window unpacks few frames beside its own
CHUNK_BYTES = 2**20
MAX_CHUNK_BYTES = 64 * 2**20
DEFLATED = 1040  # how many times smaller deflate makes a file at most
CLOCK_TICK_NS = 2 * 10**9  # the coarsest time stamp of a file system
_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
_HDF5_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError)


@dataclass(frozen=True)
class History:
    """All episodes of one agent while it learned one task, in order."""

    task: int
    states: NDArray[np.generic]  # [N, *state_shape]
    actions: NDArray[np.generic]  # [N] integers, or [N, action_size] floats
    rewards: NDArray[np.float32]  # [N]
    lengths: NDArray[np.int32]  # [E] of complete episodes; steps after the last are kept, unused
    levels: NDArray[np.int32] | None = None  # [E] on which of its task's levels, where it has some


def home() -> Path:
    """Return the folder that holds all datasets: `$RADT_HOME`, or `./data`."""
    return Path(os.environ.get("RADT_HOME") or "data")


def dataset_folder(env: str, source: str, seed: int) -> Path:
    """Name the folder of one dataset, e.g. `data/dark-room-10x10/ppo-seed0`."""
    for name in (env, source):
        if not is_plain_name(name):
            raise ValueError(f"{name!r} cannot name a folder: use letters, digits, '.', '_', '-'")
    return home() / env / f"{source}-seed{seed}"


def task_file(task: int) -> str:
    """Name the file of one task."""
    return f"task-{task:05d}.h5"


def write_history(folder: Path, history: History, spaces: TaskSpaces) -> TaskFile:
    """Check a history against its spaces, write it to a file of its own and describe the file."""
    check_spaces(spaces)
    if not is_whole_number(history.task):
        raise ValueError(f"its task is {history.task!r}; a task is a whole number from 0 on")
    has_levels = history.levels is not None
    specs = array_specs(spaces, len(history.rewards), len(history.lengths), has_levels)
    arrays = {s.name: as_stored(getattr(history, s.name), s, spaces) for s in specs}
    if arrays["lengths"].sum(dtype=np.int64) > len(history.rewards):
        raise ValueError("the episodes are longer than the whole history")
    name = task_file(history.task)
    counts = len(history.rewards), len(history.lengths)
    entry = TaskFile(history.task, name, "0" * 64, *counts, specs)  # checks before it is written
    atomic_write(folder / name, lambda temporary: _write_arrays(temporary, specs, arrays))
    return replace(entry, sha256=sha256(folder / name))


@dataclass(frozen=True)
class OpenTask:
    """One task's file, open and checked."""

    path: Path
    spaces: TaskSpaces
    file: h5py.File
    arrays: dict[str, h5py.Dataset]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read the steps `start` to `stop` (excluded) of one array and check their values."""
        if stop is None:
            needed = self.arrays[name].nbytes
            check_room(f"{self.path}: its {name}", needed, "free some first", DataError)
        try:
            values: NDArray[Any] = self.arrays[name][start:stop]
        except _HDF5_ERRORS as error:
            problem = f"its {name} cannot be read ({error}); if memory is short, free some first"
            raise unusable(self.path, problem) from error
        wrong = value_problem(name, values, self.spaces)
        if wrong:
            raise unusable(self.path, wrong)
        return values

    def close(self) -> None:
        self.file.close()


def open_task(folder: Path, entry: TaskFile, spaces: TaskSpaces) -> OpenTask:
    """Open a task's file for reading, once its hash and its layout are what the manifest says."""
    path = folder / entry.file
    _check_hash(path, entry.sha256)
    try:
        # A file that is only replaced whole needs no lock; random windows gain nothing from HDF5's
        # chunk cache, which would take megabytes for each array of each open file.
        file = h5py.File(path, "r", locking=False, rdcc_nbytes=0)
    except _HDF5_ERRORS as error:
        raise unusable(path, f"not a readable HDF5 file ({error})") from error
    try:
        problem = _layout_problem(file, entry.arrays)
        if not problem:
            return OpenTask(path, spaces, file, {s.name: file[s.name] for s in entry.arrays})
    except _HDF5_ERRORS as error:
        problem = f"its structure is damaged ({error})"
    file.close()
    raise unusable(path, problem)


def open_task_here(folder: Path, entry: TaskFile, spaces: TaskSpaces) -> OpenTask:
    """Return this process' own handle of a file; one inherited over a fork is not used."""
    return _opened(os.getpid(), folder, entry, spaces)


@lru_cache(maxsize=MAX_OPEN_FILES)
def _opened(process: int, folder: Path, entry: TaskFile, spaces: TaskSpaces) -> OpenTask:
    return open_task(folder, entry, spaces)  # closes with its last user, perhaps another thread


def as_stored(given: Any, spec: ArraySpec, spaces: TaskSpaces) -> NDArray[Any]:
    """Bring an array to its stored type if no value is lost by that."""
    values, stored = np.asarray(given), np.dtype(spec.dtype)
    if values.shape != spec.shape:
        raise ValueError(
            f"the {spec.name} have shape {values.shape}, but the spaces and the number of rewards "
            f"and lengths ask for {spec.shape}"
        )
    if values.dtype.kind not in ("iu" if stored.kind in "iu" else "iuf"):
        raise ValueError(f"the {spec.name} are {values.dtype}, but must be stored as {stored}")
    if stored.kind == "f":
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            values = values.astype(stored)
    problem = value_problem(spec.name, values, spaces)
    if problem:
        raise ValueError(problem)
    return values.astype(stored, copy=False)


def _write_arrays(path: Path, specs: tuple[ArraySpec, ...], arrays: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for spec in specs:
            values = arrays[spec.name]
            if spec.name in ("lengths", "levels"):
                file.create_dataset(spec.name, data=values)
                continue
            row_bytes = max(1, values.itemsize * math.prod(spec.shape[1:]))
            is_image = values.dtype == np.uint8 and row_bytes >= 1024  # only these pack well
            most = IMAGE_CHUNK_BYTES if is_image else CHUNK_BYTES
            steps = max(1, min(CHUNK_STEPS, most // row_bytes, len(values)))
            packing = {"compression": "gzip", "compression_opts": 1} if is_image else {}
            file.create_dataset(spec.name, data=values, chunks=(steps, *spec.shape[1:]), **packing)


_verified: dict[tuple[str, int, int, int], str] = {}  # (path, inode, size, mtime) -> sha256


def _check_hash(path: Path, expected: str) -> None:
    """Compare a file's content with its hash, once per process while the file stays the same."""
    if not path.is_file():
        raise unusable(path, "the file is missing")
    if path.resolve().parent != path.parent.resolve():
        raise unusable(path, "the file is a link that leaves the dataset's folder")
    status = path.stat()
    key = (str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns)
    content = _verified.get(key) or sha256(path)  # one that may not be read is not damaged
    if time.time_ns() - status.st_mtime_ns > CLOCK_TICK_NS:  # else a change could keep its time
        _verified[key] = content
    if content != expected:
        raise unusable(path, "its content is not what the manifest says (sha256 differs)")


def _layout_problem(file: h5py.File, specs: tuple[ArraySpec, ...]) -> str | None:
    """Say what a file has that it may not have, without reading an array or following a link."""
    expected = {spec.name for spec in specs}
    if len(file) != len(expected) or set(file) != expected:
        return f"it must hold exactly {sorted(expected)}"
    for spec in specs:
        if not isinstance(file.get(spec.name, getlink=True), h5py.HardLink):
            return f"its {spec.name!r} is a link to elsewhere"
        if file.get(spec.name, getclass=True) is not h5py.Dataset:
            return f"its {spec.name!r} is not an array"
        problem = _array_problem(file[spec.name], spec)
        if problem:
            return f"its {spec.name!r} {problem}"
    return None


def _array_problem(array: h5py.Dataset, spec: ArraySpec) -> str | None:
    if array.dtype != np.dtype(spec.dtype):
        return f"has elements of type {array.dtype}, not {spec.dtype}"
    if array.shape != spec.shape:
        return f"has shape {array.shape}, not {spec.shape}"
    return array_risk(array)


def array_risk(array: h5py.Dataset) -> str | None:
    """Say why an array cannot be read without risk, if so."""
    if array.is_virtual or array.external:
        return "takes its values from other files"
    if array.dtype.hasobject:
        return f"has elements of type {array.dtype}, not plain numbers"
    properties = array.id.get_create_plist()
    filters = {properties.get_filter(i)[0] for i in range(properties.get_nfilters())}
    if not filters <= _FILTERS:  # HDF5 would look for a plug-in library and load it
        return f"uses the filters {sorted(filters - _FILTERS)}, which are not allowed"
    if array.chunks and math.prod(array.chunks) * array.dtype.itemsize > MAX_CHUNK_BYTES:
        return f"has chunks of more than {MAX_CHUNK_BYTES} bytes"
    packed = DEFLATED if filters & {h5py.h5z.FILTER_DEFLATE} else 1
    if array.nbytes > packed * array.id.get_storage_size():
        return f"claims {array.nbytes} bytes and holds {array.id.get_storage_size()}"
    return None
