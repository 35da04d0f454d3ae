from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from radt.files import atomic_write, remove_leftovers, sha256


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
