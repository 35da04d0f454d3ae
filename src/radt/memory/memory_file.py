"""A whole memory in one safetensors file with a checksum, as an agent saves and loads it.

In a file, as in a shared memory, entries stand under their task. Only inside a running agent does
each slot have a part of its own, so that two slots never mix. A file names the task of each slot;
older ones do not, and number entries by slots, or by tasks where the memory was shared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from radt.decode import DecodeError
from radt.memory.entries import Entries, blank
from radt.memory.identity import (
    MOST_TASKS,
    Identity,
    MemoryFileError,
    MemoryMismatchError,
    refuse_other,
)
from radt.memory.similarity import unit
from radt.memory.store import NewEntries
from radt.room import check_room
from radt.sealed import EDITED, BrokenSealError, read_sealed, write_sealed
from radt.spaces import TaskSpaces, value_problem
from radt.trajectory import Batch

VERSION = "2"
OPTIONAL = ("tasks", "rewards_of_trials")  # not in older files


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
        _check_columns(tensors, identity)
        _check_values(contents.chunks, identity.spaces)
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
        if version != VERSION:
            raise DecodeError(f"it says {version!r}")
        return tensors, Identity.from_json(identity)
    except DecodeError as error:
        raise MemoryFileError(
            f"{path} is no memory of format {VERSION} ({error}); give a file that Memory.save wrote"
        ) from error


def _check_columns(tensors: Mapping[str, Tensor], identity: Identity) -> None:
    """Refuse columns of different lengths, or of other shapes or types than ours."""
    like = {
        "keys": torch.zeros(0, identity.key_width),
        **_columns("entry", Entries.none()),
        **_columns("chunk", blank(identity.spaces, 0, identity.halves.chunk_len)),
    }
    count = len(tensors["keys"])
    for name, own in like.items():
        column = tensors[name]
        kind = column.ndim, column.shape[1:], column.dtype
        if kind != (own.ndim, own.shape[1:], own.dtype) or len(column) != count:
            raise ValueError(f"{name} is {column.dtype}{list(column.shape)} beside {count} keys")
    task = tensors["entry.task"]
    if count and not 0 <= int(task.min()) <= int(task.max()) < MOST_TASKS:
        raise ValueError(f"the slots of entries must lie below {MOST_TASKS}")


def _check_values(chunks: Batch, spaces: TaskSpaces) -> None:
    """Refuse steps that cannot have been experienced, which a policy could not read."""
    for name in ("states", "actions", "rewards"):
        values = getattr(chunks, name)[chunks.mask].numpy()  # [N, ...] without padding
        if problem := value_problem(name, values, spaces):
            raise ValueError(problem)


def _columns(prefix: str, record: Entries | Batch) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": getattr(record, name) for name in record.__dataclass_fields__}


def _pick(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}


def by_task(tasks: Sequence[int]) -> Tensor:
    """Return the number that the entries of each slot have in a file, [slots]."""
    if twice := [task for task in tasks if list(tasks).count(task) > 1]:
        raise MemoryMismatchError(
            f"several slots have the task {twice[0]}, and a file keeps entries by task; give each "
            "slot a task of its own, or share a memory that is saved by itself"
        )
    return torch.tensor(tasks, dtype=torch.int64)


def renumbered(contents: NewEntries, numbers: Tensor) -> NewEntries:
    """Give entries other numbers: `numbers[i]` instead of i."""
    entries = contents.entries
    return replace(contents, entries=replace(entries, task=numbers[entries.task]))


@dataclass
class SavedTasks:
    """Finds the place of a file's entries in an agent, or says why they have none."""

    path: str | Path
    slots: int
    wanted: Sequence[int] | None  # the tasks of the slots; None: those of the file will do
    shared: bool  # entries stay under their tasks, else they go to the slots of these
    tasks: list[int] = field(default_factory=list)  # of the slots, once the file is read

    def place(self, contents: NewEntries, owner: Mapping[str, Tensor]) -> NewEntries:
        """Return the entries under the numbers that the agent uses."""
        if (count := len(owner.get("trial", ()))) != self.slots:
            raise MemoryMismatchError(
                f"{self.path} was not saved by an agent of {self.slots} slots; build an agent with "
                f"as many slots as it has ({count})"
            )
        self._check(owner)
        expected = list(range(self.slots)) if self.wanted is None else list(self.wanted)
        if "tasks" not in owner:
            contents = self._of_older(contents, expected)
            self.tasks = expected
        else:
            self.tasks = owner["tasks"].tolist()
        if self.tasks != expected and self.wanted is not None:
            raise MemoryMismatchError(
                f"{self.path} was saved for the tasks {self.tasks}, but the slots of this agent "
                f"have {expected}; build it with tasks={self.tasks}"
            )
        return contents if self.shared else self._into_slots(contents)

    def _check(self, owner: Mapping[str, Tensor]) -> None:
        """Refuse what no agent can have saved of how far it has come."""
        for name in ("trial", "solved", "tasks_started", "tasks", "rewards_of_trials"):
            if name not in owner and name in OPTIONAL:
                continue
            values = owner.get(name, torch.zeros(()))
            kind = torch.bool if name == "solved" else torch.int64
            low, axes = (-1, 2) if name == "rewards_of_trials" else (0, 1)
            is_own = (values.dtype, values.ndim) == (kind, axes)
            if not is_own or len(values) != self.slots or bool((values < low).any()):
                raise MemoryFileError(
                    f"{self.path} does not say rightly how far its agent had come ({name}); give a "
                    "file that agent.save wrote, or start with an empty memory"
                )
        if "tasks" in owner and int(owner["tasks"].max()) >= MOST_TASKS:
            raise MemoryFileError(f"{self.path} has tasks beyond {MOST_TASKS - 1}; start empty")

    def _of_older(self, contents: NewEntries, tasks: list[int]) -> NewEntries:
        """Return the entries of a file that names no tasks under those of the agent."""
        found = set(contents.entries.task.tolist())
        if found <= set(range(self.slots)):
            return renumbered(contents, torch.tensor(tasks))
        if not found <= set(tasks):
            raise MemoryMismatchError(
                f"{self.path} has entries of the tasks {sorted(found)}, but the slots of this "
                f"agent have {tasks}; build it with the tasks of the agent that saved it"
            )
        return contents

    def _into_slots(self, contents: NewEntries) -> NewEntries:
        """Number entries by slots; those of tasks that no slot has stay in the file."""
        slot_of = {task: slot for slot, task in enumerate(self.tasks)}
        slots = [slot_of.get(task, -1) for task in contents.entries.task.tolist()]
        known = torch.tensor(slots, dtype=torch.int64)
        entries = replace(contents.entries, task=known)
        return replace(contents, entries=entries).rows(known >= 0)
