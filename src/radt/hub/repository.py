"""Where runs and datasets are pushed to: the Hugging Face hub, or a folder with the same files.

The hub's token is never read here: huggingface_hub takes it from HF_TOKEN or from what `hf auth
login` has saved. It is cut out of whatever the hub answers, so that no message shows it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from radt.files import atomic_write
from radt.hub.contents import CONTENTS, HubError, Kind

LOCAL = "file:"
ADDRESS = re.compile(r"(?P<dataset>datasets/)?(?P<repo>(?!datasets/)\w[\w.-]*/\w[\w.-]*)", re.ASCII)
SECRET = re.compile(r"hf_\w+|(?<=Bearer )\S+|(?<=://)[^/\s]*@")

Files = Mapping[str, Path | bytes]  # what is published, by name


class Repository(Protocol):
    """A place with a flat list of files, which is replaced as a whole."""

    @property
    def kind(self) -> Kind | None:
        """What it can hold; None: either."""
        ...

    def create(self, private: bool) -> None:
        """Make it unless it exists."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""
        ...

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy one file into a folder and return where it is."""
        ...

    def publish(self, files: Files) -> None:
        """Replace all that it holds, the list of contents last."""
        ...


def open_repository(address: str, revision: str | None = None) -> Repository:
    """Find the repository that an address stands for; nothing is asked of it yet."""
    if address.startswith(LOCAL):
        if revision is not None:
            raise HubError(f"a folder has no --revision; leave {revision!r} out")
        return FolderRepository(Path(address.removeprefix(LOCAL)))
    match = ADDRESS.fullmatch(address)
    if match is None:
        raise HubError(
            f"{without_secrets(address)!r} is no repository; give OWNER/NAME for a run, "
            "datasets/OWNER/NAME for a dataset, or file:FOLDER for a folder"
        )
    return HubRepository(match["repo"], "dataset" if match["dataset"] else "run", revision)


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
            if isinstance(content, Path):
                shutil.copyfile(content, self.folder / name)
            else:
                atomic_write(self.folder / name, content)


@dataclass(frozen=True)
class HubRepository:
    """A repository of the Hugging Face hub, seen at one commit."""

    repo: str
    kind: Kind
    revision: str | None = None

    @property
    def repo_type(self) -> str:
        """What the hub calls such a repository."""
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
        """Return the bytes of each file."""
        return {file.rfilename: int(file.size or 0) for file in self.info.siblings}

    def fetch(self, name: str, folder: Path) -> Path:
        """Download a file."""
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


def without_secrets(text: str, token: str | None = None) -> str:
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
        lines = without_secrets(str(error), huggingface_hub.get_token()).strip().splitlines()
        raise HubError(
            f"the hub does not do this with {repo} ({type(error).__name__}: "
            f"{lines[0] if lines else ''}); check the name and the network, and log in with "
            "`hf auth login` where it is private or to be written"
        ) from None  # the error behind it may quote the token
