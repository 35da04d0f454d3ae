"""Files that are either whole or absent: atomic writing, content hashes, and locks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path


def atomic_write(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write bytes, or let `content` write the path it is given, and put the file in place at once.

    Whoever looks sees the old file or the new one, never a part; a failed write leaves the old one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            content(temporary)
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _flush(path.parent)  # the new name, too, survives a power cut


def remove_leftovers(folder: Path) -> None:
    """Delete what killed writers left behind; only for the one process that owns the folder."""
    for temporary in folder.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Hash a file's content, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Hold a lock file, which names the process; raise BlockingIOError if it is taken."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))  # ends with the process
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _flush(path: Path) -> None:
    writable = os.O_RDONLY if path.is_dir() else os.O_RDWR
    descriptor = os.open(path, writable)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
