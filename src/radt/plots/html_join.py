"""One page about many folders: runs that belong together are compared, the others stand alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from radt.experiments.run import RESULT, Run
from radt.plots.comparison import comparison_parts, title_of
from radt.plots.html import joined, write_html
from radt.plots.html_pages import comparison_body, run_of
from radt.plots.records import Record, RecordError, check_comparable, read_record
from radt.plots.report import run_body, run_title
from radt.plots.rows import method_table

COMPARED = "compare.json"  # what a comparison says to programs


@dataclass(frozen=True)
class Group:
    """Runs that are shown in one table."""

    runs: tuple[Path, ...]
    records: tuple[Record, ...]
    folder: Path | None = None  # of the comparison that they were published in

    def accepts(self, record: Record) -> bool:
        """Tell whether a run of its own can stand in the same table."""
        try:
            check_comparable([*self.records, record])
        except RecordError:
            return False
        return self.folder is None

    def followed_by(self, run: Path, record: Record) -> Group:
        """Add a run."""
        return Group((*self.runs, run), (*self.records, record))

    @property
    def wall_minutes(self) -> float | None:
        """The minutes of training that a comparison at equal time gave each method."""
        file = None if self.folder is None else self.folder / COMPARED
        if file is None or not file.exists():
            return None
        minutes = json.loads(file.read_text(encoding="utf-8")).get("wall_minutes")
        return None if minutes is None else float(minutes)

    @property
    def alone(self) -> Run | None:
        """The run, where there is only one and its config can be read."""
        return run_of(self.records[0], self.runs[0]) if len(self.runs) == 1 else None


def write_joined(folders: Sequence[Path], out: Path) -> Path:
    """Write one page about runs and comparisons; details that would not fit are left out."""
    groups = gather(folders)
    titles = [title(group) for group in groups]
    bodies = (
        joined([(name, body(group, full)) for name, group in zip(titles, groups, strict=True)])
        for full in (True, False)
    )
    whole = titles[0] if len(titles) == 1 else f"{len(titles)} results of in-context learning"
    return write_html(out, whole, bodies)


def gather(folders: Iterable[Path]) -> list[Group]:
    """Group what the folders hold: a comparison as it is, single runs with those of their kind."""
    groups: list[Group] = []
    for folder in dict.fromkeys(folders):
        published = sorted(path.parent for path in folder.glob(f"*/{RESULT}"))
        if published and not (folder / RESULT).exists():
            records = tuple(read_record(run / RESULT) for run in published)
            groups.append(Group(tuple(published), records, folder))
            continue
        _add(groups, folder, read_run(folder))
    return groups


def read_run(folder: Path) -> Record:
    """Read the result of a run."""
    if not (folder / RESULT).exists():
        raise RecordError(
            f"{folder} is neither the folder of a finished run (it holds no {RESULT}) nor that of "
            "a comparison; give e.g. runs/x or results/dark-room-10x10"
        )
    return read_record(folder / RESULT)


def _add(groups: list[Group], folder: Path, record: Record) -> None:
    for place, group in enumerate(groups):
        if group.accepts(record):
            groups[place] = group.followed_by(folder, record)
            return
    groups.append(Group((folder,), (record,)))


def title(group: Group) -> str:
    """Say what a group shows."""
    if group.alone is not None:
        return run_title(group.records[0])
    return title_of(group.records, group.wall_minutes)


def body(group: Group, full: bool) -> str:
    """Show a group: one run with all there is about it, or several compared."""
    if group.alone is not None:
        return run_body(group.records[0], group.alone, with_film=full)
    folder = (
        group.folder or group.runs[0]
    )  # what was compared at equal time lies below a comparison
    rows = method_table(group.records)
    parts = comparison_parts(group.records, rows, folder, "compare", group.wall_minutes)
    return comparison_body(group.records, group.runs, parts, "compare", full)
