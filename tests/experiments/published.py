"""What experiments leave under `results`, and what lies there that none of them left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from radt.experiments import EXPERIMENTS
from radt.experiments.experiment import Experiment
from radt.experiments.reproduce import Where, comparison_of

TABLE = ("compare.json", "compare.md", "compare*.png", "learning.png", "report.html", "pace/*")


def made_by(experiment: Experiment, where: Where) -> Iterator[tuple[Path, str]]:
    """List what an experiment leaves under `results`, as folders and patterns of files in them."""
    yield where.results / experiment.name, "*"
    for study in experiment.studies if experiment.kind == "compare" else ():
        comparison = comparison_of(study, where)
        for row, seed in comparison.names():
            yield comparison.published / f"{row.label}-seed{seed}", "*"
        for folder in {comparison.published, where.results / study.env}:
            yield from ((folder, pattern) for pattern in TABLE)


def unmade(results: Path, apart: Sequence[str]) -> list[Path]:
    """List the files under `results` that no experiment leaves, but for those that are apart."""
    where = Where(results=results)
    known = [made for name in EXPERIMENTS.names() for made in made_by(EXPERIMENTS[name], where)]
    folders: dict[Path, list[str]] = {}
    for folder, pattern in known:
        folders.setdefault(folder, []).append(pattern)

    def is_made(file: Path) -> bool:
        return any(
            file.relative_to(parent).match(pattern)
            for parent in file.parents
            for pattern in folders.get(parent, ())
            if len(file.relative_to(parent).parts) == len(Path(pattern).parts)
        )

    files = (file for file in sorted(results.rglob("*")) if file.is_file())
    return [
        file
        for file in files
        if file.relative_to(results).parts[0] not in apart and not is_made(file)
    ]
