"""The verb that writes one page about runs and comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from radt.commands.flags import Verb, styled


@dataclass(frozen=True, kw_only=True)
class ReportVerb(Verb):
    """Write one HTML page about runs and comparisons; it needs no network and no other file.

    Every run and every comparison leaves such a page, report.html, in its folder. This joins
    several: runs on the same tasks stand in one table. Nothing is computed again.

    Try:
      radt report runs/x
      radt report runs/x runs/y --out both.html
      radt report results/* --out all.html
    """

    folders: Annotated[
        Positional[tuple[Path, ...]], arg(metavar="DIR ...")
    ]  # folders of finished runs, or of comparisons such as results/dark-room-10x10
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The page (default: report.html, in the folder if there is one, else here)."""

    def execute(self) -> None:
        from radt.plots.html import REPORT
        from radt.plots.join import write_joined
        from radt.runs.run import RunError

        if not self.folders:
            raise RunError("say which folders, e.g. radt report runs/x results/dark-room-10x10")
        usual = self.folders[0] if len(self.folders) == 1 else Path()
        path = write_joined(self.folders, self.out or usual / REPORT)
        size = path.stat().st_size
        self.common.answer(
            {"out": str(path), "bytes": size},
            styled("[bold]{}[/], {} KB", path, round(size / 1000)),
        )
