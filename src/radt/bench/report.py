"""What a benchmark leaves: a table for people, JSON for programs, and the ratio last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from radt.experiments.provenance import machine
from radt.files import atomic_write
from radt.version import code_version

WIDE = 160
Rows = Sequence[tuple[str, ...]]


def with_provenance(name: str, measured: Mapping[str, Any], ratio: float) -> dict[str, Any]:
    """Add to what was measured where it comes from, and the ratio as the last word."""
    return {
        "benchmark": name,
        **measured,
        "code_version": code_version(),
        "machine": machine(),
        "ratio": ratio,
    }


def publish(
    record: Mapping[str, Any],
    title: str,
    rows: Rows,
    out: Path,
    json_only: bool = False,
    columns: Sequence[str] = ("", ""),
) -> None:
    """Write the record to a file and print it: one JSON object, or a table and the ratio."""
    content = json.dumps(record, allow_nan=False)
    atomic_write(out, (json.dumps(record, allow_nan=False, indent=1) + "\n").encode())
    if json_only:
        print(content)
        return
    table = Table(title=title, show_header=any(columns))
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)  # nothing is cut in a file or a pipe
    console.print(table)
    console.print(f"written to {out}", style="dim", soft_wrap=True)
    print(f"ratio {record['ratio']:.2f}")
