"""The verbs about datasets: what there is, what is in it, whether it is whole."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, Suppress, arg

from radt.commands.flags import ComputingVerb, RunWords, Verb, plain_columns, styled
from radt.errors import RunError

DatasetName = Annotated[Positional[str], arg(metavar="ENV|DIR")]


def find_dataset(name: str) -> Path:
    """Return the folder that a path or the name of an environment stands for."""
    from radt.data import DataError, home
    from radt.data.manifest import MANIFEST
    from radt.envs import SUITES

    if (Path(name) / MANIFEST).is_file():
        return Path(name)
    ready = sorted(path.parent for path in (home() / name).glob(f"*/{MANIFEST}"))
    if not ready and name in SUITES.names():
        raise DataError(
            f"there is no finished dataset of {name} in {home()}; `radt collect {name}` makes it"
        )
    if not ready:
        raise DataError(
            f"{name!r} is neither the folder of a finished dataset (it holds no {MANIFEST}) nor an "
            "environment; `radt data list` shows the datasets, `radt envs` the environments"
        )
    if len(ready) == 1:
        return ready[0]

    from radt.api import preset
    from radt.runs.run import dataset_path

    if (usual := dataset_path(preset(name))) not in ready:  # what `radt collect` makes
        names = ", ".join(map(str, ready))
        raise DataError(f"{name} has several datasets; give the folder of one: {names}")
    return usual


def described_dataset(folder: Path) -> tuple[dict[str, Any], str]:
    """Return a dataset's card as plain values and as text."""
    from radt.data import Dataset, card, render

    measured = card(Dataset.open(folder))
    return {"folder": str(folder), **dataclasses.asdict(measured)}, render(measured)


@dataclass(frozen=True, kw_only=True)
class InfoVerb(Verb):
    """Print a dataset's card: size, returns over time, lengths, coverage.

    Try:
      radt data info dark-room-10x10
      radt data info data/dark-room-10x10/ppo-seed0
    """

    dataset: DatasetName  # an environment's name or a dataset's folder

    def execute(self) -> None:
        self.common.answer(*described_dataset(find_dataset(self.dataset)))


@dataclass(frozen=True, kw_only=True)
class CurvesVerb(Verb):
    """Draw how the source of one or more datasets learned, and write the numbers beside it.

    Try:
      radt data curves dark-key-door-10x10 dark-key-door-10x10-persist --out source.png
    """

    datasets: Annotated[
        Positional[tuple[str, ...]], arg(metavar="ENV|DIR ...")
    ]  # names of environments or folders of datasets
    out: Path = Path("source.png")  # the picture; the numbers go beside it as .json

    def execute(self) -> None:
        from radt.data import Dataset
        from radt.plots.source import draw_source

        folders = [find_dataset(name) for name in self.datasets]
        curves = draw_source([Dataset.open(folder) for folder in folders], self.out)
        lines = []
        for curve in curves:
            n = curve.digits
            best = "" if curve.optimum is None else f" of {curve.optimum:.{n}f}"
            learned = "" if curve.learned is None else f", {curve.learned:.0%} of tasks learned"
            lines.append(f"{curve.label}: {curve.last_tenth:.{n}f}{best} at the end{learned}")
        values = {"out": str(self.out), "curves": [dataclasses.asdict(curve) for curve in curves]}
        self.common.answer(values, "\n".join([*lines, str(self.out)]))


@dataclass(frozen=True, kw_only=True)
class EncodeVerb(ComputingVerb, RunWords):
    """Train an encoder of images, freeze it, and store what it makes of a dataset's images.

    Runs that need it do this themselves; a killed one goes on. What is stored lies in a folder of
    the dataset, and all runs with the same encoder read it.

    Try:
      radt data encode procgen
    """

    method: Suppress[str | None] = None  # an encoder is the same for all of them

    def execute(self) -> None:
        from radt.runs.train import encode_images

        config, _ = self.compose()
        if config.encoder is None:
            raise RunError(f"runs on {config.env} have no encoder; --set encoder={{}} adds one")
        folder = encode_images(config, self.common.quiet, self.common.device)
        self.common.answer(*described_dataset(folder), styled("[dim]{}[/]", folder))


@dataclass(frozen=True, kw_only=True)
class VerifyVerb(Verb):
    """Read every file of a dataset and compare it with the manifest's hashes and shapes."""

    dataset: DatasetName  # an environment's name or a dataset's folder

    def execute(self) -> None:
        import contextlib

        from radt.data import read_manifest
        from radt.data.store import open_task
        from radt.track import Tracker

        folder = find_dataset(self.dataset)
        manifest = read_manifest(folder)
        tracker = Tracker(quiet=self.common.quiet)
        tracker.start("verify", total=len(manifest.files))
        try:
            for number, entry in enumerate(manifest.files, start=1):
                with contextlib.closing(open_task(folder, entry, manifest.spaces)):
                    tracker.advance(number, entry.file)
        finally:
            tracker.finish()
        values = {"folder": str(folder), "files": len(manifest.files), "sha256": manifest.sha256}
        count, found = len(manifest.files), manifest.sha256
        whole = styled("[green]{} is whole[/]: {} files, {}", folder, count, found)
        self.common.answer(values, whole)


@dataclass(frozen=True, kw_only=True)
class ListVerb(Verb):
    """List the datasets in $RADT_HOME (default: ./data)."""

    def execute(self) -> None:
        from radt.data import home

        rows = list_datasets()
        heads = ["environment", "source", "seed", "tasks", "transitions"]
        table = plain_columns(heads, where="folder")
        for row in rows:
            counts = f"{row['tasks']:,}", f"{row['transitions']:,}"
            table.add_row(row["env"], row["source"], str(row["seed"]), *counts, row["folder"])
        nothing = f"no datasets in {home()}; `radt collect dark-room-10x10` makes one"
        self.common.answer({"home": str(home()), "datasets": rows}, table if rows else nothing)


def list_datasets() -> list[dict[str, Any]]:
    """Describe every finished dataset in a few values."""
    from radt.data import home, read_manifest
    from radt.data.manifest import MANIFEST

    rows = []
    for path in sorted(home().glob(f"*/*/{MANIFEST}")):
        manifest = read_manifest(path.parent)
        rows.append(
            {
                "env": manifest.env,
                "source": manifest.source,
                "seed": manifest.seed,
                "tasks": len(manifest.files),
                "transitions": sum(entry.transitions for entry in manifest.files),
                "folder": str(path.parent),
            }
        )
    return rows
