"""One page about many folders: runs that belong together are compared, the others stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radt.decode import decode, read_json
from radt.plots.comparison import NAME, comparison_section, comparison_text, run_of
from radt.plots.html import Section, write_html
from radt.plots.icl_json import read_record
from radt.plots.records import Record, RecordError, check_comparable
from radt.plots.report import run_section
from radt.plots.tables import method_table
from radt.runs.run import RESULT


@dataclass(frozen=True)
class RunGroup:
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

    @property
    def wall_minutes(self) -> float | None:
        """The minutes of training that a comparison at equal time gave each method."""
        file = None if self.folder is None else self.folder / f"{NAME}.json"
        if file is None or not file.exists():
            return None
        minutes = read_json(file, dict[str, Any], "compare again", RecordError).get("wall_minutes")
        return decode(float, minutes, f"{file}: wall_minutes") if minutes is not None else None

    def section(self, full: bool) -> Section:
        """Show one run with all there is about it, or several compared."""
        alone = run_of(self.records[0], self.runs[0]) if len(self.runs) == 1 else None
        if alone is not None:
            return run_section(self.records[0], alone, full)
        folder = self.folder or self.runs[0]  # below it lies what was compared at equal time
        rows = method_table(self.records)
        text = comparison_text(self.records, rows, folder, self.wall_minutes)
        return comparison_section(self.records, self.runs, text, full)


def write_joined(folders: Sequence[Path], out: Path) -> Path:
    """Write one page about runs and comparisons; details that would not fit are left out."""
    groups = group_runs(folders)
    versions = ([group.section(full) for group in groups] for full in (True, False))
    return write_html(out, versions)


def group_runs(folders: Iterable[Path]) -> list[RunGroup]:
    """Group what the folders hold: a comparison as it is, single runs with those of their kind."""
    groups: list[RunGroup] = []
    for folder in dict.fromkeys(folders):
        published = sorted(path.parent for path in folder.glob(f"*/{RESULT}"))
        if published and not (folder / RESULT).exists():
            records = tuple(read_record(run / RESULT) for run in published)
            groups.append(RunGroup(tuple(published), records, folder))
            continue
        if not (folder / RESULT).exists():
            raise RecordError(
                f"{folder} is neither the folder of a finished run (it holds no {RESULT}) nor that "
                "of a comparison; give e.g. runs/x or results/dark-room-10x10"
            )
        record = read_record(folder / RESULT)
        fits = [place for place, group in enumerate(groups) if group.accepts(record)]
        if fits:
            group = groups[fits[0]]
            groups[fits[0]] = RunGroup((*group.runs, folder), (*group.records, record))
        else:
            groups.append(RunGroup((folder,), (record,)))
    return groups
