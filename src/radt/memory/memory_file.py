"""A whole memory in one safetensors file with a checksum, as an agent saves and loads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radt.decode import DecodeError
from radt.memory.entries import Entries, blank
from radt.memory.identity import MOST_TASKS, Identity, MemoryFileError, refuse_other
from radt.memory.similarity import unit
from radt.memory.store import NewEntries
from radt.room import check_room
from radt.sealed import EDITED, BrokenSealError, read_sealed, write_sealed
from radt.trajectory import Batch

VERSION = "2"
OLDER = ("1",)  # without a checksum


def write_file(
    path: Path, identity: Identity, contents: NewEntries, owner: Mapping[str, Tensor]
) -> None:
    """Write keys, entries and chunks, and what the owner adds."""
    tensors = {"keys": contents.keys, **_columns("entry", contents.entries)}
    tensors |= {f"owner.{name}": tensor for name, tensor in owner.items()}
    tensors |= _columns("chunk", contents.chunks)
    said = json.dumps(identity.to_json(), sort_keys=True)
    write_sealed(path, tensors, {"radt_memory": VERSION, "identity": said})


def read_file(path: Path, identity: Identity) -> tuple[NewEntries, dict[str, Tensor]]:
    """Read a memory that was saved with the same identity, and what its owner added."""
    tensors, theirs = _read(path)
    refuse_other(path, theirs, identity)
    try:
        contents = NewEntries(
            Entries(**_pick("entry", tensors)), tensors["keys"], Batch(**_pick("chunk", tensors))
        )
        _check_columns(contents, blank(identity.spaces, 0, identity.halves.chunk_len))
        if contents.keys.shape[1:] != (identity.key_width,):
            raise ValueError(f"its keys are {list(contents.keys.shape)}")
        unit(contents.keys)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise MemoryFileError(
            f"{path} is no complete memory ({error}); delete it and start with an empty one"
        ) from error
    return contents, _pick("owner", tensors)


def look_into(path: Path) -> tuple[Identity, Entries, dict[str, Any]]:
    """Read what a saved memory holds and how far its owner had come."""
    tensors, identity = _read(path)
    owner = _pick("owner", tensors)
    try:
        entries = Entries(**_pick("entry", tensors))
    except TypeError as error:
        raise MemoryFileError(f"{path} is no complete memory ({error})") from error
    told = {"tasks": "tasks_of_slots", "trial": "trials_of_slots"}
    return identity, entries, {told[n]: owner[n].tolist() for n in told if n in owner}


def _read(path: Path) -> tuple[dict[str, Tensor], Identity]:
    """Read a saved memory's tensors and what it says its keys and chunks depend on."""
    if not path.exists():
        raise MemoryFileError(f"there is no memory at {path}; save one first, or start empty")
    advice = "free some, or start with an empty memory"
    check_room(str(path), path.stat().st_size, advice, MemoryFileError)
    try:
        tensors, header, has_seal = read_sealed(path)
        version, identity = header.get("radt_memory"), json.loads(header.get("identity", "{}"))
        if not has_seal and version == VERSION:
            raise BrokenSealError(EDITED)
    except (BrokenSealError, json.JSONDecodeError, RecursionError) as error:
        problem = error if isinstance(error, BrokenSealError) else f"is damaged ({error})"
        raise MemoryFileError(
            f"{path} {problem}; delete it and start with an empty memory"
        ) from error
    try:
        if version not in (VERSION, *OLDER):
            raise DecodeError(f"it says {version!r}")
        theirs = Identity.from_json(identity)
    except DecodeError as error:
        raise MemoryFileError(
            f"{path} is no memory of format {VERSION} ({error}); give a file that Memory.save wrote"
        ) from error
    return tensors, theirs


def _check_columns(contents: NewEntries, like: Batch) -> None:
    """Refuse columns of different lengths, or of other shapes or types than ours."""
    keys, entries = contents.keys, contents.entries
    named = {"keys": keys, **_columns("entry", entries), **_columns("chunk", contents.chunks)}
    ours = {**_columns("entry", Entries.none()), **_columns("chunk", like)}
    for name, tensor in named.items():
        if tensor.ndim < 1 or len(tensor) != len(keys):
            raise ValueError(f"{name} is {list(tensor.shape)} beside {len(keys)} keys")
    for name, own in ours.items():
        if (named[name].shape[1:], named[name].dtype) != (own.shape[1:], own.dtype):
            raise ValueError(f"{name} is {named[name].dtype}{list(named[name].shape)}")
    if keys.dtype != torch.float32:
        raise ValueError(f"keys are {keys.dtype}, not torch.float32")
    if len(entries) and not 0 <= int(entries.task.min()) <= int(entries.task.max()) < MOST_TASKS:
        raise ValueError(f"the slots of entries must lie below {MOST_TASKS}")


def _columns(prefix: str, record: Entries | Batch) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": getattr(record, name) for name in record.__dataclass_fields__}


def _pick(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
