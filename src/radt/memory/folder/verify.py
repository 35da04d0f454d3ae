"""Looking for damage in a memory's folder, and saving what is whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from radt.memory.about import State
from radt.memory.folder.acknowledged import Acknowledged, read_acknowledged
from radt.memory.folder.checks import check_writes
from radt.memory.folder.database import Database
from radt.memory.folder.generations import (
    DAMAGED,
    database_path,
    databases,
    expect_acknowledged,
    files_of,
    hold,
    no_memory,
    open_current,
    remove_others,
    switch,
)
from radt.memory.folder.salvage import Salvage, salvage
from radt.memory.identity import Identity, MemoryFileError
from radt.memory.rows import RowFormat, content_problem, some


@dataclass(frozen=True)
class Findings:
    """What was found in a folder: problems, and which entries are whole."""

    whole: int
    lost: tuple[int, ...]  # ids of entries that must be there and are damaged or gone
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether all that was acknowledged is there as it was written."""
        return not self.problems and not self.lost


@dataclass(frozen=True)
class Repair:
    """What a repair could save."""

    kept: int
    lost: tuple[int, ...]
    missing_writes: int  # acknowledged, but nothing says what was in them
    aside: str  # the folder of what was damaged; empty where nothing was


def verify(folder: Path) -> Findings:
    """Read everything in a folder, as SQLite gives it and as it was sealed."""
    promised = expect_acknowledged(folder)
    try:
        with contextlib.closing(open_current(folder, writing=False)[0]) as database:
            return _verified(database, promised)
    except MemoryFileError as error:
        found = _Rest(salvage(database_path(folder, promised.generation)), promised)
        return Findings(len(found.ids), found.lost, (str(error),))


def _verified(database: Database, promised: Acknowledged) -> Findings:
    """Check every row of a database that opens."""
    problems, good = [], set()
    with database.reading():
        about = database.read_about()
        check_writes(database.path, about.state, promised)
        problems += database.integrity()
        for row in database.rows(contents=True):
            if problem := content_problem(row, RowFormat(about.identity)):
                problems.append(f"entry {row.id}: {problem}")
            else:
                good.add(row.id)
        expected = set(range(1, about.state.last_id + 1)) - set(database.forgotten())
    if len(expected) != about.state.entries:
        problems.append(f"{about.state.entries} entries are expected, {len(expected)} are known")
    if strange := good - expected:
        problems.append(f"entries {some(strange)} were forgotten, or never written")
    return Findings(len(good & expected), tuple(sorted(expected - good)), tuple(problems))


def repair(folder: Path) -> Repair:
    """Copy what is whole into a new database and put the damaged one aside."""
    if not folder.is_dir():
        raise no_memory(folder)
    with hold(folder):
        promised = read_acknowledged(folder)
        if promised is not None and (findings := verify(folder)).is_sound:
            return Repair(findings.whole, (), 0, "")
        path = _latest(folder, promised)
        found = _Rest(salvage(path), promised)
        identity = found.identity or _copied_identity(path)
        format = RowFormat(identity)
        kept = [id for id in found.ids if not content_problem(found.salvage.row(id), format)]
        aside = _put_aside(files_of(path), folder / DAMAGED)
        generation = int(path.stem.split("-")[1]) + 1
        rows = (found.salvage.row(id) for id in kept)
        switch(folder, generation, identity, rows, found.next_state(len(kept)))
        remove_others(folder, database_path(folder, generation))
        lost = sorted({*found.lost, *found.ids} - set(kept))
        return Repair(len(kept), tuple(lost), found.missing_writes, str(aside))


class _Rest:
    """What was salvaged, against what must be there."""

    def __init__(self, found: Salvage, promised: Acknowledged | None) -> None:
        self.salvage = found
        about = found.about
        self.identity = about.identity if about else None
        self.state = about.state if about else State()
        writes = promised.writes if promised else 0
        self.missing_writes = max(0, writes - self.state.writes)
        is_known = about is not None and not self.missing_writes
        last = self.state.last_id if is_known else max([self.state.last_id, *found.cells])
        expected = set(range(1, last + 1)) - found.forgotten
        there, older = expected & found.current, expected & (found.cells.keys() - found.current)
        wanted = self.state.entries - len(there) if is_known else len(older)
        if len(older) <= wanted:  # else some of them were forgotten, and nobody knows which
            there |= older
        self.ids = sorted(there)
        is_all = is_known and len(there) == self.state.entries
        self.lost = () if is_all else tuple(sorted(expected - there))

    def next_state(self, kept: int) -> State:
        """Return the state of a database that holds the kept rows, numbered anew."""
        episodes = [self.salvage.row(id).episode + 1 for id in self.ids[-1:]]
        return State(
            writes=self.state.writes + self.missing_writes + 1,
            entries=kept,
            episodes=max([self.state.episodes, *episodes]),
            last_id=kept,
        )


def _latest(folder: Path, promised: Acknowledged | None) -> Path:
    """Return the database that counts, or the newest where nobody knows."""
    known = [database_path(folder, promised.generation)] if promised else []
    for path in (*known, *reversed(databases(folder))):
        if files_of(path):  # also if only its log is left
            return path
    raise no_memory(folder)


def _copied_identity(path: Path) -> Identity:
    """Read the copy of what a memory is."""
    copy = path.with_suffix(".json")
    try:
        return Identity.from_json(json.loads(copy.read_text("utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise MemoryFileError(
            f"neither {path} nor {copy} says any more what the memory is ({error}), so no entry "
            "can be read; bring the folder back from a copy"
        ) from error


def _put_aside(files: Iterable[Path], aside: Path) -> Path:
    """Give files a second name in another folder, so that they stay when the first one goes."""
    aside.mkdir(exist_ok=True)
    number = len(list(aside.iterdir())) + 1
    place = aside / f"{number:03d}"
    place.mkdir()
    for file in files:
        try:
            os.link(file, place / file.name)
        except OSError:  # this file system has no second names
            shutil.copy2(file, place / file.name)
    return place
