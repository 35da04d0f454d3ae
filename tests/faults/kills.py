"""Work that is killed at random moments: whoever goes on from there ends as if nothing happened.

Commands are started again until they end by themselves. Writers of a memory go on where it is, and
tell how many of their writes were acknowledged.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import radt.experiments
import radt.plots.report  # noqa: F401
from radt import cli
from radt.checkpoint import read_tensors
from radt.data import read_manifest
from radt.memory.folder.store import FolderStore
from radt.memory.folder.verify import verify
from radt.memory.memory_file import read_file, write_file
from radt.memory.store import NewEntries, cut_trials, open_store
from radt.plots.icl_json import read_record
from tests.faults.battery import PATIENCE, Case, judged, processes
from tests.memory import faults
from tests.memory.faults import WHO, assert_holds, assert_true, operate_for_ever, trajectory
from tests.memory.stores import keys_of
from tests.runs.small import use_toys
from tests.toys import TOY_GRID

SMALL = (
    *("collect.transitions=1024", "collect.n_steps=64", "collect.batch_size=32"),
    *("collect.n_epochs=1", "collect.rollouts_per_part=2", "learn.updates=24"),
    *("learn.save_every=4", "learn.evaluate_every=12", "learn.log_every=4", "evaluate.trials=2"),
    *("evaluate.validation_trials=1", "options.memory.context_len=4"),
)
COMMANDS = ("run", "collect", "train")


def drawn(figure: Figure, file: Any, **_: Any) -> None:
    """Write a picture without drawing it, which leaves nothing to go on with and takes long."""
    file.write("<svg></svg>") if hasattr(file, "write") else file.write_bytes(b"drawn")


def command(verb: str, folder: Path, data: Path) -> None:
    """Do what a user types, in a process of its own."""
    torch.set_num_threads(1)
    out = () if verb == "collect" else ("--method", "ra-dt", "--out", str(folder / "run"))
    usual = ("--budget", "smoke", "--threads", "1", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        use_toys(patch, data)
        patch.setattr(Figure, "savefig", drawn)
        patch.setattr("radt.runs.provenance.cost", lambda run, method: None)
        sys.exit(cli.main([verb, TOY_GRID.name, *usual, *out, "--set", *SMALL]))


def left_by(folder: Path) -> dict[str, Any]:
    """Read all that a command has made, but for how long it took."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("manifest.json")):
        manifest = read_manifest(path.parent)
        found |= {"data": manifest.files, "sha256": manifest.sha256}  # of all arrays
    for path in sorted(folder.rglob("model.safetensors")):
        found |= {name: tensor.numpy().tobytes() for name, tensor in read_tensors(path)[0].items()}
    for path in sorted(folder.rglob("icl.json")):
        record = read_record(path)
        found |= {name: record[name] for name in ("config", "tasks", "returns", "controls")}
    return found


def killed(start: Callable[[], Any], delay: Callable[[], float], most: int) -> tuple[int, str]:
    """Start work again and again, and kill it; return how often, and how it ended at last."""
    kills = 0
    while True:
        process = start()
        process.join(delay() if kills < most else PATIENCE)
        hangs = process.is_alive() and kills == most
        process.kill()
        process.join()
        if hangs:
            return kills, "hangs"
        if process.exitcode != -signal.SIGKILL:
            failed = "crashes" if process.exitcode < 0 else "tracebacks"
            return kills, "clean" if process.exitcode == 0 else f"{failed}: {process.exitcode}"
        kills += 1


def kill_commands(verb: str, home: Path, seed: int, kills: int) -> Iterator[Case]:
    """Kill a command so often, beginning anew whenever it came to its end."""

    def started(folder: Path) -> Any:
        data = home / "data" if verb == "train" else folder / "data"
        process = processes.Process(target=command, args=(verb, folder, data))
        process.start()
        return process

    def finish(folder: Path) -> float:
        begun = os.times().elapsed
        assert killed(partial(started, folder), lambda: PATIENCE, 0) == (0, "clean")
        return os.times().elapsed - begun

    if verb == "train":
        process = processes.Process(target=command, args=("collect", home, home / "data"))
        process.start()
        process.join()
    finish(home / "first")
    seconds, expected = finish(home / "whole"), left_by(home / "whole")
    assert expected
    rng, done = np.random.default_rng(seed), 0
    while done < kills:
        folder = home / f"killed-{done}"
        delay = partial(rng.uniform, 0, seconds)
        count, end = killed(partial(started, folder), delay, kills - done)
        if end == "clean":
            end = judged(lambda: left_by(folder) == expected)  # noqa: B023
        for number in range(done, done + max(count, end != "clean")):
            yield number, verb, end
        done += count
        shutil.rmtree(folder)


