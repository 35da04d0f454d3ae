"""The external memory of a running agent: write trials, search them, forget them.

Entries are partitioned by slot: each of the tasks that run side by side has a memory of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from radt.data.reader import free_memory
from radt.files import atomic_write
from radt.memory.embed import Embedder
from radt.memory.entries import Entries, deduplicate, key_start
from radt.memory.index import INDEXES, Index
from radt.memory.retrieve import Queries, retrieve
from radt.memory.reweight import UTILITIES, reweight
from radt.memory.store import RamStore, stack
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Retrieval, Trajectory

VERSION = "1"
MOST = 100_000  # steps of a context, candidates of a search, chunks of a query, slots


@dataclass(frozen=True)
class MemoryConfig:
    """How a memory is cut, searched and weighted; the names are the paper's (see the glossary)."""

    context_len: int = 50  # C
    top_l: int = 50  # l: candidates that are reweighted
    top_k: int = 1  # k: chunks the policy reads
    alpha: float = 1.0  # weight of utility against relevance
    utility: str = "return"
    index: str = "flat"
    retrieve_every: int = 1  # steps between retrievals; 0: once, at the start of a trial
    store_above: float | None = None  # store only chunks that earned more; None: all
    dedup: float | None = None  # drop new entries more similar than this to a stored one

    def __post_init__(self) -> None:
        for name in ("context_len", "top_l", "top_k"):
            if not 1 <= getattr(self, name) <= MOST:
                raise ValueError(f"{name} must lie in 1..{MOST}, not {getattr(self, name)}")
        if self.retrieve_every < 0:
            raise ValueError(f"retrieve_every must be 0 or more, not {self.retrieve_every}")


class MemoryMismatchError(ValueError):
    """A memory that was written with another embedder or for other spaces."""


class MemoryFileError(ValueError):
    """A file that is missing, damaged, or no memory of this format."""


class Memory:
    """Keys and chunks of what an agent lived through, in RAM."""

    def __init__(self, embedder: Embedder, spaces: TaskSpaces, config: MemoryConfig) -> None:
        self.embedder, self.spaces, self.config = embedder, spaces, config
        self.store = RamStore(spaces, config.context_len)
        self.keys = torch.zeros(0, embedder.width)  # [N, d]
        self.index: Index = self._new_index()

    def __len__(self) -> int:
        return len(self.store.entries)

    @property
    def entries(self) -> Entries:
        """Where each entry comes from."""
        return self.store.entries

    def write(self, trajectories: Sequence[Trajectory]) -> None:
        """Add finished trials; a trajectory's `task` is the slot it belongs to."""
        if not trajectories:
            return
        first, offset = len(self), self.store.written
        new = self.store.write(trajectories, self.config.store_above)
        if not len(new):
            return
        try:
            keys = self.embed(trajectories, new, offset)
            self.index.add(keys, new.task)
        except Exception:
            self.store.keep(torch.arange(len(self)) < first)  # what was refused leaves no trace
            raise
        self.keys = torch.cat([self.keys, keys])
        if self.config.dedup is not None:
            self._drop_duplicates(first, self.config.dedup)

    def embed(
        self, trajectories: Sequence[Trajectory], entries: Entries, offset: int = 0
    ) -> Tensor:
        """Return the keys g(tau_{t-C:t}) of entries; episode `offset` is the first trajectory."""
        starts = key_start(entries.position, self.config.context_len)
        prefixes = [
            trajectories[int(episode) - offset].cut(int(start), int(position) + 1)
            for episode, start, position in zip(
                entries.episode, starts, entries.position, strict=True
            )
        ]
        return self.embedder(stack(prefixes, self.spaces, self.config.context_len))

    def retrieve(self, vectors: Tensor, slots: Tensor, position: Tensor) -> Retrieval:
        """Search the memory of each slot, Eq. 3, and choose by relevance and utility, Eq. 4, 5."""
        unknown = torch.full_like(slots, -1)
        queries = Queries(vectors, slots, unknown, torch.full_like(slots, 1 << 40), position)
        config = self.config
        found = retrieve(queries, self.index, self.entries, config.top_l, own_task_only=True)
        utility = UTILITIES[config.utility]
        return reweight(found, queries, self.entries, utility, config.alpha, config.top_k)

    def chunks(self, chosen: Tensor) -> Batch:
        """Return the chosen chunks [B, k] one after the other, [B, k * 2C]."""
        return self.store.chunks(chosen)

    def forget(self, slots: Tensor) -> None:
        """Empty the memories of some slots."""
        self._keep(~torch.isin(self.entries.task, slots))

    def _drop_duplicates(self, first: int, threshold: float) -> None:
        """Drop new entries that resemble older ones, and new ones among themselves."""
        as_written = replace(self.entries, age=torch.arange(len(self)))
        kept = deduplicate(self.keys, as_written, threshold, order="chronological")
        kept[:first] = True
        self._keep(kept)

    def _keep(self, kept: Tensor) -> None:
        if bool(kept.all()):
            return
        self.store.keep(kept)
        self.keys = self.keys[kept]
        self.index = self._new_index()
        self.index.add(self.keys, self.entries.task)

    def _new_index(self) -> Index:
        return INDEXES[self.config.index](self.embedder.width)

    def identity(self) -> dict[str, object]:
        """Name what keys and chunks depend on; another memory with another identity is refused."""
        return {
            "embedder": self.embedder.fingerprint,
            "key_width": self.embedder.width,
            "context_len": self.config.context_len,
            "spaces": json.loads(json.dumps(asdict(self.spaces))),
        }

    def save(self, path: Path, owner: Mapping[str, Tensor] | None = None) -> None:
        """Write keys, entries and chunks to one safetensors file, and what the owner adds."""
        tensors = {"keys": self.keys, **_columns("entry", self.entries)}
        tensors |= {f"owner.{name}": tensor for name, tensor in (owner or {}).items()}
        tensors |= _columns("chunk", self.store.all_chunks)
        header = {"radt_memory": VERSION, "identity": json.dumps(self.identity(), sort_keys=True)}
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        atomic_write(path, safetensors.torch.save(contiguous, metadata=header))

    def load(self, path: Path) -> dict[str, Tensor]:
        """Replace the contents by a saved memory of the same kind; return what its owner added."""
        tensors, theirs = read_memory(path)
        if differing := [k for k, v in self.identity().items() if theirs.get(k) != v]:
            raise MemoryMismatchError(
                f"{path} was written with another {', '.join(differing)}; a memory only works "
                "with the agent that wrote it. Load that agent, or start with an empty memory."
            )
        index = self._new_index()
        try:
            entries, chunks = Entries(**_pick("entry", tensors)), Batch(**_pick("chunk", tensors))
            keys = tensors["keys"]
            _check_columns(keys, entries, chunks, self.store.all_chunks)
            index.add(keys, entries.task)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise MemoryFileError(
                f"{path} is no complete memory ({error}); delete it and start with an empty one"
            ) from error
        self.store.restore(entries, chunks)
        self.keys, self.index = keys, index
        return _pick("owner", tensors)


