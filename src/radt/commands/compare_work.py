"""The work behind `radt compare`: run after run, each published as soon as it is finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from radt.api import BusyError, collect, run
from radt.commands.flags import Common
from radt.experiments.compare import Comparison, Entry, collect_minutes, complete, entry, publish
from radt.experiments.pace import fitting_updates, pace_of, read_pace
from radt.experiments.run import RunError
from radt.methods import METHODS
from radt.plots import write_comparison


@dataclass
class News:
    """What came of the runs."""

    finished: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)  # another process works on them
    failed: dict[str, str] = field(default_factory=dict)  # why


def look(comparison: Comparison) -> list[Entry]:
    """Look at every run of a comparison; what is not timed yet still has the preset's updates."""
    return [
        entry(comparison, method, seed, known_updates(comparison, method))
        for method, seed in comparison.names()
    ]


def hours(entries: Sequence[Entry]) -> float:
    """Estimate how long the rest takes, on two CPU cores."""
    return (sum(one.minutes for one in entries) + collect_minutes(entries)) / 60.0


def work(comparison: Comparison, todo: Sequence[Entry], common: Common) -> News:
    """Finish runs one by one; an error of one does not stop the others."""
    news, speaks = News(), not (common.quiet or common.json)
    for place, (one, left) in enumerate(zip(todo, time_left(todo), strict=True), start=1):
        if speaks:
            say(f"[{place}/{len(todo)}] {one.name}, {left}")
        try:
            finish(comparison, one, common)
            news.finished.append(one.name)
        except BusyError:
            news.busy.append(one.name)
        except (ValueError, OSError, ImportError) as error:
            news.failed[one.name] = str(error)
            say(f"failed: {one.name}: {error}")
    return news


def finish(comparison: Comparison, planned: Entry, common: Common) -> None:
    """Bring one run to its end and publish it."""
    method, seed = planned.config.method, planned.config.seed
    updates, threads = None, common.threads
    if comparison.wall_minutes is not None and METHODS[method].learns:
        updates, threads = timed(comparison, method, common)
    one = entry(comparison, method, seed, updates)  # another process may have finished it
    if one.state != "published":
        quiet = common.quiet or common.json
        run(one.config, one.out, common.workers, quiet, threads=threads, device=common.device)
        publish(one.out, one.published)


def timed(comparison: Comparison, method: str, common: Common) -> tuple[int, int]:
    """Return the updates that fit the time and the threads they were timed with."""
    config, minutes = comparison.config(method, seed=0), comparison.wall_minutes or 0.0
    collect(config, common.workers, common.quiet or common.json)
    file = pace_file(comparison, method)
    pace = pace_of(config, file, common.workers, common.device)  # all with equal threads
    return fitting_updates(config, pace, minutes), pace.threads


def known_updates(comparison: Comparison, method: str) -> int | None:
    """Return the updates that fit the time, if that was measured before."""
    if comparison.wall_minutes is None or not METHODS[method].learns:
        return None
    config = comparison.config(method, seed=0)
    pace = read_pace(pace_file(comparison, method), config.to_json())
    return None if pace is None else fitting_updates(config, pace, comparison.wall_minutes)


def pace_file(comparison: Comparison, method: str) -> Path:
    """Name the file that says how fast a method trains."""
    return comparison.published / "pace" / f"{method}.json"


def write_table(comparison: Comparison) -> Path:
    """Compare all that is published of the environment, whoever has made it."""
    folder = comparison.published
    records = sorted(folder.glob("*-seed*/icl.json"))
    if not records:
        raise RunError(f"nothing is published in {folder} yet; run the comparison first")
    for record in records:
        complete(record.parent, record.parent)
    page = write_comparison(records, folder, wall_minutes=comparison.wall_minutes)
    main = replace(comparison, wall_minutes=None)
    if comparison.wall_minutes is not None and list(main.published.glob("*-seed*/icl.json")):
        write_table(main)  # it shows this one as its second table
    return page


def time_left(todo: Sequence[Entry]) -> Iterator[str]:
    """Say before each run how long the rest takes, as long as what is done took by the estimate."""
    started, done = time.monotonic(), 0.0
    for place, one in enumerate(todo):
        spent = (time.monotonic() - started) / 60.0
        factor = spent / done if done > 0 else 1.0
        yield f"about {duration(factor * sum(rest.minutes for rest in todo[place:]))} left"
        done += one.minutes


def duration(minutes: float) -> str:
    """Write minutes for people."""
    return f"{minutes / 60:.1f} hours" if minutes >= 90 else f"{minutes:.0f} minutes"


def say(text: str) -> None:
    """Tell a line of progress."""
    print(text, file=sys.stderr, flush=True)
