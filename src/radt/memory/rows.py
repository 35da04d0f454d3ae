"""How entries, and what a memory says of itself, lie in tables: sealed so that damage is noticed.

A row's seal covers its numbers, its key and the digest of its content, so the row is known to be
whole before its content, the larger part, is read; the digest then covers that.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from radt.decode import decode
from radt.memory.entries import Entries, blank, concat_chunks
from radt.memory.identity import MOST_TASKS, Identity
from radt.memory.store import GrowingColumns, NewEntries
from radt.trajectory import Batch
from radt.version import released

FORMAT = 1
SEAL_BYTES = 16
NAMED = 8  # ids that an error lists
NUMBERS = struct.Struct("<7qd")


class Row(NamedTuple):
    """One entry as it is stored; all bytes are little-endian arrays without a header."""

    id: int  # from 1 on, rising, never used twice
    task: int
    episode: int
    age: int
    position: int
    start: int
    stop: int
    total_return: float
    key: bytes  # float32 [d]
    digest: bytes  # of the content
    seal: bytes  # of all above
    content: bytes = b""  # states, actions, rewards, returns-to-go of the steps start:stop

    def renumbered(self, id: int) -> Row:
        """Return the row under another id."""
        row = self._replace(id=id)
        return row._replace(seal=seal_of(row))


COLUMNS = ", ".join(Row._fields)
SEALED = ", ".join(Row._fields[:-1])  # all but the content


def digest(content: bytes) -> bytes:
    """Hash some bytes."""
    return hashlib.blake2b(content, digest_size=SEAL_BYTES).digest()


def seal_of(row: Row) -> bytes:
    """Hash a row's numbers, its key and the digest of its content."""
    return digest(NUMBERS.pack(*row[:8]) + row.key + row.digest)


@dataclass(frozen=True)
class RowFormat:
    """Translates between entries and rows; types and shapes follow from the identity."""

    identity: Identity

    def rows(self, new: NewEntries, first_id: int) -> Iterator[Row]:
        """Turn entries into rows, numbered from `first_id` on."""
        columns = [getattr(new.entries, name).tolist() for name in Entries.__dataclass_fields__]
        keys = new.keys.numpy().astype("<f4", copy=False)
        for n, numbers in enumerate(zip(*columns, strict=True)):
            length = numbers[5] - numbers[4]  # stop - start
            content = b"".join(
                getattr(new.chunks, name)[n, :length].numpy().astype(kind).tobytes()
                for name, kind, _ in self._layout()
            )
            sealed = (keys[n].tobytes(), digest(content), b"", content)
            row = Row._make((first_id + n, *numbers, *sealed))
            yield row._replace(seal=seal_of(row))

    def entries(self, rows: Iterable[Row]) -> Entries:
        """Read the numbers of rows."""
        columns = list(zip(*(row[1:8] for row in rows), strict=True))
        if not columns:
            return Entries.none()
        kinds = 6 * [torch.int64] + [torch.float32]
        pairs = zip(columns, kinds, strict=True)
        return Entries(*(torch.tensor(column, dtype=kind) for column, kind in pairs))

    def keys(self, rows: Iterable[Row]) -> torch.Tensor:
        """Read the keys of rows, [n, d]."""
        plain = np.frombuffer(b"".join(row.key for row in rows), "<f4").astype(np.float32)
        return torch.from_numpy(plain.reshape(-1, self.identity.key_width))

    def chunks(self, rows: list[Row | None]) -> Batch:
        """Read the contents of rows, [n, 2C]; padding where there is None."""
        batch = blank(self.identity.spaces, len(rows), self.identity.halves.chunk_len)
        for n, row in enumerate(rows):
            if row is None:
                continue
            offset, length = 0, row.stop - row.start
            for name, kind, shape in self._layout():
                count = length * math.prod(shape)
                values = np.frombuffer(row.content, kind, count, offset)
                plain = values.reshape(length, *shape).astype(kind.newbyteorder("="))
                getattr(batch, name)[n, :length] = torch.from_numpy(plain)
                offset += count * kind.itemsize
            batch.timesteps[n, :length] = torch.arange(row.start, row.stop)
            batch.mask[n, :length] = True
        return batch

    def problem(self, row: Row, content: bool = True) -> str | None:
        """Say what is wrong with a row, with its content or without; None: it is as written."""
        try:
            is_sealed = seal_of(row) == row.seal
        except (struct.error, TypeError, OverflowError):  # a number became text, or nothing
            is_sealed = False
        if not is_sealed:
            return "it is not as it was written"
        if content and (not isinstance(row.content, bytes) or digest(row.content) != row.digest):
            return "its content is damaged"
        return None if self._fits(row, content) else "it does not belong into this memory"

    def _fits(self, row: Row, content: bool) -> bool:
        """Tell whether a memory of this identity can hold a sealed row."""
        who, length = self.identity, row.stop - row.start
        step = sum(math.prod(shape) * kind.itemsize for _, kind, shape in self._layout())
        return (
            0 <= row.task < MOST_TASKS
            and 0 <= row.start <= row.position < row.stop <= who.spaces.horizon
            and length <= who.halves.chunk_len
            and len(row.key) == 4 * who.key_width
            and (not content or len(row.content) == length * step)
        )

    def _layout(self) -> tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]:
        """List the arrays of a content: name, stored type, shape of one step."""
        state, action = self.identity.spaces.state, self.identity.spaces.action
        number = np.dtype("<f4")
        return (
            ("states", state.dtype.newbyteorder("<"), state.shape),
            ("actions", action.dtype.newbyteorder("<"), action.shape),
            ("rewards", number, ()),
            ("returns_to_go", number, ()),
        )


