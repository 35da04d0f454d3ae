"""Push a run or a dataset to a repository, and pull one: all of it, checked, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from radt.checkpoint import read_tensors
from radt.data import home, read_manifest
from radt.data.manifest import MANIFEST
from radt.data.store import open_task
from radt.decode import decode, parse_json, read_json
from radt.hub.cards import write_card
from radt.hub.repository import (
    CARD,
    CONTENTS,
    NEEDED,
    Files,
    HeldFile,
    HubError,
    Kind,
    Listing,
    Repository,
    belongs,
    open_repository,
)
from radt.plots.icl_json import read_record
from radt.plots.records import DATA
from radt.runs.run import CHECKPOINT, RESULT
from radt.version import code_version

BESIDE = {CONTENTS, CARD, ".gitattributes"}  # in a repository, but no part of what is pulled
MAX_CONTENTS_BYTES = 16 * 2**20


def push(folder: Path, address: str, licence: str = "mit", private: bool = False) -> Listing:
    """Publish a finished run or a dataset with a card; what was pushed there before is replaced."""
    repository, contents = open_repository(address), pushable(folder)
    _check_kind(repository, contents, address)
    card = write_card(folder, contents, address, licence)
    repository.create(private)
    foreign = {name for name in repository.sizes() if not belongs(contents.kind, name)} - BESIDE
    refuse_unexpected(foreign, address)  # they would be deleted
    files: Files = {
        CARD: card.encode(),
        **{file.name: folder / file.name for file in contents.files},
        CONTENTS: (json.dumps(asdict(contents), indent=1) + "\n").encode(),
    }
    repository.publish(files)
    return contents


def pull(address: str, out: Path | None = None, revision: str | None = None) -> Path:
    """Fetch a run or a dataset and return its folder; one that is there and the same stays."""
    repository = open_repository(address, revision)
    contents = _ask_contents(repository, address)
    out = out or usual_folder(contents)
    if out.exists() and _holds(out, contents):
        return out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise HubError(f"{out} exists and holds something else; choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".pull-", dir=out.parent) as scratch:
        whole = Path(scratch, "whole")
        whole.mkdir()
        for file in contents.files:
            fetched = repository.fetch(file.name, Path(scratch))
            if HeldFile.at(fetched) != file:
                raise HubError(
                    f"{address}: {file.name} is not what its sha256 says; nothing was kept"
                )
            os.replace(fetched, whole / file.name)
        check_folder(whole, contents.kind)
        os.replace(whole, out)
    return out


def usual_folder(contents: Listing) -> Path:
    """Name the folder where the other commands look for what is pulled."""
    if contents.kind == "run":
        return Path("runs") / contents.name
    return home() / contents.env / contents.name


def _ask_contents(repository: Repository, address: str) -> Listing:
    """Read what a repository says of itself and see that it holds that and nothing else."""
    held = repository.sizes()
    if not 0 < held.get(CONTENTS, 0) <= MAX_CONTENTS_BYTES:
        raise HubError(
            f"{address} holds nothing that `radt hub push` has finished (no {CONTENTS} in it); "
            "check the name, or push again"
        )
    with TemporaryDirectory() as scratch:
        text = repository.fetch(CONTENTS, Path(scratch)).read_bytes()
    try:
        contents = decode(Listing, parse_json(text), CONTENTS)
    except ValueError as error:
        raise HubError(f"{address} is no repository of radt: {error}") from error
    _check_kind(repository, contents, address)
    refuse_unexpected(set(held) - BESIDE - set(contents.sizes), address)
    for name, size in contents.sizes.items():
        if held.get(name) != size:
            raise HubError(
                f"{address}: {name} has {held.get(name, 'no')} bytes and should have {size}; "
                "it was changed or half pushed, ask for it to be pushed again"
            )
    return contents


def _check_kind(repository: Repository, contents: Listing, address: str) -> None:
    if repository.kind not in (None, contents.kind):
        right = f"datasets/{address}" if contents.kind == "dataset" else address.partition("/")[2]
        raise HubError(f"this is a {contents.kind}, so its address is {right}, not {address}")


def _holds(folder: Path, contents: Listing) -> bool:
    """Tell whether a folder has every file, with the same content."""
    paths = [folder / file.name for file in contents.files]
    if not all(path.is_file() for path in paths):
        return False
    return tuple(map(HeldFile.at, paths)) == contents.files


def pushable(folder: Path) -> Listing:
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
    files = tuple(HeldFile.at(folder / name) for name in names)
    try:
        return Listing(kind, env, folder.resolve().name, files, code_version())
    except ValueError as error:
        raise HubError(f"{folder} cannot be pushed: {error}; rename it") from error


def refuse_unexpected(names: set[str], where: str) -> None:
    """Refuse files that no run and no dataset has, wherever they come from."""
    if names:
        raise HubError(
            f"{where} holds {min(names)!r}, which is not expected there ({len(names)} such files); "
            "radt takes safetensors, HDF5 and JSON of one run or dataset and nothing else"
        )


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
        read_json(path, dict[str, Any], "ask for it to be pushed again", HubError)
