"""Every kind of store that entries can be written to, filled with toy trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from radt.envs.suite import TaskSuite
from radt.memory.entries import Entries
from radt.memory.folder.store import FolderStore
from radt.memory.identity import Identity
from radt.memory.store import NewEntries, Store, cut_trials, open_store
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory
from tests.contracts.store import assert_same_steps
from tests.memory import postgres
from tests.toys import TOY_GRID, histories

WIDTH = 6
KINDS = (
    "ram",
    "folder",
    "shared-folder",
    "copy:folder",
    pytest.param("postgres", marks=postgres.needs_server),
)


def identity(spaces: TaskSpaces, context_len: int = 4) -> Identity:
    """Name an embedder that nobody has."""
    return Identity("0123456789abcdef", WIDTH, context_len, spaces)


def place_of(kind: str, folder: Path) -> str:
    """Name the place of a kind that belongs to a folder."""
    return postgres.place(folder) if kind == "postgres" else f"{kind}:{folder}"


def open_kind(kind: str, folder: Path, spaces: TaskSpaces, context_len: int = 4) -> Store:
    """Open an empty store of a kind, for writing."""
    return open_store(place_of(kind, folder / kind), identity(spaces, context_len))


def keys_of(entries: Entries) -> Tensor:
    """Make up a key for each entry, the same each time, [n, WIDTH]."""
    facts = torch.stack([entries.task, entries.age, entries.position], 1).double()
    return torch.sin(facts @ torch.arange(1.0, 3.0 * WIDTH + 1).double().reshape(3, WIDTH)).float()


def write(store: Store, lived: Sequence[Trajectory], identity: Identity) -> NewEntries:
    """Write trajectories in one transaction and return what was written."""
    entries, chunks = cut_trials(lived, identity.spaces, identity.halves, store.episodes)
    new = NewEntries(entries, keys_of(entries), chunks)
    store.append(new)
    return new


def some_trajectories(suite: TaskSuite) -> list[Trajectory]:
    """Roll two episodes of each of two tasks, the later ones shorter."""
    lived = histories(suite, episodes=2, tasks=suite.train_tasks[:2])
    shorten = {0: 100, 1: 7}
    return [
        Trajectory(t.states[:n], t.actions[:n], t.rewards[:n], t.task, t.episode)
        for episodes in lived.values()
        for t, n in ((t, shorten[t.episode]) for t in episodes)
    ]


def filled_folder(folder: Path, times: int = 1) -> FolderStore:
    """Write toy trajectories to a folder, one transaction each, and leave it open."""
    who = identity(TOY_GRID.spaces)
    store = FolderStore(folder, who, writing=True)
    for trajectory in times * some_trajectories(TOY_GRID):
        write(store, [trajectory], who)
    return store


def contents(store: Store) -> NewEntries:
    """Read everything."""
    chunks = store.chunks(torch.arange(len(store.entries))[:, None])
    return NewEntries(store.entries, store.keys, chunks)


def assert_same(one: NewEntries, other: NewEntries) -> None:
    """Two memories hold the same."""
    for name in one.entries.__dataclass_fields__:
        assert torch.equal(getattr(one.entries, name), getattr(other.entries, name)), name
    assert torch.equal(one.keys, other.keys)
    assert_same_steps(one.chunks, other.chunks)
