"""Finished parts of a collection on disk: what happened, and the learner's state at the end.

A part is one safetensors file, whole or absent. From a group's last part a run goes on exactly
where it stood; the environments are brought there by taking the recorded actions again. Only that
last part holds a learner: with large networks, those of all parts would fill a disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.collect.rollout import Rollout
from radt.collect.source import CollectError
from radt.files import atomic_write

PARTS = "parts"  # the folder inside a dataset's folder, until the dataset is complete
LearnerState = Mapping[str, NDArray[np.float32]]
_LEARNER = "learner."


@dataclass(frozen=True)
class GroupPart:
    """Some consecutive rollouts of a group of tasks, and the learner after them."""

    states: NDArray[Any]  # [steps, slots, ...] as a rollout notes them
    actions: NDArray[np.int64]  # [steps, slots]
    rewards: NDArray[np.float32]  # [steps, slots]
    ends: NDArray[np.bool_]  # [steps, slots]
    learner: LearnerState  # empty where another part follows, and at the end
    seconds: float


def join(rollouts: Sequence[Rollout], learner: LearnerState, seconds: float) -> GroupPart:
    """Make one part of consecutive rollouts."""
    states, actions, rewards, ends = (
        np.concatenate([getattr(rollout, name) for rollout in rollouts])
        for name in ("states", "actions", "rewards", "ends")
    )
    return GroupPart(states, actions, rewards, ends, learner, seconds)


def part_path(parts: Path, group: int, number: int) -> Path:
    """Name the file of a group's part."""
    return parts / f"group-{group:03d}-part-{number:03d}.safetensors"


def write_part(path: Path, part: GroupPart, plan_hash: str) -> None:
    """Put a finished part in place at once."""
    from safetensors.numpy import save

    arrays = {
        "states": part.states.astype(np.int32) if part.states.dtype == np.int64 else part.states,
        "actions": part.actions.astype(np.int32),
        "rewards": part.rewards,
        "ends": part.ends,
        **{_LEARNER + name: array for name, array in part.learner.items()},
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    atomic_write(path, save(arrays, {"plan": plan_hash, "seconds": repr(part.seconds)}))


def read_part(path: Path, plan_hash: str) -> GroupPart:
    """Read a part of the same plan."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CollectError(
            f"{path}: this part cannot be read ({error}). Delete it and start again: it is redone"
        ) from error
    if metadata.get("plan") != plan_hash:
        raise CollectError(
            f"{path}: this part was made with another configuration. Delete {path.parent} to "
            "collect anew, or choose another folder"
        )
    learner = {
        name.removeprefix(_LEARNER): array
        for name, array in arrays.items()
        if name.startswith(_LEARNER)
    }
    states = arrays["states"]
    return GroupPart(
        states.astype(np.int64) if states.dtype == np.int32 else states,
        arrays["actions"].astype(np.int64),
        arrays["rewards"],
        arrays["ends"],
        learner,
        float(metadata["seconds"]),
    )


def read_parts(parts: Path, group: int, plan_hash: str) -> list[GroupPart]:
    """Read a group's finished parts, from the first to the last before a gap."""
    found: list[GroupPart] = []
    while (path := part_path(parts, group, len(found))).is_file():
        found.append(read_part(path, plan_hash))
    return found


def drop_learner(path: Path, plan_hash: str) -> None:
    """Forget the learner of a part that another one follows."""
    write_part(path, replace(read_part(path, plan_hash), learner={}), plan_hash)