def write_to_server(place: str, dsn: str, told: Connection) -> None:
    """Go on where the memory is: write and forget, and tell of what is acknowledged."""
    os.environ["RADT_MEMORY_DSN"] = dsn
    store: Any = open_store(place, WHO)
    told.send_bytes(str(store.state.writes).encode())
    while True:
        number = store.state.writes
        if number % faults.COMPACT == faults.COMPACT - 1:
            store.keep(torch.ones(len(store.entries), dtype=torch.bool))
        else:
            faults.operate(store, number)
        told.send_bytes(str(store.state.writes).encode())


def saved(number: int) -> NewEntries:
    """Make up what a memory holds that is saved for the given time."""
    lived = [trajectory(age) for age in range(number % 12 + 1)]
    entries, chunks = cut_trials(lived, WHO.spaces, WHO.halves, 0)
    return NewEntries(entries, keys_of(entries), chunks)


def count_saves(file: Path) -> int:
    """Tell how often a memory was saved; all that it holds must be of the last time."""
    if not file.exists():
        return 0
    found, owner = read_file(file, WHO)
    number = int(owner["trial"])
    assert_true(found)
    assert len(found) == len(saved(number))
    return number


def save_for_ever(folder: Path, told: Connection) -> None:
    """Save a memory again and again, and tell how often that was done."""
    number = count_saves(folder / "agent.memory")
    told.send_bytes(str(number).encode())
    while True:
        number += 1
        write_file(folder / "agent.memory", WHO, saved(number), {"trial": torch.tensor(number)})
        told.send_bytes(str(number).encode())


def count_in_store(store: Any) -> int:
    """Tell how many writes a memory holds; what it holds must be what they leave."""
    with closing(store):
        writes: int = store.state.writes
        assert_holds(store, writes)
    return writes


def count_in_folder(folder: Path) -> int:
    """Tell how many writes a memory folder holds."""
    assert verify(folder).is_sound
    return count_in_store(FolderStore(folder, WHO, writing=True))


@dataclass(frozen=True)
class Writer:
    """What writes for ever, and how its writes are counted afterwards."""

    write: Callable[..., None]  # told where, and where to tell
    arguments: tuple[Any, ...]
    count: Callable[[], int]


def writers(folder: Path) -> Mapping[str, Callable[[], Writer]]:
    """Name the kinds of memory that are written to."""
    from tests.memory.postgres import place, running_server

    def server() -> Writer:
        where = place(folder)
        arguments = (where, running_server().dsn())
        return Writer(
            write_to_server, arguments, lambda: count_in_store(open_store(where, WHO, False))
        )

    file = folder / "agent.memory"
    return {
        "folder": lambda: Writer(operate_for_ever, (folder,), lambda: count_in_folder(folder)),
        "server": server,
        "memory file": lambda: Writer(save_for_ever, (folder,), lambda: count_saves(file)),
    }


def kill_writers(writer: Writer, seed: int, kills: int) -> Iterator[Case]:
    """Kill a writer so often; what was acknowledged is there, and all that is there is true."""
    rng = np.random.default_rng(seed)
    for case in range(kills):
        receiver, sender = processes.Pipe(duplex=False)
        process = processes.Process(target=writer.write, args=(*writer.arguments, sender))
        process.start()
        sender.close()
        acknowledged, end = -1, "clean"
        for _ in range(int(rng.integers(1, 30))):
            if not receiver.poll(PATIENCE):
                end = "hangs"
                break
            try:
                acknowledged = int(receiver.recv_bytes())
            except EOFError:
                end = "crashes"
                break
        process.join(float(rng.uniform(0, 0.01)))
        process.kill()
        while end == "clean":
            try:
                acknowledged = int(receiver.recv_bytes())
            except EOFError:
                break
        process.join()
        yield case, "SIGKILL", held(writer, acknowledged) if end == "clean" else end


def held(writer: Writer, acknowledged: int) -> str:
    """Say whether a memory holds what was acknowledged, and at most the write that followed."""
    try:
        is_true = acknowledged <= writer.count() <= acknowledged + 1
    except AssertionError:
        is_true = False
    except Exception as error:  # also one of radt's own: a kill damages nothing
        return f"tracebacks: {type(error).__name__}: {error}"
    return "clean" if is_true else "silent wrong"
