"""Files of every kind, ways to damage them, and what is found in them afterwards.

Each kind says how its files are made and how they are read: as named hashes of all that a user
would get. What is absent afterwards must have been told; what is there must be as it was.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.checkpoint import load_checkpoint, save_checkpoint
from radt.collect.groups import read_arrays
from radt.data import Dataset
from radt.memory.folder.store import FolderStore
from radt.memory.folder.verify import repair
from radt.memory.identity import MemoryFileError
from radt.memory.memory_file import read_file, write_file
from radt.runs.trace import read_contents, read_trial
from tests.data.histories import write_dataset
from tests.faults.battery import Case, judged
from tests.memory.stores import contents, filled_folder, identity
from tests.toys import TOY_GRID

WHO = identity(TOY_GRID.spaces)
Found = tuple[dict[str, str], bool]  # hashes by name, and whether it was told that some are gone


def hashed(*values: Any) -> str:
    """Hash arrays and whatever else can be printed."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(
            np.asarray(value).tobytes() if hasattr(value, "dtype") else repr(value).encode()
        )
    return digest.hexdigest()


def make_checkpoint(folder: Path) -> None:
    """Save untrained weights."""
    from tests.contracts.method import build_method, card_of

    method = build_method("ra-dt", TOY_GRID.spaces)
    save_checkpoint(folder / "model.safetensors", method, card_of(method, "ra-dt"))


def read_checkpoint(folder: Path) -> Found:
    """Load the method."""
    method, card = load_checkpoint(folder / "model.safetensors")
    parts = {
        f"{part}.{name}": hashed(tensor)
        for part, network in method.networks.items()
        for name, tensor in network.state_dict().items()
    }
    return {**parts, "card": hashed(asdict(card))}, False


def read_dataset(folder: Path) -> Found:
    """Read the history of every task."""
    dataset = Dataset.open(folder, in_memory=True)
    found = {str(task): hashed(*vars(dataset.history(task)).values()) for task in dataset.tasks}
    return {**found, "sha256": dataset.sha256}, False


def make_parts(folder: Path) -> None:
    """Break a collection off."""
    from radt.collect import record_histories
    from tests.collect.test_record import CONFIG, Killed, killed_at, tiny_suite

    with pytest.raises(Killed):
        record_histories(tiny_suite(), CONFIG, folder, workers=1, progress=killed_at(8))


def read_parts(folder: Path) -> Found:
    """Read what a collection would go on with; a part that is gone is recorded again."""
    files = sorted((folder / "parts").glob("*.safetensors"))
    read = {file.name: read_arrays(file) for file in files}
    return {name: hashed(*(a[key] for key in sorted(a))) for name, a in read.items()}, True


def make_memory_file(folder: Path) -> None:
    """Save a memory with how far its owner has come."""
    with closing(filled_folder(folder / "made")) as store:
        write_file(folder / "agent.memory", WHO, contents(store), {"trial": store.numbers})
    shutil.rmtree(folder / "made")


def read_memory_file(folder: Path) -> Found:
    """Read all that an agent would load."""
    found, owner = read_file(folder / "agent.memory", WHO)
    columns = {**vars(found.entries), **vars(found.chunks), **owner, "keys": found.keys}
    return {name: hashed(column) for name, column in columns.items()}, False


def make_folder(folder: Path) -> None:
    """Copy a folder as a killed writer leaves it."""
    with closing(filled_folder(folder / "open", times=4)):
        shutil.copytree(folder / "open", folder / "memory")
    shutil.rmtree(folder / "open")


def read_folder(folder: Path) -> Found:
    """Read a memory; where that is refused, what a repair saves of it."""
    told = False
    try:
        store = FolderStore(folder / "memory", WHO, writing=False)
    except MemoryFileError:
        done = repair(folder / "memory")
        told = bool(done.lost or done.missing_writes)
        store = FolderStore(folder / "memory", WHO, writing=False)
    with closing(store):
        found = contents(store)
    rows = {}
    for n in range(len(found)):
        entry = {name: column[n].item() for name, column in vars(found.entries).items()}
        row = [column[n] for column in vars(found.chunks).values()]
        named = f"{entry['task']} {entry['episode']} {entry['position']}"
        rows[named] = hashed(entry, found.keys[n], *row)
    return rows, told


