"""What a repository holds: a few kinds of files, each with its size and hash, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from radt.checkpoint import read_tensors
from radt.data import read_manifest
from radt.data.manifest import MANIFEST, is_plain_name
from radt.data.store import open_task
from radt.decode import decode
from radt.errors import RadtError
from radt.experiments.run import CHECKPOINT, RESULT
from radt.files import sha256
from radt.plots.records import DATA, read_record
from radt.version import code_version

FORMAT = 1
CONTENTS, CARD = "radt.json", "README.md"
BESIDE = {CONTENTS, CARD, ".gitattributes"}  # in a repository, but no part of what is pulled
NEEDED = (CHECKPOINT, "config.json", RESULT)  # of a run
PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")  # a part of the path that is pulled to
MAX_CONTENTS_BYTES = 16 * 2**20
MAX_FILE_BYTES = 2**40

Kind = Literal["run", "dataset"]


class HubError(RadtError, ValueError):
    """Something that cannot be pushed or pulled; the message says what to do."""


@dataclass(frozen=True)
class HeldFile:
    """One file: what it is called, how long it is and what is in it."""

    name: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not is_plain_name(self.name):
            raise ValueError(f"{self.name!r} is not a plain file name")
        if not 0 <= self.bytes <= MAX_FILE_BYTES:
            raise ValueError(f"{self.name} cannot have {self.bytes} bytes")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"the sha256 of {self.name} must be 64 hexadecimal digits")


@dataclass(frozen=True)
class Contents:
    """What a repository says of itself, in its file radt.json."""

    kind: Kind
    env: str
    name: str  # of the folder that was pushed
    files: tuple[HeldFile, ...]
    code_version: str
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"this version reads format {FORMAT}, not {self.format}")
        for what, name in (("environment", self.env), ("folder", self.name)):
            if not PLACE.fullmatch(name):
                raise ValueError(f"the {what} {name!r} is not a plain name")
        names = [file.name for file in self.files]
        if len(set(names)) < len(names):
            raise ValueError("the same file is listed twice")
        if bad := [name for name in names if not belongs(self.kind, name)]:
            raise ValueError(f"{bad[0]} is no file of a {self.kind}")
        needed = NEEDED if self.kind == "run" else (MANIFEST,)
        if missing := [name for name in needed if name not in names]:
            raise ValueError(f"a {self.kind} needs {', '.join(missing)}")

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        return {file.name: file.bytes for file in self.files}


def belongs(kind: Kind, name: str) -> bool:
    """Tell whether a run or a dataset can have a file of this name."""
    if kind == "run":
        return name in (*NEEDED, DATA)
    return name == MANIFEST or name.endswith(".h5")


def gather(folder: Path) -> Contents:
    """List what is pushed of the folder of a finished run or of a dataset, once it is checked."""
    kind: Kind = "dataset" if (folder / MANIFEST).is_file() else "run"
    if kind == "run" and (missing := [n for n in NEEDED if not (folder / n).is_file()]):
        raise HubError(
            f"{folder} is neither a dataset nor a run that is trained and evaluated (there is no "
            f"{missing[0]}); make it with `radt run` or `radt collect`"
        )
    check_folder(folder, kind)
    if kind == "dataset":
        manifest = read_manifest(folder)
        env, names = manifest.env, [MANIFEST, *(entry.file for entry in manifest.files)]
    else:
        env = str(read_record(folder / RESULT)["env"])
        names = [*NEEDED, *([DATA] if (folder / DATA).is_file() else [])]
    files = tuple(describe(folder / name) for name in names)
    try:
        return Contents(kind, env, folder.resolve().name, files, code_version())
    except ValueError as error:
        raise HubError(f"{folder} cannot be pushed: {error}; rename it") from error


def describe(path: Path) -> HeldFile:
    """Measure and hash a file."""
    return HeldFile(path.name, path.stat().st_size, sha256(path))


def read_contents(path: Path, where: str) -> Contents:
    """Read what a repository says of itself, strictly."""
    try:
        return decode(Contents, json.loads(path.read_text(encoding="utf-8")), CONTENTS)
    except (ValueError, RecursionError) as error:
        raise HubError(f"{where} is no repository of radt: {error}") from error


def check_listing(held: Mapping[str, int], contents: Contents, where: str) -> None:
    """Refuse a repository that holds anything unexpected, or other sizes than it says."""
    refuse_unexpected(set(held) - BESIDE - set(contents.sizes), where)
    for name, size in contents.sizes.items():
        if held.get(name) != size:
            raise HubError(
                f"{where}: {name} has {held.get(name, 'no')} bytes and should have {size}; "
                "it was changed or half pushed, ask for it to be pushed again"
            )


def refuse_unexpected(names: set[str], where: str) -> None:
    """Refuse files that no run and no dataset has, wherever they come from."""
    if names:
        raise HubError(
            f"{where} holds {min(names)!r}, which is not expected there ({len(names)} such files); "
            "radt takes safetensors, HDF5 and JSON of one run or dataset and nothing else"
        )


def check_file(path: Path, file: HeldFile, where: str) -> None:
    """Refuse a file whose content is not what the repository says."""
    if describe(path) != file:
        raise HubError(f"{where}: {file.name} is not what its sha256 says; nothing was kept")


def check_folder(folder: Path, kind: Kind) -> None:
    """Read all files as their readers would, which refuse what is damaged or could do harm."""
    if kind == "dataset":
        manifest = read_manifest(folder)
        for entry in manifest.files:
            with contextlib.closing(open_task(folder, entry, manifest.spaces)):
                pass
        return
    read_tensors(folder / CHECKPOINT)
    for path in sorted(folder.glob("*.json")):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise HubError(f"{path} is no JSON ({error})") from error
