"""The verbs that share runs and datasets: push and pull."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import Verb, styled

Repo = Annotated[Positional[str], arg(metavar="REPO")]


@dataclass(frozen=True, kw_only=True)
class PushVerb(Verb):
    """Publish a finished run or a dataset, with a page that describes it.

    It goes to a repository of the Hugging Face hub (pip install 'radt[hub]', `hf auth login`), or
    to a folder of the same layout. Only safetensors, HDF5 and JSON are written, with their hashes.

    Try:
      radt hub push runs/x me/dark-room
      radt hub push dark-room-10x10 datasets/me/dark-room-histories
      radt hub push runs/x file:/shared/dark-room
    """

    what: Annotated[Positional[str], arg(metavar="RUN|DATASET")]
    """A run's folder, or a dataset's folder or environment."""
    repo: Repo  # OWNER/NAME, datasets/OWNER/NAME or file:FOLDER
    license: str = "mit"  # under which others may use it, as the hub spells it
    private: bool = False  # if it has to be made on the hub, show it to its owner only

    def execute(self) -> None:
        from radt.commands.data import find_dataset
        from radt.hub import push

        is_run = (Path(self.what) / "config.json").is_file()
        folder = Path(self.what) if is_run else find_dataset(self.what)
        contents = push(folder, self.repo, self.license, self.private)
        size = sum(contents.sizes.values())
        self.common.answer(
            {"repo": self.repo, "kind": contents.kind, "files": contents.sizes, "bytes": size},
            styled("pushed the {} [bold]{}[/] to [bold]{}[/]", contents.kind, folder, self.repo),
            f"{len(contents.files)} files, {size / 1e6:.1f} MB",
        )


@dataclass(frozen=True, kw_only=True)
class PullVerb(Verb):
    """Fetch a run or a dataset that `radt hub push` has published.

    Nothing is kept unless every file has its hash and nothing unexpected lies beside them.

    Try:
      radt hub pull me/dark-room
      radt hub pull datasets/me/dark-room-histories
      radt hub pull file:/shared/dark-room --out runs/theirs
    """

    repo: Repo  # OWNER/NAME, datasets/OWNER/NAME or file:FOLDER
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder to make (default: runs/NAME, or where datasets lie)."""
    revision: Annotated[str | None, arg(help_behavior_hint="(default: the latest)")] = None
    """Commit or tag on the hub."""

    def execute(self) -> None:
        from radt.data.manifest import MANIFEST
        from radt.hub import pull

        out = pull(self.repo, self.out, self.revision)
        is_dataset = (out / MANIFEST).is_file()
        look = f"radt data info {out}" if is_dataset else f"radt evaluate {out}"
        kind = "dataset" if is_dataset else "run"
        values = {"repo": self.repo, "kind": kind, "out": str(out)}
        self.common.answer(values, styled("pulled: [bold]{}[/]\nnext:   {}", out, look))
