"""Where a result comes from: code version, machine, and how long each phase took."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from radt.decode import decode
from radt.files import atomic_write

CHECKOUT = Path(__file__).parents[3]


def code_version() -> str:
    """Return the package's version and, in a checkout, the commit it runs from."""
    if not (CHECKOUT / ".git").exists():  # the commit of whatever surrounds us would mislead
        return version("radt")
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version("radt")
    return f"{version('radt')}+{described}"


def machine() -> dict[str, Any]:
    """Describe what the run ran on, without naming it."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


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
        """Add the time spent inside to a phase."""
        started = time.monotonic()
        try:
            yield
        finally:
            spent = time.monotonic() - started
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 2)
            if self.file is not None:
                atomic_write(self.file, (json.dumps(self.seconds) + "\n").encode())
