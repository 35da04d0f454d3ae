"""What a memory in tables says of itself, and how far it has come; sealed as its rows are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from radt.decode import decode
from radt.memory.identity import Identity
from radt.memory.rows import digest
from radt.version import released

FORMAT = 1


@dataclass(frozen=True)
class State:
    """How far a database has come; part of every transaction."""

    writes: int = 0  # transactions so far
    entries: int = 0  # rows that must be there
    episodes: int = 0  # trajectories ever written
    last_id: int = 0  # of the newest row ever written


@dataclass(frozen=True)
class About:
    """What a database says of itself."""

    identity: Identity
    state: State
    library: str  # the version of radt that made it


def about_rows(identity: Identity, state: State) -> list[tuple[str, str, bytes]]:
    """Return all that a new database says of itself."""
    said = {"format": FORMAT, "library": released(), "identity": identity.to_json()}
    return [*(_sealed_text(*item) for item in said.items()), about_row(state)]


def about_row(state: State) -> tuple[str, str, bytes]:
    """Return the row that says how far a database has come."""
    return _sealed_text("state", asdict(state))


def about_from(rows: Iterable[tuple[Any, ...]]) -> About:
    """Decode what a database says of itself; an error says what cannot be."""
    said = {}
    for row in rows:
        if not is_about(row):
            raise ValueError(f"what it says of itself is damaged ({row[0]!s:.20})")
        said[row[0]] = json.loads(row[1])
    if said.get("format") != FORMAT:
        raise ValueError(f"it has format {said.get('format')}, this radt reads {FORMAT}")
    if missing := {"identity", "state", "library"} - set(said):
        raise ValueError(f"it does not say its {', '.join(sorted(missing))}")
    state = decode(State, said["state"], "state")
    return About(Identity.from_json(said["identity"]), state, str(said["library"]))


def is_about(row: Sequence[Any]) -> bool:
    """Tell whether a row of what a database says of itself is as it was written."""
    return isinstance(row[1], str) and bool(_sealed(f"{row[0]} {row[1]}") == row[2])


def sealed(id: int, at_write: int) -> bytes:
    """Hash a record of something forgotten."""
    return _sealed(f"{id} {at_write}")


def is_forgotten(row: Sequence[Any]) -> bool:
    """Tell whether a record of something forgotten is as it was written."""
    return bool(sealed(row[0], row[1]) == row[2])


def _sealed(text: str) -> bytes:
    return digest(text.encode("utf-8", "replace"))


def _sealed_text(name: str, value: Any) -> tuple[str, str, bytes]:
    text = json.dumps(value, sort_keys=True)
    return name, text, _sealed(f"{name} {text}")
