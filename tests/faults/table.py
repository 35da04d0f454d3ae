"""The counts of the batteries as a table: `results/memory/faults.md`, from `faults.json` alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.faults.battery import COLUMNS

NAMES = {
    "many_damaged_files": "damaged files",
    "many_damaged_records": "damaged records of a run",
    "many_servers[change_rows]": "changed rows on a server",
    "many_servers[drop_connections]": "dropped connections to a server",
    "many_guests": "hostile guests at the viewer",
    "mistakes": "mistakes on the command line",
    "full_disks": "full disks",
    "kills_of_commands": "SIGKILL, command",
    "kills_of_writers": "SIGKILL, memory",
}
HEAD = """# What the batteries of faults found

Made from [faults.json](faults.json) by the command that counts, `make test-full`, or for a part

    RADT_FAULTS=results/memory/faults.json python -m pytest tests/faults -m long -k kills

A case is clean if it ended in the same arrays, was answered rightly, or was refused with one line.
"""


def name_of(battery: str) -> str:
    """Name a class of faults for people."""
    kind, _, case = battery.rstrip("]").partition("[")
    case = case.removesuffix("-many").replace("-100", "").replace("-200", "")
    return NAMES.get(battery) or ", ".join(filter(None, (NAMES.get(kind, kind), case)))


def table(kept: Mapping[str, Any]) -> str:
    """Write the batteries that count cases as Markdown."""
    titles = ("class", "tried", *COLUMNS, "seconds", "version")
    lines = [HEAD, f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    for battery, one in sorted(kept.items(), key=lambda item: name_of(item[0])):
        if "clean" in (counts := one["counts"]):
            shown = [counts[column] for column in ("tried", *COLUMNS)]
            cells = [name_of(battery), *shown, round(one["seconds"]), one["code_version"]]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"
