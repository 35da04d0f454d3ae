"""Files that are either whole or absent: atomic writing, content hashes, and locks.

No link is followed where something is written: a name that others can make must not lead radt to
a file of theirs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from radt.errors import RadtError

LEFTOVER = re.compile(r"\..+\.[0-9a-f]+\.tmp", re.DOTALL)  # a file that is still being written


class NotOursError(RadtError, OSError):
    """Something else than a file of ours stands where one is to be written."""


class NotPlainError(RadtError, OSError):
    """A pipe or a device where a file is to be read."""


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system, such as a full disk, say at which file it came."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def open_plain(path: Path) -> BufferedReader:
    """Open a file to read: a plain one, as a pipe would be waited for and a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotPlainError(f"{path} is a pipe or a device, not a file; give the file that is meant")


def open_own(path: Path, flags: int = os.O_APPEND) -> BinaryIO:
    """Open a file to write, or make it: a plain one, with this name alone, and never by a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    safe = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe is not waited for
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | safe | flags, 0o666), "wb")
    except OSError as error:
        if path.is_symlink():
            raise _not_ours(path) from error
        raise
    known = os.fstat(file.fileno())
    if not stat.S_ISREG(known.st_mode) or known.st_nlink > 1:
        file.close()
        raise _not_ours(path)
    return file


def check_own(path: Path) -> None:
    """Refuse a file that others open: what is written there would be written somewhere else."""
    known = path.lstat()
    if not stat.S_ISREG(known.st_mode) or known.st_nlink > 1:
        raise _not_ours(path)


def _not_ours(path: Path) -> NotOursError:
    return NotOursError(
        f"{path} is a link, has a second name or is no plain file, so nothing is written there; "
        "move it away and try again"
    )


def atomic_write(path: Path, content: bytes | Callable[[Path], object]) -> None:
    """Write bytes, or let `content` write the path it is given, and put the file in place at once.

    Whoever looks sees the old file or the new one, never a part; a failed write leaves the old one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with naming(path):
            with open_own(temporary, os.O_EXCL) as file:
                file.write(content if isinstance(content, bytes) else b"")
            if not isinstance(content, bytes):
                content(temporary)
            _flush(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        with naming(path.parent):
            _flush(path.parent)  # the new name, too, survives a power cut


def remove_leftovers(folder: Path) -> None:
    """Delete what killed writers left behind; only for the one process that owns the folder."""
    for temporary in folder.glob(".*.tmp"):
        if LEFTOVER.fullmatch(temporary.name) and (temporary.is_symlink() or temporary.is_file()):
            temporary.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Hash a file's content, as hexadecimal digits."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Hold a lock file, which names the process, or raise BlockingIOError if it is taken.

    Its folder is locked, too, as the file can be deleted; so a folder has one lock at a time.
    """
    import fcntl

    how = fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)  # ends with the process
    with contextlib.ExitStack() as held:
        file = held.enter_context(open_own(path))
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, folder)
        try:
            fcntl.flock(folder, how)
        except BlockingIOError:
            raise
        except OSError:
            pass  # on some disks of a network only files can be locked
        fcntl.flock(file, how)
        with naming(path):
            file.truncate(0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())  # nothing is left to be flushed
        yield


def _flush(path: Path) -> None:
    writable = os.O_RDONLY if path.is_dir() else os.O_RDWR
    descriptor = os.open(path, writable)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
