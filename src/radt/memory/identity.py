"""What the keys and chunks of a memory depend on, and the errors of memories.

A memory only works with the embedder that made its keys, for the spaces and the context length its
chunks were cut for. Whoever opens it says what it expects; anything else is refused by name.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from radt.decode import decode, differences
from radt.errors import RadtError
from radt.spaces import TaskSpaces


class StoreError(RadtError, ValueError):
    """A memory that cannot be used as it was asked; the message says what to do next."""


class MemoryMismatchError(StoreError):
    """A memory that was written with another embedder or for other spaces."""


class MemoryFileError(StoreError):
    """A file that is missing, damaged, full, or no memory of this format."""


class MemoryBusyError(StoreError):
    """A memory that another process is writing to, or that was opened only for reading."""


@dataclass(frozen=True)
class Identity:
    """What another agent must have in common with the one that wrote a memory."""

    embedder: str  # its fingerprint
    key_width: int
    context_len: int
    spaces: TaskSpaces

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as JSON gives them back."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_json(cls, values: Any) -> Identity:
        """Decode plain values, strictly."""
        return decode(cls, values, "identity")


def refuse_other(place: object, theirs: Identity, ours: Identity) -> None:
    """Refuse a memory that is not ours; the error names both sides of each difference."""
    there, here = theirs.to_json(), ours.to_json()
    if there == here:
        return
    names = ", ".join(name for name in here if there[name] != here[name])
    details = "; ".join(differences(there, here, ("in the memory", "here")))
    rescue = (
        "give its entries new keys with `radt memory re-embed`"
        if (there["spaces"], there["context_len"]) == (here["spaces"], here["context_len"])
        else "import the trajectories anew with `radt memory import`"
    )
    raise MemoryMismatchError(
        f"{place} was written with another {names} ({details}); a memory only works with the "
        f"agent that wrote it. Load that agent, start with an empty memory, or {rescue}."
    )


def refuse_child(place: str, process: int) -> None:
    """Refuse files and connections that a process has from its parent, who uses them, too."""
    if os.getpid() != process:
        raise MemoryBusyError(
            f"{place} was opened by process {process} and cannot be used in its child "
            f"{os.getpid()}; open it there once more"
        )


def refuse_reader(place: str, writing: bool) -> None:
    """Refuse to change a memory that was opened for reading."""
    if not writing:
        raise MemoryBusyError(
            f"{place} was opened for reading; open it with writing=True to change it"
        )