@dataclass(frozen=True)
class State:
    """How far a memory in tables has come; part of every transaction."""

    writes: int = 0  # transactions so far
    entries: int = 0  # rows that must be there
    episodes: int = 0  # trajectories ever written
    last_id: int = 0  # of the newest row ever written

    def after(self, new: Entries, removed: int = 0) -> State:
        """Return the state after one more write, which adds entries and removes others."""
        return State(
            writes=self.writes + 1,
            entries=self.entries + len(new) - removed,
            episodes=max([self.episodes, *(new.episode + 1).tolist()]),
            last_id=self.last_id + len(new),
        )


@dataclass(frozen=True)
class About:
    """What a memory in tables says of itself."""

    identity: Identity
    state: State
    library: str  # the version of radt that made it


@dataclass(frozen=True)
class Findings:
    """What was found in a memory: problems, and which entries are whole."""

    whole: int
    lost: tuple[int, ...]  # ids of entries that must be there and are damaged or gone
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether all that was acknowledged is there as it was written."""
        return not self.problems and not self.lost


class RowStore(GrowingColumns):
    """A store in tables: its numbers are in RAM, contents are read when they are chosen."""

    format: RowFormat
    state: State
    place: str

    def details(self) -> dict[str, Any]:
        """Say how much room the memory takes (bytes), what made it, and in which database."""
        raise NotImplementedError

    @property
    def identity(self) -> Identity:
        return self.format.identity

    @property
    def episodes(self) -> int:
        return self.state.episodes

    def chunks(self, ids: Tensor) -> Batch:
        """Return the chunks of ids [B, k], one after the other: [B, k * 2C].

        What others have removed since the last refresh is padding, as if absent.
        """
        wanted = ids.flatten()
        there = self.numbers[wanted[wanted >= 0]].tolist()
        rows, places = self._whole_rows(sorted({*there})) if there else {}, iter(there)
        chosen = [rows.get(next(places)) if id >= 0 else None for id in wanted.tolist()]
        batch = self.format.chunks(chosen)
        return concat_chunks(batch, batch.mask, ids.shape)

    def _whole_rows(self, numbers: list[int]) -> dict[int, Row]:
        """Read rows with their contents by number; those that others have removed are left out."""
        raise NotImplementedError


def about_rows(identity: Identity, state: State) -> list[tuple[str, str, bytes]]:
    """Return all that a new memory says of itself."""
    said = {"format": FORMAT, "library": released(), "identity": identity.to_json()}
    return [*(_about_row(*item) for item in said.items()), state_row(state)]


def state_row(state: State) -> tuple[str, str, bytes]:
    """Return the row that says how far a memory has come."""
    return _about_row("state", asdict(state))


def _about_row(name: str, value: Any) -> tuple[str, str, bytes]:
    text = json.dumps(value, sort_keys=True)
    return name, text, text_seal(f"{name} {text}")


def about_from(rows: Iterable[tuple[Any, ...]]) -> About:
    """Decode what a memory says of itself; an error says what cannot be."""
    said = {}
    for name, text, seal in rows:
        if not isinstance(text, str) or text_seal(f"{name} {text}") != seal:
            raise ValueError(f"what it says of itself is damaged ({name!s:.20})")
        said[name] = json.loads(text)
    if said.get("format") != FORMAT:
        raise ValueError(f"it has format {said.get('format')}, this radt reads {FORMAT}")
    if missing := {"identity", "state", "library"} - set(said):
        raise ValueError(f"it does not say its {', '.join(sorted(missing))}")
    state = decode(State, said["state"], "state")
    return About(Identity.from_json(said["identity"]), state, str(said["library"]))


def forgotten_row(id: int, at_write: int) -> tuple[int, int, bytes]:
    """Return the record of an entry that a write removed."""
    return id, at_write, text_seal(f"{id} {at_write}")


def is_forgotten(row: Sequence[Any]) -> bool:
    """Tell whether a record of something forgotten is as it was written."""
    return tuple(row) == forgotten_row(row[0], row[1])


def text_seal(text: str) -> bytes:
    """Hash a text."""
    return digest(text.encode("utf-8", "replace"))


def check_ids(state: State, whole: set[int], forgotten: set[int]) -> tuple[set[int], list[str]]:
    """Return the ids that a memory must hold, and what is odd about those that it holds."""
    expected, problems = {*range(1, state.last_id + 1)} - forgotten, []
    if len(expected) != state.entries:
        problems.append(f"{state.entries} entries are expected, {len(expected)} are known")
    if strange := whole - expected:
        problems.append(f"entries {some(strange)} were forgotten, or never written")
    return expected, problems


def some(ids: Iterable[int]) -> str:
    """List ids, the first few of many."""
    every = sorted(ids)
    listed = ", ".join(map(str, every[:NAMED]))
    return f"{listed}, ..." if len(every) > NAMED else listed
