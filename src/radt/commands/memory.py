"""The verbs about memories in folders: look at one, check it, mend it, make it smaller."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.flags import Verb

if TYPE_CHECKING:
    from radt.memory.folder.store import FolderStore

Folder = Annotated[Positional[Path], arg(metavar="DIR")]


@dataclass(frozen=True, kw_only=True)
class MemoryInfoVerb(Verb):
    """Print what is in a memory: entries, tasks, returns, bytes, and whose keys they are.

    Try:
      radt memory info memories/room
    """

    folder: Folder  # the memory's folder

    def execute(self) -> None:
        """Open the memory as a reader and print."""
        import contextlib

        from radt.memory.folder.store import FolderStore

        with contextlib.closing(FolderStore(self.folder, None, writing=False)) as store:
            values = describe(store)
        lines = [f"{name.replace('_', ' '):<16} {value}" for name, value in values.items()]
        self.common.answer(values, "\n".join(lines))


def describe(store: FolderStore) -> dict[str, Any]:
    """Say what is in a memory as plain values."""
    from radt.memory.folder.generations import files_of

    entries, about = store.entries, store.database.about
    returns = entries.total_return
    return {
        "folder": store.place,
        "entries": len(entries),
        "tasks": len(entries.task.unique()),
        "episodes": len(entries.episode.unique()),
        "return_mean": round(float(returns.mean()), 4) if len(returns) else None,
        "return_best": float(returns.max()) if len(returns) else None,
        "bytes": sum(file.stat().st_size for file in files_of(store.database.path)),
        "writes": store.state.writes,
        "embedder": about.identity.embedder,
        "key_width": about.identity.key_width,
        "context_len": about.identity.context_len,
        "states": f"{about.identity.spaces.state.kind} {about.identity.spaces.state.shape}",
        "actions": f"{about.identity.spaces.action.kind} {about.identity.spaces.action.size}",
        "horizon": about.identity.spaces.horizon,
        "made_by": f"radt {about.library}",
        "database": store.database.path.name,
    }


@dataclass(frozen=True, kw_only=True)
class MemoryVerifyVerb(Verb):
    """Read all of a memory and compare it with its checksums; name every damaged entry."""

    folder: Folder  # the memory's folder

    def execute(self) -> None:
        """Verify; damage is an error."""
        from radt.memory.folder.verify import verify
        from radt.memory.identity import MemoryFileError
        from radt.memory.rows import some

        found = verify(self.folder)
        if found.is_sound:
            sound = f"[green]{self.folder} is whole[/]: {found.whole} entries"
            self.common.answer({"folder": str(self.folder), **asdict(found)}, sound)
            return
        lost = f"{len(found.lost)} entries are lost or damaged: {some(found.lost)}"
        problems = "; ".join([*([lost] if found.lost else []), *found.problems[:5]])
        raise MemoryFileError(
            f"{self.folder} is damaged, {found.whole} entries are whole. {problems}. "
            f"`radt memory repair {self.folder}` saves the whole ones"
        )


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

        done = compact(self.folder)
        taken = f"{done.bytes_before:,} bytes before, {done.bytes_after:,} now"
        values = {"folder": str(self.folder), **asdict(done)}
        self.common.answer(values, f"{done.entries} entries: {taken}")
