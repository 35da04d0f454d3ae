"""What the fault batteries count: printed, and kept as evidence where $RADT_FAULTS names a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from radt.files import atomic_write
from radt.runs.provenance import machine
from radt.version import code_version

Tally = Callable[[Mapping[str, int]], None]


@pytest.fixture
def tally(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Tally:
    """Print what a battery has counted; keep the counts of the long ones."""
    begun, battery = time.perf_counter(), request.node.name.removeprefix("test_")

    def told(counts: Mapping[str, int]) -> None:
        with capsys.disabled():
            print(f"\n{battery}:", ", ".join(f"{count} {what}" for what, count in counts.items()))
        if request.node.get_closest_marker("long") and (file := os.environ.get("RADT_FAULTS")):
            keep(Path(file), battery, counts, time.perf_counter() - begun)

    return told


def keep(file: Path, battery: str, counts: Mapping[str, int], seconds: float) -> None:
    """Write the counts of one battery beside those of the others, and the table of all."""
    from tests.faults.table import table

    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    kept[battery] = {
        "counts": dict(counts),
        "seconds": round(seconds, 1),
        "code_version": code_version(),
        "machine": machine(),
    }
    atomic_write(file, (json.dumps(dict(sorted(kept.items())), indent=1) + "\n").encode())
    atomic_write(file.with_suffix(".md"), table(kept).encode())
