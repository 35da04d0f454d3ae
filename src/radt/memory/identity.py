"""What a memory is for, what may enter it, and the errors of memories.

A memory only works with the embedder that made its keys, for the spaces and the context length its
chunks were cut for. Whoever opens it says what it expects; anything else is refused by name.
Trajectories must be of its spaces, whole and finite; that is checked before a write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from radt.data.manifest import array_specs
from radt.data.store import as_stored
from radt.decode import decode, differences
from radt.errors import RadtError
from radt.memory.entries import Halves
from radt.spaces import TaskSpaces, is_whole_number
from radt.trajectory import Trajectory

MOST_TASKS = 100_000  # an index keeps a list for each
MOST_EPISODES = 2**31  # of one task


class StoreError(RadtError, ValueError):
    """A memory that cannot be used as it was asked; the message says what to do next."""

    in_doubt = False  # whether a write was kept is not known


class MemoryMismatchError(StoreError):
    """A memory that was written with another embedder or for other spaces."""


class MemoryFileError(StoreError):
    """A file that is missing, damaged, full, or no memory of this format."""


class MemoryBusyError(StoreError):
    """A memory that another process is writing to, or that was opened only for reading."""


class BadTrajectoryError(StoreError):
    """A trajectory that does not belong into a memory of these spaces."""


@dataclass(frozen=True)
class Identity:
    """What another agent must have in common with the one that wrote a memory."""

    embedder: str  # its fingerprint
    key_width: int
    context_len: int
    spaces: TaskSpaces
    past_len: int | None = None  # halves of a chunk, where they are not C
    future_len: int | None = None

    @property
    def halves(self) -> Halves:
        """How chunks are cut."""
        return Halves(self.past_len or self.context_len, self.future_len or self.context_len)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as JSON gives them back; what is as usual goes without saying."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_json(cls, values: Any) -> Identity:
        """Decode plain values, strictly."""
        return decode(cls, values, "identity")


def refuse_other(place: object, theirs: Identity, ours: Identity) -> None:
    """Refuse a memory that is not ours; the error names both sides of each difference."""
    there, here = theirs.to_json(), ours.to_json()
    if there == here:
        return
    unlike = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    names = ", ".join(unlike)
    details = "; ".join(differences(there, here, ("in the memory", "here")))
    rescue = (
        "give its entries new keys with `radt memory re-embed`"
        if {*unlike} <= {"embedder", "key_width"}
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


def check_trajectories(trajectories: Sequence[Trajectory], spaces: TaskSpaces) -> None:
    """Refuse all of them if one is not what a memory of these spaces holds."""
    for number, trajectory in enumerate(trajectories):
        if problem := problem_of(trajectory, spaces):
            raise BadTrajectoryError(
                f"trajectory {number} of {len(trajectories)}{_named(trajectory)} is refused and "
                "nothing was written: "
                f"{problem}. Expected is {expected(spaces)}"
            )


def _named(trajectory: Any) -> str:
    """Name the task and the episode of a trajectory."""
    if not isinstance(trajectory, Trajectory):
        return ""
    return f" (task {trajectory.task}, episode {trajectory.episode})"


def problem_of(trajectory: Any, spaces: TaskSpaces) -> str | None:
    """Say what is wrong with a trajectory, if anything."""
    if not isinstance(trajectory, Trajectory):
        return f"it is no Trajectory but {type(trajectory).__name__}"
    for name, most in (("task", MOST_TASKS), ("episode", MOST_EPISODES)):
        value = getattr(trajectory, name)
        if not is_whole_number(value) or not 0 <= value < most:
            return f"its {name} is {value!r}, no whole number from 0 to {most - 1}"
    if not 1 <= len(trajectory) <= spaces.horizon:
        return f"it has {len(trajectory)} steps"
    try:
        for spec in array_specs(spaces, len(trajectory), 1)[:-1]:  # all but the lengths
            as_stored(getattr(trajectory, spec.name), spec, spaces)
    except ValueError as error:
        return str(error)
    return None


def expected(spaces: TaskSpaces) -> str:
    """Describe in one line the trajectories that a memory of these spaces holds."""
    state, action = spaces.state, spaces.action
    finite = "finite numbers (no NaN)"
    values = {"discrete": f"whole numbers below {list(state.bins)}", "image": "bytes 0..255"}
    acted = f"whole numbers below {action.size}" if action.kind == "discrete" else "[-1, 1]"
    return (
        f"T = 1..{spaces.horizon} steps: states [T, {', '.join(map(str, state.shape))}] of "
        f"{values.get(state.kind, finite)}, actions {['T', *action.shape]} in {acted}, rewards [T] "
        f"of {finite}".replace("'", "")
    )
