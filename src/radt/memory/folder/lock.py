"""Who writes to a folder: the lock, which ends with the process that holds it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from radt.files import locked
from radt.memory.identity import MemoryBusyError, MemoryFileError

LOCK = "writer.lock"
PATIENCE = 60.0  # seconds for which one who shares a folder waits for others
PAUSE = 0.002  # seconds between tries


@contextmanager
def hold(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Be the one process that writes to a folder, after waiting so many seconds for another."""
    path = folder / LOCK
    if folder.exists() and not folder.is_dir():
        raise MemoryFileError(f"{folder} is a file, but a memory is a folder; name another")
    with ExitStack() as held:
        until = time.monotonic() + patience
        while True:
            try:
                held.enter_context(locked(path, wait=False))
                break
            except BlockingIOError as error:
                if time.monotonic() < until:
                    time.sleep(PAUSE)
                    continue
                raise busy(path) from error
        yield


def busy(path: Path) -> MemoryBusyError:
    """Build the error that names the process which writes to a folder."""
    who = path.read_text(encoding="utf-8").strip() or "unknown"
    return MemoryBusyError(
        f"process {who} is writing to the memory in {path.parent} (it holds {path}); one "
        "process writes at a time: end it, open the memory with writing=False, or let all who "
        f"write open shared-folder:{path.parent}"
    )
