"""What a dataset says about itself: where it comes from, what its files hold, and their hashes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radt.decode import decode, parse_json
from radt.errors import RadtError
from radt.files import atomic_write, open_plain
from radt.old_names import old_value, with_old_names
from radt.sealed import SEAL, json_seal
from radt.spaces import TaskSpaces

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_TRANSITIONS = 10**10  # of one task
ARRAYS = 4  # of every task's file; where tasks have levels, there is one more
MAX_STEP_VALUES = 2**24  # numbers in one state or action
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class DataError(RadtError):
    """A dataset that cannot be used; the message names the file and what to do next."""


def unusable(path: Path, problem: str) -> DataError:
    """Build the error for a file of a dataset that `radt collect` can make again."""
    return DataError(
        f"{path}: {problem}. Delete the folder {path.parent} and run `radt collect` for its "
        "environment and seed again, or fetch the dataset again from where it came"
    )


@dataclass(frozen=True)
class ArraySpec:
    """The name, element type and shape of one stored array."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TaskFile:
    """One task's file: its content hash, and how much it holds."""

    task: int
    file: str  # a plain name inside the dataset's folder
    sha256: str
    transitions: int
    episodes: int  # complete ones
    arrays: tuple[ArraySpec, ...]

    def __post_init__(self) -> None:
        check_name_and_hash(self.file, self.sha256)
        if not 0 <= self.task < 2**31:
            raise ValueError(f"task {self.task} of {self.file} is not in 0..2^31")
        if not 0 <= self.episodes <= self.transitions or not 0 < self.transitions < MAX_TRANSITIONS:
            raise ValueError(
                f"{self.file} cannot hold {self.episodes} episodes in {self.transitions} steps"
            )


@dataclass(frozen=True)
class Manifest:
    """The origin and the contents of a dataset of learning histories."""

    env: str
    env_spec: Mapping[str, Any]
    spaces: TaskSpaces
    split: str  # which of the environment's tasks these are, e.g. "train"
    seed: int
    source: str  # the algorithm that learned while it was recorded, e.g. "ppo"
    hyper_parameters: Mapping[str, Any]
    code_version: str
    files: tuple[TaskFile, ...]  # one per task
    wall_seconds: float = 0.0
    format: int = field(default=FORMAT)
    plugins: Mapping[str, str] = field(default_factory=dict)  # files of a user's own: their sha256

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"this version reads format {FORMAT}, not {self.format}")
        if not self.files:
            raise ValueError("a dataset needs at least one task")
        check_spaces(self.spaces)
        for what, values in (
            ("task", [entry.task for entry in self.files]),
            ("file", [entry.file for entry in self.files]),
        ):
            if len(set(values)) < len(values):
                raise ValueError(f"the same {what} is listed twice")
        if not (math.isfinite(self.wall_seconds) and self.wall_seconds >= 0):
            raise ValueError(f"wall_seconds must be a positive number, not {self.wall_seconds}")
        for entry in self.files:
            counts = entry.transitions, entry.episodes, len(entry.arrays) > ARRAYS
            if entry.arrays != array_specs(self.spaces, *counts):
                raise ValueError(f"the arrays of {entry.file} do not fit the spaces and the counts")

    @property
    def sha256(self) -> str:
        """One hash for the whole dataset: the same for equal data, whoever wrote them and when."""
        as_at_first = dataclasses.replace(
            self,
            source=old_value("source", self.source),
            hyper_parameters=with_old_names(self.hyper_parameters),
            wall_seconds=0.0,
            code_version="",
            plugins={},
        )
        content = _to_json(as_at_first)
        return hashlib.sha256(content.encode()).hexdigest()


def is_plain_name(name: str) -> bool:
    """Tell whether `name` is one path component that stays inside its folder on every system."""
    return _PLAIN_NAME.fullmatch(name) is not None


def check_name_and_hash(name: str, sha256: str) -> None:
    """Refuse what cannot be a file of a folder, or not the hash of one."""
    if not is_plain_name(name):
        raise ValueError(f"{name!r} is not a plain file name inside its folder")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError(f"the sha256 of {name} must be 64 hexadecimal digits")


def array_specs(
    spaces: TaskSpaces, transitions: int, episodes: int, has_levels: bool = False
) -> tuple[ArraySpec, ...]:
    """List the arrays of a task's file; nothing else may be in it."""
    state, action = spaces.state, spaces.action
    levels = (ArraySpec("levels", "int32", (episodes,)),) if has_levels else ()
    return (
        ArraySpec("states", state.dtype.name, (transitions, *state.shape)),
        ArraySpec("actions", action.dtype.name, (transitions, *action.shape)),
        ArraySpec("rewards", "float32", (transitions,)),
        ArraySpec("lengths", "int32", (episodes,)),
        *levels,
    )


def check_spaces(spaces: TaskSpaces) -> None:
    """Refuse spaces that no array can have, or that would ask for unlimited memory."""
    state, action = spaces.state, spaces.action
    for what, sizes, most in (
        ("state shape", state.shape, MAX_STEP_VALUES),
        ("state bins", state.bins, 2**31),
        ("action size", (action.size,), 256 if action.kind == "discrete" else MAX_STEP_VALUES),
        ("horizon", (spaces.horizon,), 2**31 - 1),
    ):
        if any(not 1 <= size <= most for size in sizes):
            raise ValueError(f"the {what} {sizes} must be numbers from 1 to {most}")
    if math.prod(state.shape) > MAX_STEP_VALUES:
        raise ValueError(f"a state of shape {state.shape} is too large")
    for scale in (spaces.return_scale, spaces.reward_scale):
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"returns and rewards cannot be scaled by {scale}")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Finish a dataset: a folder without a manifest is one that is still being collected."""
    content = json.loads(_to_json(manifest))
    sealed = json.dumps({**content, SEAL: json_seal(content)}, indent=1, sort_keys=True)
    atomic_write(folder / MANIFEST, f"{sealed}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest; anything unknown, missing or of another type is refused."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(
            f"{folder}: no finished dataset here (no {MANIFEST}). Run `radt collect` to make it or "
            "to go on with it; set $RADT_HOME if your datasets are elsewhere"
        )
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError(f"it is larger than {MAX_MANIFEST_BYTES} bytes")
        with open_plain(path) as file:
            content = parse_json(file.read())
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        if content.pop(SEAL, None) not in (None, json_seal(content)):  # older ones have none
            raise ValueError("it was damaged or edited after it was written (its sha256 differs)")
        return decode(Manifest, content, "manifest")
    except ValueError as error:
        raise unusable(path, f"not a valid manifest: {error}") from error


def _to_json(manifest: Manifest) -> str:
    content = dataclasses.asdict(manifest) | {"spaces": manifest.spaces.plain_values()}
    if not manifest.plugins:
        del content["plugins"]  # as before there were any
    return json.dumps(content, sort_keys=True, allow_nan=False)
