"""The verbs that bring entries into a memory and out of it, and that give them other keys."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from radt.commands.data import find_dataset
from radt.commands.flags import ComputingVerb, Verb
from radt.commands.memory import Folder, refuse_server

if TYPE_CHECKING:
    from radt.loading import Loaded
    from radt.spaces import TaskSpaces
    from radt.trajectory import Trajectory

MINARI = "minari:"
ELSEWHERE = (
    "its keys are in use by others. Copy it to a folder with `radt memory import DIR postgres:NAME`"
    ", give the copy new keys, and import that into a memory with another name"
)
Trained = Annotated[Path, arg(metavar="RUN")]


@dataclass(frozen=True, kw_only=True)
class MemoryExportVerb(Verb):
    """Write a memory as it is now to one file, also while it is in use.

    Try:
      radt memory export memories/room room.memory
      radt memory export postgres:room room.memory
    """

    folder: Folder  # the memory's folder, or postgres:NAME
    file: Annotated[Positional[Path], arg(metavar="FILE")]  # must not exist yet

    def execute(self) -> None:
        """Copy all entries, checking each."""
        from radt.memory.folder.rewrite import export

        count = export(self.folder, self.file)
        values = {"folder": str(self.folder), "file": str(self.file), "entries": count}
        self.common.answer(values, f"{count} entries are in {self.file}")


@dataclass(frozen=True, kw_only=True)
class MemoryImportVerb(ComputingVerb):
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

    folder: Folder  # the memory's folder, or postgres:NAME
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
        """Read, check, embed and write."""
        before, after = self.add_memory() if self.is_memory else self.add_trajectories()
        values = {"folder": str(self.folder), "added": after - before, "entries": after}
        self.common.answer(values, f"{after - before} entries are added, {after} are there now")

    @property
    def is_memory(self) -> bool:
        """Whether the source is another memory."""
        from radt.memory.folder.generations import databases
        from radt.memory.postgres import server_name

        if server_name(self.source) is not None:
            return True
        source = Path(self.source)
        is_file = source.is_file() and source.suffix != ".npz"
        return is_file or (source.is_dir() and bool(databases(source)))

    def add_memory(self) -> tuple[int, int]:
        """Copy the entries of another memory with their keys."""
        import contextlib

        from radt.memory.folder.rewrite import append_entries, read_exported, read_memory
        from radt.memory.store import open_store

        source = Path(self.source)
        read = read_exported(source) if source.is_file() else read_memory(self.source)
        identity, entries = read
        with contextlib.closing(open_store(str(self.folder), identity)) as store:
            before = len(store.entries)
            append_entries(store, entries)
            return before, len(store.entries)

    def add_trajectories(self) -> tuple[int, int]:
        """Cut and embed trajectories."""
        from radt.experiments.run import RunError
        from radt.memory.demonstrations import as_task
        from radt.memory.inputs import check_trajectories

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
            memory.write(found)
            return before, len(memory)

    def read(self, spaces: TaskSpaces) -> list[Trajectory]:
        """Read the trajectories of the source."""
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
class MemoryReEmbedVerb(ComputingVerb):
    """Give all entries of a memory the keys of another embedder; it must not be in use.

    Try:
      radt memory re-embed memories/room --run runs/new
    """

    folder: Folder  # the memory's folder
    run: Trained  # a run's folder or a checkpoint, whose embedder makes the new keys

    def execute(self) -> None:
        """Embed every entry again and let the new keys count."""
        from radt.memory.folder.rewrite import re_embed

        refuse_server(self.folder, ELSEWHERE)
        with load(self.run, self.common.device).memory() as own:
            done = re_embed(self.folder, own.embedder, own.identity())
        values: dict[str, Any] = {"folder": str(self.folder), **asdict(done)}
        self.common.answer(values, f"{done.entries} entries have keys of {self.run} now")


def load(run: Path, device: str) -> Loaded:
    """Load the method that a run has trained."""
    from radt.loading import load

    return load(run, device)
