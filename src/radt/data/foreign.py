"""Arrays from files that others wrote: `.npz` and HDF5, looked at before they are read.

Pickles are refused, since reading one can run any code, and so is what would not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import h5py
import numpy as np
from numpy.typing import NDArray

from radt.data.manifest import DataError
from radt.data.store import array_risk
from radt.files import open_plain
from radt.room import check_room

HDF5 = (".hdf5", ".h5")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib")
_ERRORS = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    KeyError,
    RuntimeError,
    MemoryError,
    BadZipFile,
)
CUT_IT = "cut it into smaller files, one for each task"
_AS_ARRAYS = (
    "reading a pickle can run any code. Where you trust it, load it yourself and save its arrays: "
    "np.savez('mine.npz', observations=..., actions=..., rewards=..., dones=...)"
)


def read_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Read those of the named arrays that a file has."""
    if path.suffix in PICKLES:
        raise DataError(f"{path} is refused: {_AS_ARRAYS}")
    try:
        return _of_hdf5(path, names) if path.suffix in HDF5 else _of_npz(path, names)
    except PermissionError:
        raise  # one that may not be read is not damaged
    except _ERRORS as error:
        kind = "HDF5" if path.suffix in HDF5 else ".npz"
        raise DataError(f"{path} is no readable {kind} file of plain arrays ({error})") from error


def _of_npz(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    with open_plain(path) as opened, np.load(opened, allow_pickle=False) as file:
        found = [name for name in file.files if name in names]
        claimed = sum(_claimed_bytes(path, file.zip, name) for name in found)
        check_room(f"{path}: its arrays", claimed, CUT_IT, DataError)
        return {name: file[name] for name in found}


def _claimed_bytes(path: Path, archive: ZipFile, name: str) -> int:
    """Return how much memory an array of an archive asks for, from its header."""
    with archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(member)
    if dtype.hasobject:
        raise DataError(
            f"{path}: its {name!r} holds Python objects, which are pickled: {_AS_ARRAYS}"
        )
    claimed, held = math.prod(shape) * dtype.itemsize, archive.getinfo(f"{name}.npy").file_size
    if claimed > held:
        raise ValueError(f"its {name!r} claims {claimed} bytes and holds {held}")
    return claimed


def _of_hdf5(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    open_plain(path).close()
    with h5py.File(path, "r", locking=False) as file:
        found = [name for name in file if name in names]
        for name in found:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"its {name!r} is a link to elsewhere")
            if file.get(name, getclass=True) is not h5py.Dataset:
                raise ValueError(f"its {name!r} is not an array")
            if risk := array_risk(file[name]):
                raise ValueError(f"its {name!r} {risk}")
        claimed = sum(file[name].nbytes for name in found)
        check_room(f"{path}: its arrays", claimed, CUT_IT, DataError)
        return {name: file[name][()] for name in found}
