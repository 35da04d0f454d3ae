"""Fill the arithmetic of docs/scale.md from what was measured.

    python scripts/scale.py [--check]

What a billion chunks and a thousand agents need stands between `<!-- costs -->` and `<!-- end of
costs -->` and is computed from `results/memory/read.json` (`radt bench memory`), `results/memory/
server.json` (`python scripts/memory_server.py`) and `results/bench/decide.json`, so that no
number of it is typed by hand. `--check` only says whether the page is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale.md"
RECORDS = ("memory/read.json", "memory/server.json", "bench/decide.json")
BLOCK = re.compile(r"(<!-- costs -->\n).*?(<!-- end of costs -->)", re.DOTALL)

CHUNKS, AGENTS = 10**9, 1000
TRIAL = 100  # steps
CLIENT_BYTES = 64  # that a client holds in RAM for each entry: eight numbers
CLIENT_RAM = 2**30  # that a client may hold
MACHINE_RAM, MACHINE_CORES = 256 * 2**30, 16
QUICK = 10.0  # milliseconds that a search may take


@dataclass(frozen=True)
class Measured:
    """The measured costs that everything is computed from."""

    content_bytes: int  # of a chunk
    ram_bytes: float  # of an entry in the fastest index at the largest size, with its numbers
    read_ms: float  # one search over all tasks there
    size: int  # entries there
    index: str
    disk_bytes: float  # of an entry on the server
    write_ms: float  # of a trial, acknowledged by the server
    opened_per_second: float  # entries whose numbers a client takes in
    searches: tuple[tuple[int, float], ...]  # entries of a task, milliseconds of a search in it
    decision_ms: float  # of one agent that retrieves at every step


def measured(read: dict[str, Any], server: dict[str, Any], decide: dict[str, Any]) -> Measured:
    """Pick the costs from the records."""
    size, index = max((int(size), name) for size, name in read["fastest"].items())
    (fastest,) = (
        one
        for one in read["reads"]
        if (one["size"], one["index"]) == (size, index)
        and one["width"] == min(each["width"] for each in read["reads"])
    )
    (decision,) = (
        one
        for one in decide["timings"]
        if (one["model"], one["slots"], one["attention"]) == ("laptop", 1, "fused")
        and one["who"] == "ra-dt, incremental"
    )
    return Measured(
        content_bytes=read["content_bytes"],
        ram_bytes=fastest["bytes_per_entry"],
        read_ms=fastest["p50_ms"],
        size=size,
        index=index,
        disk_bytes=server["disk_bytes_per_entry"],
        write_ms=server["write_trial_p50_ms"],
        opened_per_second=server["entries"] / server["open_seconds"],
        searches=tuple((one["entries"], one["p50_ms"]) for one in server["search_in_task"]),
        decision_ms=1000 * decision["whole"],
    )


def search_ms(cost: Measured, entries: float) -> float:
    """Estimate a search in a task: a line through the two largest that were measured."""
    (fewer, quick), (more, slow) = cost.searches[-2:]
    return slow + (entries - more) * (slow - quick) / (more - fewer)


def most_entries(cost: Measured, milliseconds: float) -> float:
    """Estimate how many entries of a task are searched within a time."""
    (fewer, quick), (more, slow) = cost.searches[-2:]
    return more + (milliseconds - slow) * (more - fewer) / (slow - quick)


def block(cost: Measured) -> str:
    """Write what is measured, and what follows from it."""
    follows = [*room(cost), *turns(cost), *searching(cost)]
    measured = _table(("measured", "cost"), given(cost))
    return f"{measured}\n{_table(('what', 'how', 'result'), follows)}"


def given(cost: Measured) -> list[tuple[str, str]]:
    """List what was measured."""
    return [
        ("content of a chunk", f"{cost.content_bytes:,} bytes"),
        (f"an entry in RAM ({cost.index}, {cost.size:,} entries)", f"{cost.ram_bytes:,.0f} bytes"),
        ("one search over all tasks there, p50", f"{cost.read_ms:.2f} ms"),
        ("an entry on the server's disk, indexes included", f"{cost.disk_bytes:,.0f} bytes"),
        ("writing a trial to the server, p50", f"{cost.write_ms:.2f} ms"),
        ("numbers of entries that a client takes in", f"{cost.opened_per_second:,.0f} a second"),
        *(
            (f"one search in a task of {entries:,} on the server, p50", f"{spent:.2f} ms")
            for entries, spent in cost.searches
        ),
        ("one decision of an agent that retrieves at every step", f"{cost.decision_ms:.2f} ms"),
    ]


def room(cost: Measured) -> list[tuple[str, str, str]]:
    """Say what a billion chunks need of disks and RAM."""
    disk, ram = CHUNKS * cost.disk_bytes, CHUNKS * cost.ram_bytes
    machines = f"{ceil(ram / MACHINE_RAM)} machines of {MACHINE_RAM // 2**30} GiB"
    client, minutes = CHUNKS * CLIENT_BYTES / 2**30, CHUNKS / cost.opened_per_second / 60
    return [
        (
            "disk of the server",
            f"{CHUNKS:,} x {cost.disk_bytes:,.0f} bytes",
            f"{disk / 1e12:.2f} TB",
        ),
        (
            "RAM, if all keys are searched in RAM",
            f"{CHUNKS:,} x {cost.ram_bytes:,.0f} bytes",
            f"{ram / 2**30:,.0f} GiB: {machines}",
        ),
        (
            "RAM of each client, if there is one memory",
            f"{CHUNKS:,} x {CLIENT_BYTES} bytes",
            f"{client:,.0f} GiB",
        ),
        (
            "opening it",
            f"{CHUNKS:,} / {cost.opened_per_second:,.0f} a second",
            f"{minutes:,.0f} minutes",
        ),
    ]


def turns(cost: Measured) -> list[tuple[str, str, str]]:
    """Say how many memories are needed, so that clients are small and writers wait for nobody."""
    small = CLIENT_RAM // CLIENT_BYTES  # entries
    trials, writes = AGENTS * 1000 / (TRIAL * cost.decision_ms), 1000 / cost.write_ms  # a second
    memories = max(ceil(CHUNKS / small), ceil(trials / writes))
    return [
        (
            "entries of a memory whose client needs 1 GiB",
            f"{CLIENT_RAM:,} / {CLIENT_BYTES} bytes",
            f"{small:,}",
        ),
        (
            f"trials of {TRIAL} steps that {AGENTS:,} agents end",
            f"{AGENTS:,} / ({TRIAL} x {cost.decision_ms:.2f} ms)",
            f"{trials:,.0f} a second",
        ),
        (
            "trials that one memory takes, as writers take turns",
            f"1000 / {cost.write_ms:.2f} ms",
            f"{writes:,.0f} a second",
        ),
        (
            "memories, by tasks",
            f"the larger of {CHUNKS:,} / {small:,} and {trials:,.0f} / {writes:,.0f}",
            f"{memories}",
        ),
    ]


def searching(cost: Measured) -> list[tuple[str, str, str]]:
    """Say how long searches take, and how many cores a thousand agents keep busy with them."""
    per_agent, quick = CHUNKS / AGENTS, most_entries(cost, QUICK)
    decisions = AGENTS * 1000 / cost.decision_ms  # a second
    cores = decisions * QUICK / 1000
    return [
        (
            "one search, if each agent has a task of its own",
            f"{per_agent:,.0f} entries, on the line through the two largest above",
            f"{search_ms(cost, per_agent):,.0f} ms",
        ),
        (
            f"entries of a task that are searched within {QUICK:g} ms",
            "the same line",
            f"{quick:,.0f}",
        ),
        (
            f"cores for a search of {QUICK:g} ms at every step",
            f"{decisions:,.0f} decisions a second x {QUICK:g} ms",
            f"{cores:,.0f}: {ceil(cores / MACHINE_CORES)} machines of {MACHINE_CORES}",
        ),
        (
            "cores for one such search in a trial (`ra-dt+`)",
            f"{decisions / TRIAL:,.0f} trials a second x {QUICK:g} ms",
            f"{ceil(cores / TRIAL)}",
        ),
    ]


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def filled(text: str) -> str | None:
    """Put the present figures into the page; None: not all of them are measured yet."""
    files = [ROOT / "results" / name for name in RECORDS]
    if not all(file.exists() for file in files):
        return None
    cost = measured(*(json.loads(file.read_text()) for file in files))
    return BLOCK.sub(lambda found: f"{found[1]}{block(cost)}{found[2]}", text)


def main(arguments: list[str]) -> int:
    """Fill the page, or say that it is out of date."""
    text = PAGE.read_text()
    now = filled(text)
    if now is None:
        print(f"nothing to fill in: not all of {', '.join(RECORDS)} are in results/ yet")
        return 0
    if now == text:
        return 0
    if "--check" in arguments:
        print("docs/scale.md is out of date; run python scripts/scale.py")
        return 1
    PAGE.write_text(now)
    print("docs/scale.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
