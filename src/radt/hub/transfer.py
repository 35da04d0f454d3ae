"""Push a run or a dataset to a repository, and pull one: all of it, checked, or nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from radt.data import home
from radt.hub.cards import write_card
from radt.hub.contents import (
    BESIDE,
    CARD,
    CONTENTS,
    MAX_CONTENTS_BYTES,
    Contents,
    HubError,
    belongs,
    check_file,
    check_folder,
    check_listing,
    describe,
    gather,
    read_contents,
    refuse_unexpected,
)
from radt.hub.repository import Files, Repository, open_repository


def push(folder: Path, address: str, licence: str = "mit", private: bool = False) -> Contents:
    """Publish a finished run or a dataset with a card; what was pushed there before is replaced."""
    repository, contents = open_repository(address), gather(folder)
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
            check_file(fetched, file, address)
            os.replace(fetched, whole / file.name)
        check_folder(whole, contents.kind)
        os.replace(whole, out)
    return out


def usual_folder(contents: Contents) -> Path:
    """Name the folder where the other commands look for what is pulled."""
    if contents.kind == "run":
        return Path("runs") / contents.name
    return home() / contents.env / contents.name


def _ask_contents(repository: Repository, address: str) -> Contents:
    """Read what a repository says of itself and see that it holds that and nothing else."""
    held = repository.sizes()
    if not 0 < held.get(CONTENTS, 0) <= MAX_CONTENTS_BYTES:
        raise HubError(
            f"{address} holds nothing that `radt hub push` has finished (no {CONTENTS} in it); "
            "check the name, or push again"
        )
    with TemporaryDirectory() as scratch:
        contents = read_contents(repository.fetch(CONTENTS, Path(scratch)), address)
    _check_kind(repository, contents, address)
    check_listing(held, contents, address)
    return contents


def _check_kind(repository: Repository, contents: Contents, address: str) -> None:
    if repository.kind not in (None, contents.kind):
        right = f"datasets/{address}" if contents.kind == "dataset" else address.partition("/")[2]
        raise HubError(f"this is a {contents.kind}, so its address is {right}, not {address}")


def _holds(folder: Path, contents: Contents) -> bool:
    """Tell whether a folder has every file, with the same content."""
    paths = [folder / file.name for file in contents.files]
    if not all(path.is_file() for path in paths):
        return False
    return tuple(map(describe, paths)) == contents.files
