"""Where runs and datasets are pushed to: the Hugging Face hub, or a folder with the same files.

A repository holds a few kinds of files, each with its size and hash, and nothing else. The hub's
token is never read here: huggingface_hub takes it from HF_TOKEN or from what `hf auth login` has
saved. It is cut out of whatever the hub answers, so that no message shows it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from radt.data.manifest import MANIFEST, check_name_and_hash
from radt.errors import RadtError
from radt.files import atomic_write, sha256
from radt.plots.records import DATA
from radt.runs.run import CHECKPOINT, RESULT

FORMAT = 1
CONTENTS, CARD = "radt.json", "README.md"
NEEDED = (CHECKPOINT, "config.json", RESULT)  # of a run
PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")  # a part of the path that is pulled to
MAX_FILE_BYTES = 2**40
LOCAL = "file:"
ADDRESS = re.compile(r"(?P<dataset>datasets/)?(?P<repo>(?!datasets/)\w[\w.-]*/\w[\w.-]*)", re.ASCII)
SECRET = re.compile(r"hf_\w+|(?<=Bearer )\S+|(?<=://)[^/\s]*@")

Kind = Literal["run", "dataset"]
Files = Mapping[str, Path | bytes]  # what is published, by name


class HubError(RadtError, ValueError):
    """Something that cannot be pushed or pulled; the message says what to do."""


@dataclass(frozen=True)
class HeldFile:
    """One file: what it is called, how long it is and what is in it."""

    name: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        check_name_and_hash(self.name, self.sha256)
        if not 0 <= self.bytes <= MAX_FILE_BYTES:
            raise ValueError(f"{self.name} cannot have {self.bytes} bytes")

    @classmethod
    def at(cls, path: Path) -> HeldFile:
        return cls(path.name, path.stat().st_size, sha256(path))


@dataclass(frozen=True)
class Listing:
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
        return {file.name: file.bytes for file in self.files}


def belongs(kind: Kind, name: str) -> bool:
    """Tell whether a run or a dataset can have a file of this name."""
    if kind == "run":
        return name in (*NEEDED, DATA)
    return name == MANIFEST or name.endswith(".h5")


@dataclass(frozen=True)
class FolderRepository:
    """A folder of this machine, or of one whose disk it shares."""

    folder: Path
    kind: Kind | None = None

    def create(self, private: bool) -> None:
        """Make the folder; who may read it is the system's affair."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file, also of those in folders inside."""
        found = [path for path in self.folder.rglob("*") if path.is_symlink() or not path.is_dir()]
        return {str(path.relative_to(self.folder)): path.lstat().st_size for path in found}

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy a file, but not what a link leads to."""
        if (self.folder / name).is_symlink():
            raise HubError(f"{self.folder / name} is a link; a repository holds files only")
        return Path(shutil.copyfile(self.folder / name, folder / name))

    def publish(self, files: Files) -> None:
        """Write the files; until the list of contents is there nobody takes it for finished."""
        (self.folder / CONTENTS).unlink(missing_ok=True)
        for name in self.sizes().keys() - files.keys():
            (self.folder / name).unlink()
        for name in sorted(files, key=lambda name: name == CONTENTS):
            content = files[name]
            copied = partial(shutil.copyfile, content) if isinstance(content, Path) else content
            atomic_write(self.folder / name, copied)


@dataclass(frozen=True)
class HubRepository:
    """A repository of the Hugging Face hub, seen at one commit."""

    repo: str
    kind: Kind
    revision: str | None = None

    @property
    def repo_type(self) -> str:
        return "model" if self.kind == "run" else "dataset"

    @cached_property
    def info(self) -> Any:
        """What the hub says of it; all files are taken from the commit named there."""
        with _asking(self.repo) as hub:
            return hub.HfApi().repo_info(
                self.repo, repo_type=self.repo_type, revision=self.revision, files_metadata=True
            )

    def create(self, private: bool) -> None:
        """Make the repository; one that exists stays as public or private as it is."""
        with _asking(self.repo) as hub:
            hub.HfApi().create_repo(
                self.repo, repo_type=self.repo_type, private=private, exist_ok=True
            )

    def sizes(self) -> dict[str, int]:
        return {file.rfilename: int(file.size or 0) for file in self.info.siblings}

    def fetch(self, name: str, folder: Path) -> Path:
        place = {"repo_type": self.repo_type, "revision": self.info.sha, "local_dir": folder}
        with _asking(self.repo) as hub:
            return Path(hub.hf_hub_download(self.repo, name, **place))

    def publish(self, files: Files) -> None:
        """Upload everything in one commit, on top of the one that was looked at."""
        stale = self.sizes().keys() - files.keys() - {".gitattributes"}
        with _asking(self.repo) as hub:
            added = [hub.CommitOperationAdd(name, content) for name, content in files.items()]
            hub.HfApi().create_commit(
                self.repo,
                [*added, *(hub.CommitOperationDelete(name) for name in sorted(stale))],
                commit_message="radt hub push",
                repo_type=self.repo_type,
                parent_commit=self.info.sha,
            )


Repository: TypeAlias = FolderRepository | HubRepository


def open_repository(address: str, revision: str | None = None) -> Repository:
    """Find the repository that an address stands for; nothing is asked of it yet."""
    if address.startswith(LOCAL):
        if revision is not None:
            raise HubError(f"a folder has no --revision; leave {revision!r} out")
        return FolderRepository(Path(address.removeprefix(LOCAL)))
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise HubError(
            f"{redacted(address)!r} is no repository; give OWNER/NAME for a run, "
            "datasets/OWNER/NAME for a dataset, or file:FOLDER for a folder"
        )
    return HubRepository(match["repo"], "dataset" if match["dataset"] else "run", revision)


def redacted(text: str, token: str | None = None) -> str:
    """Cut tokens and passwords out of a text."""
    return SECRET.sub("***", text.replace(token, "***") if token else text)


@contextmanager
def _asking(repo: str) -> Iterator[Any]:
    """Lend huggingface_hub; what goes wrong with it becomes one line without secrets."""
    try:
        import huggingface_hub
    except ImportError:
        raise HubError(
            "the Hugging Face hub needs huggingface_hub; install it with: pip install 'radt[hub]'. "
            "A folder needs nothing: give file:FOLDER"
        ) from None
    try:
        yield huggingface_hub
    except Exception as error:  # of the network, of the hub, of its client
        lines = redacted(str(error), huggingface_hub.get_token()).strip().splitlines()
        raise HubError(
            f"the hub does not do this with {repo} ({type(error).__name__}: "
            f"{lines[0] if lines else ''}); check the name and the network, and log in with "
            "`hf auth login` where it is private or to be written"
        ) from None  # the error behind it may quote the token
