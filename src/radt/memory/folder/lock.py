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
    until = time.monotonic() + patience
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(path, wait=False))
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    who = path.read_text(errors="replace").strip() or "unknown"
                    raise MemoryBusyError(
                        f"process {who} is writing to the memory in {folder} (it holds {path}); "
                        "one process writes at a time: end it, open the memory with writing=False, "
                        f"or let all who write open shared-folder:{folder}"
                    ) from error
            time.sleep(PAUSE)
        yield
