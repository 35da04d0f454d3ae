from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radt.files import NotOursError, atomic_write, locked, remove_leftovers, sha256
from radt.runs.trace import Trace
from radt.track import JsonLines


def test_bytes_and_callables_are_written_and_hashed(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file"
    atomic_write(target, b"old")
    assert target.read_bytes() == b"old"
    atomic_write(target, lambda path: path.write_text("new"))
    assert target.read_text() == "new"
    assert sha256(target) == hashlib.sha256(b"new").hexdigest()
    assert [item.name for item in target.parent.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    atomic_write(target, b"old")

    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        atomic_write(target, fail)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of Unix")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        atomic_write(tmp_path / "file", b"x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of Unix")
def test_a_killed_writer_leaves_the_old_file_and_a_leftover_to_remove(tmp_path: Path) -> None:
    target = tmp_path / "file"
    atomic_write(target, b"old")
    script = (
        "import os, signal, sys; from pathlib import Path; from radt.files import atomic_write\n"
        "def die(path): path.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "atomic_write(Path(sys.argv[1]), die)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(os.name != "posix", reason="links are those of Unix")
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_nothing_is_written_through_a_link(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "theirs").write_text("precious")
    link(tmp_path / "theirs", tmp_path / "ours")
    for opened in (
        lambda path: locked(path, wait=False).__enter__(),
        lambda path: locked(path, wait=True).__enter__(),
        JsonLines,
        Trace,
    ):
        with pytest.raises(NotOursError, match="ours"):
            opened(tmp_path / "ours")
    assert (tmp_path / "theirs").read_text() == "precious"


@pytest.mark.skipif(os.name != "posix", reason="links are those of Unix")
@pytest.mark.parametrize("content", [b"new", lambda path: path.write_bytes(b"new")])
def test_a_file_is_not_begun_through_a_link(
    tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / ".ours.00000000.tmp").symlink_to(tmp_path / "theirs")
    with pytest.raises(NotOursError, match="ours"):
        atomic_write(tmp_path / "ours", content)
    assert (tmp_path / "theirs").read_text() == "precious"
    atomic_write(tmp_path / "ours", content)
    assert (tmp_path / "ours").read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="locks are those of Unix")
@pytest.mark.parametrize("wait", [False, True])
def test_a_deleted_lock_lets_nobody_else_in(tmp_path: Path, wait: bool) -> None:
    with locked(tmp_path / "lock", wait):
        (tmp_path / "lock").unlink()
        with pytest.raises(BlockingIOError), locked(tmp_path / "lock", wait=False):
            pass
    with locked(tmp_path / "lock", wait=False):
        pass


@pytest.mark.skipif(os.name != "posix", reason="locks are those of Unix")
def test_whoever_waits_for_a_deleted_lock_gets_it_after_the_first(tmp_path: Path) -> None:
    order = list[str]()

    def second() -> None:
        with locked(tmp_path / "lock", wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    with locked(tmp_path / "lock", wait=True):
        (tmp_path / "lock").unlink()
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".mine.tmp").write_text("a user's")
    remove_leftovers(tmp_path)
    assert (tmp_path / ".mine.tmp").exists()


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"icl\.json"):
        atomic_write(tmp_path / "icl.json", fail)