def make_trace(folder: Path) -> None:
    """Write down what an agent does."""
    from gymnasium.vector import AutoresetMode

    from tests.runs.test_trace import traced

    traced(folder, AutoresetMode.SAME_STEP)


def read_trace(folder: Path) -> Found:
    """Read every trial."""
    path = folder / "deep" / "trace.jsonl"
    told = read_contents(path)
    trials = {str(key): hashed(read_trial(path, place)) for key, place in told.trials.items()}
    return {**trials, "header": hashed(told.env, told.method)}, told.cut is not None


@dataclass(frozen=True)
class Kind:
    """How files of a kind are made and read, and which of them are damaged."""

    make: Callable[[Path], object]
    read: Callable[[Path], Found]
    files: str  # a glob


KINDS: Mapping[str, Kind] = {
    "checkpoint": Kind(make_checkpoint, read_checkpoint, "*.safetensors"),
    "dataset": Kind(write_dataset, read_dataset, "*.h5"),
    "manifest": Kind(write_dataset, read_dataset, "manifest.json"),
    "parts": Kind(make_parts, read_parts, "parts/*.safetensors"),
    "memory file": Kind(make_memory_file, read_memory_file, "*.memory"),
    "folder": Kind(make_folder, read_folder, "memory/[ae]*"),
    "traces": Kind(make_trace, read_trace, "deep/*"),
}

Way = Callable[[bytearray, int, int, np.random.Generator], bytes]  # content, place, span


def _swapped(content: bytearray, place: int, span: int, rng: np.random.Generator) -> bytes:
    one, two = sorted((place, int(rng.integers(len(content)))))
    width = min(span, two - one, len(content) - two)
    first, second = content[one : one + width], content[two : two + width]
    content[one : one + width], content[two : two + width] = second, first
    return content


def _another_digit(content: bytearray, place: int, _: int, rng: np.random.Generator) -> bytes:
    """Let a text that can still be read say something else."""
    digits = [at for at, byte in enumerate(content) if 48 <= byte < 58]
    if digits:
        content[digits[place % len(digits)]] = int(rng.integers(48, 58))
    return content


def _without_line(content: bytearray, place: int, _: int, __: np.random.Generator) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[place % len(lines)]
    return b"".join(lines)


def _flipped(content: bytearray, place: int, bits: int) -> bytes:
    content[place] ^= bits
    return content


WAYS: Mapping[str, Way] = {
    "cut": lambda content, place, _, __: content[:place],
    "bit": lambda content, place, _, rng: _flipped(content, place, 1 << int(rng.integers(8))),
    "byte": lambda content, place, _, rng: _flipped(content, place, int(rng.integers(1, 256))),
    "zeros": lambda c, place, span, _: c[:place] + bytes(len(c[place:][:span])) + c[place + span :],
    "noise": lambda c, place, span, rng: (
        c[:place] + rng.bytes(len(c[place:][:span])) + c[place + span :]
    ),
    "tail": lambda content, _, span, rng: content + rng.bytes(span),
    "digit": _another_digit,
    "line": _without_line,
    "swap": _swapped,
}


def mutate(path: Path, rng: np.random.Generator) -> str:
    """Damage a file in some way and say in which."""
    content, way = bytearray(path.read_bytes()), str(rng.choice([*WAYS, "gone"]))
    if way == "gone" or not content:
        path.unlink()
        return "gone"
    place, span = int(rng.integers(len(content))), int(rng.integers(1, 4096))
    path.write_bytes(WAYS[way](content, place, span, rng))
    return way


def outcome(kind: Kind, folder: Path, good: Mapping[str, str]) -> str:
    """Read damaged files and say what came of it."""

    def look() -> bool:
        found, told = kind.read(folder)
        is_true = all(good.get(name) == value for name, value in found.items())
        return is_true and (told or found.keys() == good.keys())

    return judged(look)


def attack(name: str, whole: Path, cases: range) -> Iterator[Case]:
    """Damage copies of a folder, and say how and what came of it."""
    kind = KINDS[name]
    shutil.copytree(whole, whole.parent / "good")
    good, _ = kind.read(whole.parent / "good")
    shutil.rmtree(whole.parent / "good")
    for case in cases:
        folder = whole.parent / f"case-{case}"
        shutil.copytree(whole, folder)
        files = sorted(folder.glob(kind.files))
        way = mutate(files[case % len(files)], np.random.default_rng(case))
        yield case, way, outcome(kind, folder, good)
        shutil.rmtree(folder)
