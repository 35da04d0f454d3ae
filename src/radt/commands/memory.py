"""The verbs about memories: look at one, check it, mend it, fill it, give it other keys."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.data import find_dataset
from radt.commands.flags import Common, Verb, styled
from radt.errors import RunError

if TYPE_CHECKING:
    from rich.text import Text

    from radt.memory.entries import Entries
    from radt.memory.identity import Identity
    from radt.spaces import TaskSpaces
    from radt.trajectory import Trajectory

BACKUP = "Bring its schema, {schema}, back from a backup of the database"
VACUUM = (
    "a server gives room back by itself (autovacuum); to shrink its files at once, let their owner "
    "run VACUUM FULL {schema}.entries, {schema}.directions"
)
ELSEWHERE = (
    "its keys are in use by others. Copy it to a folder with `radt memory import DIR postgres:NAME`"
    ", give the copy new keys, and import that into a memory with another name"
)
MINARI = "minari:"
MOST_SHOWN = 10  # numbers of tasks


@dataclass(frozen=True, kw_only=True)
class MemoryVerb(Verb):
    """A verb about one memory."""

    folder: Annotated[Positional[Path], arg(metavar="DIR")]
    """The memory's folder; postgres:NAME for info, verify, export and import."""

    def tell(self, values: Mapping[str, Any], said: str | Text) -> None:
        self.common.answer({"folder": str(self.folder), **values}, said)

    def refuse_server(self, why: str) -> None:
        """Refuse to do something to a memory on a server, and say what to do instead."""
        from radt.memory.identity import StoreError
        from radt.memory.postgres import server_name

        if (name := server_name(self.folder)) is not None:
            raise StoreError(f"postgres:{name}: " + why.replace("{schema}", f'"radt_{name}"'))


@dataclass(frozen=True, kw_only=True)
class MemoryInfoVerb(MemoryVerb):
    """Print what is in a memory: entries, tasks, returns, bytes, and whose keys they are.

    It may be a folder, one on a server, or a file that agent.save or `radt memory export` wrote.

    Try:
      radt memory info memories/room
      radt memory info room.memory
      radt memory info postgres:room
    """

    def execute(self) -> None:
        from radt.memory.folder.rewrite import is_exported, open_reader, read_exported
        from radt.memory.memory_file import look_into

        if self.folder.is_file() and is_exported(self.folder):
            identity, contents = read_exported(self.folder)
            values = memory_values(str(self.folder), contents.entries, identity)
        elif self.folder.is_file():
            identity, entries, progress = look_into(self.folder)
            values = memory_values(str(self.folder), entries, identity) | progress
        else:
            with contextlib.closing(open_reader(self.folder)) as store:
                values = memory_values(store.place, store.entries, store.identity)
                values |= {"writes": store.state.writes, **store.details()}
        lines = [f"{name.replace('_', ' '):<16} {value}" for name, value in values.items()]
        self.common.answer(values, "\n".join(lines))


def memory_values(place: str, entries: Entries, identity: Identity) -> dict[str, Any]:
    """Say what is in a memory as plain values."""
    from radt.memory.entries import returns_by

    spaces, tasks = identity.spaces, entries.task.unique().tolist()
    unit, returns = returns_by(entries)
    shown = [*map(str, tasks[:MOST_SHOWN]), *(["..."] if len(tasks) > MOST_SHOWN else [])]
    return {
        "folder": place,
        "entries": len(entries),
        "tasks": len(tasks),
        "task_numbers": ", ".join(shown),
        "episodes": len(entries.episode.unique()),
        "return_mean": round(float(returns.mean()), 4) if len(returns) else None,
        "return_best": float(returns.max()) if len(returns) else None,
        "returns_of": unit,
        "embedder": identity.embedder,
        "key_width": identity.key_width,
        "context_len": identity.context_len,
        "states": f"{spaces.state.kind} {spaces.state.shape}",
        "actions": f"{spaces.action.kind} {spaces.action.size}",
        "horizon": spaces.horizon,
    }


@dataclass(frozen=True, kw_only=True)
class MemoryVerifyVerb(MemoryVerb):
    """Read all of a memory and compare it with its checksums; name every damaged entry."""

    def execute(self) -> None:
        from radt.memory.folder.verify import verify
        from radt.memory.identity import MemoryFileError
        from radt.memory.postgres import server_name, verify_server
        from radt.memory.rows import some

        name = server_name(self.folder)
        found = verify(self.folder) if name is None else verify_server(name)
        if found.is_sound:
            whole = styled("[green]{} is whole[/]: {} entries", self.folder, found.whole)
            self.tell(asdict(found), whole)
            return
        lost = f"{len(found.lost)} entries are lost or damaged: {some(found.lost)}"
        problems = "; ".join([*([lost] if found.lost else []), *found.problems[:5]])
        damage = f"is damaged, {found.whole} entries are whole. {problems}"
        self.refuse_server(f"{damage}. {BACKUP}")
        raise MemoryFileError(
            f"{self.folder} {damage}. `radt memory repair {self.folder}` saves the whole ones"
        )