def read_memory(path: Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read a saved memory's tensors and what it says its keys and chunks depend on."""
    if not path.exists():
        raise MemoryFileError(f"there is no memory at {path}; save one first, or start empty")
    if (size := path.stat().st_size) > (free := free_memory()):
        raise MemoryFileError(
            f"{path} has {size} bytes, but only {free} fit into RAM; free some, or start with an "
            "empty memory"
        )
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        version, identity = header.get("radt_memory"), json.loads(header.get("identity", "{}"))
    except (safetensors.SafetensorError, OSError, json.JSONDecodeError) as error:
        raise MemoryFileError(
            f"{path} is damaged or no safetensors file ({error}); delete it and start with an "
            "empty memory"
        ) from error
    if version != VERSION or not isinstance(identity, dict):
        raise MemoryFileError(
            f"{path} is no memory of format {VERSION} (it says {version!r}); give a file that "
            "Memory.save wrote"
        )
    return tensors, identity


def _check_columns(keys: Tensor, entries: Entries, chunks: Batch, like: Batch) -> None:
    """Refuse columns of different lengths, or of other shapes or types than ours."""
    named = {"keys": keys, **_columns("entry", entries), **_columns("chunk", chunks)}
    ours = {**_columns("entry", Entries.none()), **_columns("chunk", like)}
    for name, tensor in named.items():
        if tensor.ndim < 1 or len(tensor) != len(keys):
            raise ValueError(f"{name} is {list(tensor.shape)} beside {len(keys)} keys")
    for name, own in ours.items():
        if (named[name].shape[1:], named[name].dtype) != (own.shape[1:], own.dtype):
            raise ValueError(f"{name} is {named[name].dtype}{list(named[name].shape)}")
    if keys.dtype != torch.float32:
        raise ValueError(f"keys are {keys.dtype}, not torch.float32")
    if len(entries) and not 0 <= int(entries.task.min()) <= int(entries.task.max()) <= MOST:
        raise ValueError(f"the slots of entries must lie in 0..{MOST}")


def _columns(prefix: str, record: Entries | Batch) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": getattr(record, name) for name in record.__dataclass_fields__}


def _pick(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
