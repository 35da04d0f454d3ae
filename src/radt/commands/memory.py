"""The verbs about memories: look at one, check it, mend it, make it smaller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import Verb

if TYPE_CHECKING:
    from radt.memory.folder.store import FolderStore
    from radt.memory.folder.verify import Findings
    from radt.memory.postgres.store import PostgresStore

Folder = Annotated[Positional[Path], arg(metavar="DIR")]
BACKUP = "Bring its schema, {schema}, back from a backup of the database"
VACUUM = (
    "a server gives room back by itself (autovacuum); to shrink its files at once, let their owner "
    "run VACUUM FULL {schema}.entries, {schema}.directions"
)


def refuse_server(place: Path, why: str) -> None:
    """Refuse to do something to a memory on a server, and say what to do instead."""
    from radt.memory.identity import StoreError
    from radt.memory.postgres import server_name

    if (name := server_name(place)) is not None:
        raise StoreError(f"postgres:{name}: " + why.replace("{schema}", f'"radt_{name}"'))


@dataclass(frozen=True, kw_only=True)
class MemoryInfoVerb(Verb):
    """Print what is in a memory: entries, tasks, returns, bytes, and whose keys they are.

    Try:
      radt memory info memories/room
      radt memory info postgres:room
    """

    folder: Folder  # the memory's folder, or postgres:NAME

    def execute(self) -> None:
        """Open the memory as a reader and print."""
        import contextlib

        from radt.memory.folder.rewrite import open_reader

        with contextlib.closing(open_reader(self.folder)) as store:
            values = describe(store)
        lines = [f"{name.replace('_', ' '):<16} {value}" for name, value in values.items()]
        self.common.answer(values, "\n".join(lines))


def describe(store: FolderStore | PostgresStore) -> dict[str, Any]:
    """Say what is in a memory as plain values."""
    entries, identity, spaces = store.entries, store.identity, store.identity.spaces
    returns = entries.total_return
    return {
        "folder": store.place,
        "entries": len(entries),
        "tasks": len(entries.task.unique()),
        "episodes": len(entries.episode.unique()),
        "return_mean": round(float(returns.mean()), 4) if len(returns) else None,
        "return_best": float(returns.max()) if len(returns) else None,
        "writes": store.state.writes,
        "embedder": identity.embedder,
        "key_width": identity.key_width,
        "context_len": identity.context_len,
        "states": f"{spaces.state.kind} {spaces.state.shape}",
        "actions": f"{spaces.action.kind} {spaces.action.size}",
        "horizon": spaces.horizon,
        **where(store),
    }


def where(store: FolderStore | PostgresStore) -> dict[str, Any]:
    """Say how much room a memory takes where it lies, and who has made it."""
    from radt.memory.folder.generations import files_of
    from radt.memory.folder.store import FolderStore

    if isinstance(store, FolderStore):
        path, library = store.database.path, store.database.about.library
        taken, database = sum(file.stat().st_size for file in files_of(path)), path.name
    else:
        from radt.memory.postgres import tables

        database = store.server.schema
        taken = store.server.run(lambda connection: tables.size(connection, database))
        library = store.server.run(tables.read_about).library
    return {"bytes": taken, "made_by": f"radt {library}", "database": database}


@dataclass(frozen=True, kw_only=True)
class MemoryVerifyVerb(Verb):
    """Read all of a memory and compare it with its checksums; name every damaged entry."""

    folder: Folder  # the memory's folder, or postgres:NAME

    def execute(self) -> None:
        """Verify; damage is an error."""
        from radt.memory.identity import MemoryFileError
        from radt.memory.rows import some

        found = look_through(self.folder)
        if found.is_sound:
            sound = f"[green]{self.folder} is whole[/]: {found.whole} entries"
            self.common.answer({"folder": str(self.folder), **asdict(found)}, sound)
            return
        lost = f"{len(found.lost)} entries are lost or damaged: {some(found.lost)}"
        problems = "; ".join([*([lost] if found.lost else []), *found.problems[:5]])
        damage = f"is damaged, {found.whole} entries are whole. {problems}"
        refuse_server(self.folder, f"{damage}. {BACKUP}")
        raise MemoryFileError(
            f"{self.folder} {damage}. `radt memory repair {self.folder}` saves the whole ones"
        )


def look_through(place: Path) -> Findings:
    """Read all of a memory, in a folder or on a server."""
    from radt.memory.folder.verify import verify
    from radt.memory.postgres import explained_import, server_name

    if (name := server_name(place)) is None:
        return verify(place)
    with explained_import():
        from radt.memory.postgres.store import verify_server
    return verify_server(name)


@dataclass(frozen=True, kw_only=True)
class MemoryRepairVerb(Verb):
    """Copy the whole entries of a damaged memory into a new database; keep the damaged one aside.

    The memory must not be in use.
    """

    folder: Folder  # the memory's folder

    def execute(self) -> None:
        """Repair and say what was lost."""
        from radt.memory.folder.verify import repair
        from radt.memory.rows import some

        refuse_server(self.folder, f"only folders are repaired. {BACKUP}")
        done = repair(self.folder)
        values = {"folder": str(self.folder), **asdict(done)}
        if not done.aside:
            self.common.answer(values, f"[green]{self.folder} is whole[/]: nothing to repair")
            return
        said = [f"{done.kept} entries are saved", f"{len(done.lost)} are lost"]
        if done.lost:
            said[-1] += f" ({some(done.lost)})"
        if done.missing_writes:
            said.append(f"nothing is known of the last {done.missing_writes} writes")
        self.common.answer(values, f"{', '.join(said)}; the damaged files are in {done.aside}")


@dataclass(frozen=True, kw_only=True)
class MemoryCompactVerb(Verb):
    """Give back the room that forgotten entries take; the memory must not be in use."""

    folder: Folder  # the memory's folder

    def execute(self) -> None:
        """Compact and say what it brought."""
        from radt.memory.folder.rewrite import compact

        refuse_server(self.folder, VACUUM)
        done = compact(self.folder)
        taken = f"{done.bytes_before:,} bytes before, {done.bytes_after:,} now"
        values = {"folder": str(self.folder), **asdict(done)}
        self.common.answer(values, f"{done.entries} entries: {taken}")
