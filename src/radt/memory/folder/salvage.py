"""Reading entries out of a damaged database, page by page, without SQLite's help.

The rows of a table lie in leaf pages, and each leaf can be read on its own, from the database and
from its log: damage elsewhere does not matter. Whether a row is still what it was tells its seal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radt.memory.about import About, about_from, is_about, is_forgotten
from radt.memory.folder.pages import PARSE_ERRORS, Cell, Pages, cells, record
from radt.memory.rows import Row, is_whole


@dataclass
class Salvage:
    """What can still be read of a database."""

    pages: Pages
    cells: dict[int, Cell] = field(default_factory=dict)  # id -> a whole row of the entries
    current: set[int] = field(default_factory=set)  # ids that SQLite, too, would see
    forgotten: set[int] = field(default_factory=set)
    said: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)  # rows of `about`

    @property
    def about(self) -> About | None:
        """What the database says of itself, in the latest state that was found."""
        return max(self._abouts(), key=lambda about: about.state.writes, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether as many rows were found as the latest state asks for."""
        about = self.about
        return about is not None and about.state.entries == len(self.current - self.forgotten)

    def row(self, id: int) -> Row:
        """Read a whole row again."""
        _, values = record(self.pages, self.cells[id])
        return Row(id, *values[1:])

    def look_at(self, image: int) -> None:
        """Take in what is whole on one image of a page."""
        for cell in cells(self.pages, image):
            try:
                self._take(cell, *record(self.pages, cell))
            except PARSE_ERRORS:
                continue

    def _take(self, cell: Cell, id: int, values: list[Any]) -> None:
        if len(values) == len(Row._fields):
            if is_whole(Row(id, *values[1:])):
                self.cells.setdefault(id, cell)
                if self.pages.is_current(cell.image):
                    self.current.add(id)
        elif len(values) == 3 and values[0] is None:
            if is_forgotten((id, *values[1:])):
                self.forgotten.add(id)
        elif len(values) == 3 and is_about(values):
            self.said.setdefault(values[0], []).append(tuple(values))

    def _abouts(self) -> Iterator[About]:
        fixed = [rows[0] for name, rows in self.said.items() if name != "state"]
        for state in self.said.get("state", []):
            try:
                yield about_from([*fixed, state])
            except ValueError:
                continue


def salvage(database: Path) -> Salvage:
    """Look at the pages that SQLite would read and, if rows are missing, at their older images."""
    pages = Pages(database)
    found = Salvage(pages)
    for current in (True, False):
        for image in reversed(range(len(pages))):
            if pages.is_current(image) is current:
                found.look_at(image)
        if found.is_complete:
            break
    return found
