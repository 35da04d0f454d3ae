"""What stops a command from outside: SIGTERM, full disks, files that cannot be read."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from radt.files import NotPlainError, locked, open_plain
from radt.runs import provenance
from radt.runs.provenance import Stopwatch
from tests.data.histories import write_dataset
from tests.faults.battery import Case, assert_clean
from tests.faults.kills import left_by
from tests.faults.mistakes import USUAL
from tests.faults.records import is_one_line, said_by
from tests.memory.conftest import Tally
from tests.runs.small import use_toys

Faulty = Callable[..., None]
COLLECT = ("collect", *USUAL)


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch, tmp_path / "data")
    monkeypatch.delenv("RADT_DEBUG", raising=False)


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def at_sync(patch: pytest.MonkeyPatch, number: int, happens: Faulty) -> None:
    """Let something happen when a file is flushed for the n-th time from now."""
    real, left = os.fsync, [number]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            happens()
        real(descriptor)

    patch.setattr(os, "fsync", fsync)


def test_sigterm_stops_in_order_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_sync(patch, 7, lambda: signal.raise_signal(signal.SIGTERM))
        said = said_by(*COLLECT)
    assert said.code == 143
    told, again = said.err.splitlines()
    assert told == "stopped; what is finished is kept, the same command goes on from here:"
    assert again.startswith("radt collect toy-grid")
    assert list(tmp_path.rglob("*.safetensors")), "what was finished is kept"
    assert said_by(*COLLECT).code == 0
    assert list(tmp_path.rglob("manifest.json"))


def stopped(words: tuple[str, ...], rng: np.random.Generator) -> Iterator[str]:
    """Let the disk be full at some file, again and again, until the same command is done."""
    said, most = None, 8
    while said is None or said.code:
        most += 2  # what is written in one go must fit at last
        with pytest.MonkeyPatch.context() as patch:
            at_sync(patch, int(rng.integers(1, most)), full)
            try:
                said = said_by(*words)
            except Exception as error:
                yield f"tracebacks: {type(error).__name__}: {error}"
                return
        named = "/" in said.err and "No space left on device; free some space" in said.err
        if said.code:
            yield "clean" if named and is_one_line(said) else f"tracebacks: {said}"


def command_in(verb: str, folder: Path, patch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Name a command that leaves everything in a folder."""
    use_toys(patch, folder / "data")
    out = () if verb == "collect" else ("--method", "ra-dt", "--out", str(folder / "run"))
    return verb, *USUAL, *out


def test_a_full_disk_names_its_file_and_the_same_command_goes_on() -> None:
    assert {*stopped(COLLECT, np.random.default_rng(0))} == {"clean"}


@pytest.mark.long
@pytest.mark.parametrize(("verb", "cases"), [("collect", 200), ("run", 100)])
def test_full_disks(
    verb: str, cases: int, tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said_by(*command_in(verb, tmp_path / "whole", monkeypatch)).code == 0
    expected, found = left_by(tmp_path / "whole"), list[Case]()
    while len(found) < cases:
        home = tmp_path / f"full-{len(found)}"
        words, rng = command_in(verb, home, monkeypatch), np.random.default_rng(len(found))
        said = list(stopped(words, rng))
        if left_by(home) != expected:
            said = ["silent wrong"] * max(1, len(said))
        found += [(len(found) + n, verb, each) for n, each in enumerate(said)]
        shutil.rmtree(home)
    assert_clean(found, tally)


def test_a_full_disk_is_named_also_by_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", full)
    with (
        pytest.raises(OSError, match="No space left") as error,
        locked(tmp_path / "lock", wait=True),
    ):
        pytest.fail("it has not the lock")
    assert error.value.filename == str(tmp_path / "lock")


def test_a_count_of_seconds_that_cannot_be_kept_on_the_way_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not one of the thread that counts."""
    monkeypatch.setattr(provenance, "BEAT", 0.01)
    with monkeypatch.context() as patch:
        watch = Stopwatch(tmp_path / "wall.json")
        with watch.phase("train"):
            patch.setattr(os, "fsync", full)
            time.sleep(0.05)
            patch.undo()
    assert "train" in (tmp_path / "wall.json").read_text()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotPlainError, match="is a pipe or a device"):
        open_plain(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        open_plain(tmp_path)


READ = {  # what each verb reads, by its words
    "report": "icl.json",
    "evaluate": "model.safetensors",
    "hub push": "icl.json",
    "data info": "manifest.json",
    "data verify": "manifest.json",
    "analyse visits": "model.safetensors",
    "memory info": "entries-000001.sqlite3",
    "memory verify": "entries-000001.sqlite3",
    "run --config": "",
    "config diff": "",
    "memory import folder:x": "",
}
INSTEAD: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(parents=True, exist_ok=True),
    "a pipe": lambda path: os.mkfifo(path),
    "a file that is not ours": lambda path: path.write_bytes(b"{}"),
}


@pytest.mark.parametrize("instead", INSTEAD)
@pytest.mark.parametrize("verb", READ)
def test_what_cannot_be_read_is_one_line(verb: str, instead: str, tmp_path: Path) -> None:
    place = tmp_path / "x" / (READ[verb] or "file")
    place.parent.mkdir()
    INSTEAD[instead](place)
    given = [str(place.parent if READ[verb] else place)]
    if verb in ("config diff", "hub push"):
        given.append(given[0] if verb == "config diff" else "a/b")
    said = said_by(*verb.split(), *given)
    if instead == "a file that is not ours" and said.code == 0:
        assert verb == "config diff", "two empty configs do not differ"
        return
    assert is_one_line(said), said


CLOSED = {**READ, "data verify": "task-00004.h5"}


@pytest.mark.parametrize("verb", ["run --config", "evaluate", "report", "data verify"])
def test_what_may_not_be_read_is_not_called_damaged(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "x" / (CLOSED[verb] or "file")
    write_dataset(place.parent)
    place.write_bytes(b"{}")
    real = os.open

    def refused(path: object, *rest: int, **named: int) -> int:
        if str(path) == str(place):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refused)
    said = said_by(*verb.split(), str(place.parent if CLOSED[verb] else place))
    assert is_one_line(said)
    assert "Permission denied; it may be whole" in said.err
