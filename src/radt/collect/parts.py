"""Finished parts of a collection on disk: what happened, and the learner's state at the end.

A part is one safetensors file, whole or absent. From a group's last part a run goes on exactly
where it stood; the environments are brought there by living the recorded actions again. Only that
last part holds a learner: with large networks, those of all parts would fill a disk.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.collect.learner import LearnerState
from radt.collect.rollout import Rollout
from radt.collect.source import CollectError
from radt.envs.suite import TaskSuite
from radt.files import atomic_write

FORMAT = 1
PARTS = "parts"  # the folder inside a dataset's folder, until the dataset is complete
_LEARNER = "learner."
_NEWER = (("reveal", False), ("source", "ppo"))  # added since, as it was when it did not exist


@dataclass(frozen=True)
class Part:
    """Some consecutive rollouts of a group of tasks, and the learner after them."""

    states: NDArray[Any]  # [steps, slots, ...] as a rollout notes them
    actions: NDArray[np.int64]  # [steps, slots]
    rewards: NDArray[np.float32]  # [steps, slots]
    ends: NDArray[np.bool_]  # [steps, slots]
    learner: LearnerState  # empty where another part follows, and at the end
    seconds: float


def join(rollouts: Sequence[Rollout], learner: LearnerState, seconds: float) -> Part:
    """Make one part of consecutive rollouts."""
    return Part(
        np.concatenate([rollout.states for rollout in rollouts]),
        np.concatenate([rollout.actions for rollout in rollouts]),
        np.concatenate([rollout.rewards for rollout in rollouts]),
        np.concatenate([rollout.ends for rollout in rollouts]),
        learner,
        seconds,
    )


def plan(suite: TaskSuite, options: Any, source: str = "ppo") -> dict[str, Any]:
    """Describe as plain JSON everything that the collected arrays depend on."""
    content = {
        "format": FORMAT,
        "env": suite.name,
        "env_spec": _rules(suite),
        "spaces": dataclasses.asdict(suite.spaces),
        "tasks": suite.train_tasks,
        "source": source,
        "config": _without_news(dataclasses.asdict(options)),
    }
    plain: dict[str, Any] = json.loads(json.dumps(_without_news(content)))
    return plain


def _without_news(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is newer than FORMAT 1 while it changes nothing.

    So a dataset from before an option existed is still the dataset of the same configuration.
    """
    return {name: value for name, value in values.items() if (name, value) not in _NEWER}


def _rules(suite: TaskSuite) -> dict[str, Any]:
    """Return the fields that a suite has beside those of the protocol, e.g. the room's size."""
    record: dict[str, Any] = dataclasses.asdict(suite) if dataclasses.is_dataclass(suite) else {}
    return {name: value for name, value in record.items() if not hasattr(TaskSuite, name)}


def identity(content: dict[str, Any]) -> str:
    """Hash a plan; parts of another plan are refused."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def part_path(parts: Path, group: int, number: int) -> Path:
    """Name the file of a group's part."""
    return parts / f"group-{group:03d}-part-{number:03d}.safetensors"


def write_part(path: Path, part: Part, plan_hash: str) -> None:
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


def read_part(path: Path, plan_hash: str) -> Part:
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
    return Part(
        states.astype(np.int64) if states.dtype == np.int32 else states,
        arrays["actions"].astype(np.int64),
        arrays["rewards"],
        arrays["ends"],
        learner,
        float(metadata["seconds"]),
    )


def read_parts(parts: Path, group: int, plan_hash: str) -> list[Part]:
    """Read a group's finished parts, from the first to the last before a gap."""
    found: list[Part] = []
    while (path := part_path(parts, group, len(found))).is_file():
        found.append(read_part(path, plan_hash))
    return found


def drop_learner(path: Path, plan_hash: str) -> None:
    """Forget the learner of a part that another one follows."""
    write_part(path, replace(read_part(path, plan_hash), learner={}), plan_hash)


def recorded_seconds(parts: Path, group: int, plan_hash: str) -> float:
    """Add up how long a group's parts took."""
    return sum(part.seconds for part in read_parts(parts, group, plan_hash))
