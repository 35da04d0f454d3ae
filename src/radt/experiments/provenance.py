"""Where a result comes from: which machine, and how long each phase took."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from radt.decode import decode
from radt.files import atomic_write

BEAT = 5.0  # seconds between two times that a running phase is written down


def machine() -> dict[str, Any]:
    """Describe what the run ran on, without naming it."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    """Return the kind of processor; Linux tells it in a file only."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


class Stopwatch:
    """Seconds of wall time by phase, over all the times a run was started."""

    def __init__(self, file: Path | None = None) -> None:
        """Go on counting from what `file` holds, and write it after each phase."""
        self.file = file
        self.seconds: dict[str, float] = {}
        if file is not None and file.exists():
            self.seconds = decode(dict[str, float], json.loads(file.read_text()), str(file))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase; of a killed process all but the last seconds."""
        before, started = self.seconds.get(name, 0.0), time.monotonic()
        over = threading.Event()

        def count() -> None:
            self.seconds[name] = round(before + time.monotonic() - started, 2)
            if self.file is not None:
                atomic_write(self.file, (json.dumps(self.seconds) + "\n").encode())

        def keep_counting() -> None:
            while not over.wait(BEAT):
                count()

        beating = threading.Thread(target=keep_counting, daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()
            count()