@dataclass(frozen=True, kw_only=True)
class MemoryRepairVerb(MemoryVerb):
    """Copy the whole entries of a damaged memory into a new database; keep the damaged one aside.

    The memory must not be in use.
    """

    def execute(self) -> None:
        from radt.memory.folder.verify import repair
        from radt.memory.rows import some

        self.refuse_server(f"only folders are repaired. {BACKUP}")
        done = repair(self.folder)
        lost = [f"{len(done.lost)} are lost ({some(done.lost)})"] if done.lost else []
        if done.missing_writes:
            lost += [f"the last {done.missing_writes} writes are lost with all that was in them"]
        told = ", ".join([f"{done.kept} entries are saved", *(lost or ["none is lost"])])
        said = f"{told}; the damaged files are in {done.aside}"
        whole = styled("[green]{} is whole[/]: nothing to repair", self.folder)
        self.tell(asdict(done), said if done.aside else whole)


@dataclass(frozen=True, kw_only=True)
class MemoryCompactVerb(MemoryVerb):
    """Give back the room that forgotten entries take; the memory must not be in use."""

    def execute(self) -> None:
        from radt.memory.folder.rewrite import compact

        self.refuse_server(VACUUM)
        done = compact(self.folder)
        taken = f"{done.bytes_before:,} bytes before, {done.bytes_after:,} now"
        self.tell(asdict(done), f"{done.entries} entries: {taken}")


@dataclass(frozen=True, kw_only=True)
class MemoryExportVerb(MemoryVerb):
    """Write a memory as it is now to one file, also while it is in use.

    Try:
      radt memory export memories/room room.memory
      radt memory export postgres:room room.memory
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]  # must not exist yet

    def execute(self) -> None:
        from radt.memory.folder.rewrite import export

        count = export(self.folder, self.file)
        values = {"file": str(self.file), "entries": count}
        self.tell(values, f"{count} entries are in {self.file}")


@dataclass(frozen=True, kw_only=True)
class MemoryImportVerb(MemoryVerb):
    """Add demonstrations, or another memory, to a memory; make it if there is none.

    A source is the folder or environment of a dataset, an .npz file of your own trajectories
    (states, actions, rewards, and lengths of the episodes), minari:NAME for a local Minari
    dataset, a memory's folder, postgres:NAME for one on a server, or a file that `radt memory
    export` wrote. All of it is added, or nothing.

    Try:
      radt memory import memories/room dark-room-10x10 --run runs/x --best 2
      radt memory import memories/room mine.npz --run runs/x --as-task 85
      radt memory import memories/copy room.memory
      radt memory import postgres:room memories/room
    """

    common: Common = field(default_factory=Common)
    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """A dataset, an .npz file, minari:NAME, a memory (DIR, postgres:NAME) or an exported file."""
    run: Annotated[Path | None, arg(metavar="RUN", help_behavior_hint="")] = None
    """A run's folder or a checkpoint, whose embedder makes the keys; for memories not needed."""
    tasks: tuple[int, ...] = ()  # of a dataset: only these
    best: Annotated[int | None, arg(help_behavior_hint="(default: all)")] = None
    """Of a dataset: only so many episodes of each task, those with the highest returns."""
    as_task: Annotated[int | None, arg(help_behavior_hint="(default: as in the source)")] = None
    """Put all trajectories into this task; an agent finds them in the slot of that key."""

    def execute(self) -> None:
        from radt.memory.folder.rewrite import import_memory, is_memory

        if is_memory(self.source):
            before, after = import_memory(str(self.folder), self.source)
        else:
            before, after = self.add_trajectories()
        values = {"added": after - before, "entries": after}
        self.tell(values, f"{after - before} entries are added, {after} are there now")

    def add_trajectories(self) -> tuple[int, int]:
        from radt.loading import load
        from radt.memory.demonstrations import as_task
        from radt.memory.identity import check_trajectories

        if self.run is None:
            raise RunError(
                "trajectories get their keys from an embedder; say whose with --run, e.g. the "
                "folder of the run whose agent will use the memory"
            )
        own = load(self.run, self.common.device).memory()
        found = self.read(own.spaces)
        found = found if self.as_task is None else as_task(found, self.as_task)
        check_trajectories(found, own.spaces)  # before a folder is made for them
        with own.at(str(self.folder)) as memory:
            before = len(memory)
            if not memory.write(found):
                memory.warn_empty(f"keeps none of {len(found)} demonstrations")
            return before, len(memory)

    def read(self, spaces: TaskSpaces) -> list[Trajectory]:
        from radt.data import Dataset
        from radt.data.minari import from_minari
        from radt.memory.demonstrations import from_dataset, from_npz

        if self.source.startswith(MINARI):
            return from_minari(self.source.removeprefix(MINARI))
        if Path(self.source).suffix == ".npz":
            return from_npz(Path(self.source), spaces)
        dataset = Dataset.open(find_dataset(self.source))
        return from_dataset(dataset, spaces, self.tasks or None, self.best)


@dataclass(frozen=True, kw_only=True)
class MemoryReEmbedVerb(MemoryVerb):
    """Give all entries of a memory the keys of another embedder; it must not be in use.

    Try:
      radt memory re-embed memories/room --run runs/new
    """

    common: Common = field(default_factory=Common)
    run: Annotated[Path, arg(metavar="RUN")]
    """A run's folder or a checkpoint, whose embedder makes the new keys."""

    def execute(self) -> None:
        from radt.loading import load
        from radt.memory.folder.rewrite import re_embed

        self.refuse_server(ELSEWHERE)
        with load(self.run, self.common.device).memory() as own:
            done = re_embed(self.folder, own.embedder, own.identity())
        self.tell(asdict(done), f"{done.entries} entries have keys of {self.run} now")
