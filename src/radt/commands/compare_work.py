"""The work behind `radt compare`: run after run, each published as soon as it is finished."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from radt.api import BusyError, collect, run
from radt.commands.flags import Common
from radt.engine import Engine, LocalEngine
from radt.experiments.compare import Comparison, Entry, collect_minutes, complete, entry, publish
from radt.experiments.pace import fitting_updates, pace_of, read_pace
from radt.experiments.run import RESULT, RunError
from radt.methods import METHODS
from radt.plots.comparison import write_comparison, write_equal_time_alone


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


@dataclass(frozen=True)
class RunJob:
    """One run of a comparison, for whoever does it."""

    comparison: Comparison
    planned: Entry
    common: Common


def work(
    comparison: Comparison, todo: Sequence[Entry], common: Common, engine: Engine | None = None
) -> News:
    """Finish runs one by one, or side by side; an error of one does not stop the others."""
    engine = engine or LocalEngine(1)
    news, speaks = News(), not (common.quiet or common.json)
    begun = done = spent = 0.0
    if engine.workers > 1:
        comparison, common = side_by_side(comparison, common)
        collect_first(todo, common, engine)
    jobs = [RunJob(comparison, one, common) for one in todo]
    for place, (state, why) in engine.map(finish_run, jobs):
        name = todo[place].name
        if state == "begun":
            begun = time.monotonic()
            rest = f", {time_left(todo[place:], done, spent)}" if engine.workers == 1 else ""
            if speaks:
                say(f"[{place + 1}/{len(todo)}] {name}{rest}")
        elif state == "finished":
            news.finished.append(name)
            done += todo[place].minutes
            spent += (time.monotonic() - begun) / 60.0
        elif state == "busy":
            news.busy.append(name)
        elif state == "failed":
            news.failed[name] = why
            say(f"failed: {name}: {why}")
    return news


def side_by_side(comparison: Comparison, common: Common) -> tuple[Comparison, Common]:
    """Let runs share machines: paths that hold everywhere, and one thread unless more are asked."""
    if comparison.wall_minutes is not None:
        raise RunError(
            "equal time needs a machine for each run alone; leave out --engine and --workers"
        )
    out, results = comparison.out.absolute(), comparison.results.absolute()
    everywhere = replace(comparison, out=out, results=results)
    return everywhere, replace(common, threads=common.threads or 1)


def collect_first(todo: Sequence[Entry], common: Common, engine: Engine) -> None:
    """Make the datasets that runs share before they start."""
    configs = {
        phase.where: one.config
        for one in todo
        for phase in one.phases
        if phase.name == "collect" and not phase.done
    }
    for config in configs.values():
        collect(config, quiet=common.quiet or common.json, engine=engine)


def finish_run(job: RunJob) -> Iterator[tuple[str, str]]:
    """Bring one run to its end, publish it, and say what came of it."""
    yield "begun", ""
    try:
        yield finish(job.comparison, job.planned, job.common), ""
    except BusyError:
        yield "busy", ""
    except (ValueError, OSError, ImportError) as error:
        yield "failed", str(error)
    except Exception as error:  # whatever it is, the other runs go on
        yield "failed", f"{type(error).__name__}: {error}"


def finish(comparison: Comparison, planned: Entry, common: Common) -> str:
    """Bring one run to its end and publish it, unless another process has; say which it was."""
    method, seed = planned.config.method, planned.config.seed
    updates, threads = None, common.threads
    if comparison.wall_minutes is not None and METHODS[method].learns:
        updates, threads = timed(comparison, method, common)
    one = entry(comparison, method, seed, updates)  # another process may have finished it
    if one.state == "published":
        return "published"
    quiet = common.quiet or common.json
    run(one.config, one.out, common.workers, quiet, threads=threads, device=common.device)
    publish(one.out, one.published)
    return "finished"


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
    if comparison.wall_minutes is not None:
        if list(main.published.glob("*-seed*/icl.json")):
            write_table(main)  # it shows this one as its second table
        else:
            write_equal_time_alone(main.published)
    return page


def time_left(rest: Sequence[Entry], done: float, spent: float) -> str:
    """Say how long the rest takes, given `spent` minutes for what was estimated as `done`.

    Another process may have finished some of it in the meantime.
    """
    factor = spent / done if done > 0 else 1.0
    open_runs = (one for one in rest if not (one.published / RESULT).exists())
    return f"about {duration(factor * sum(one.minutes for one in open_runs))} left"


def duration(minutes: float) -> str:
    """Write minutes for people."""
    return f"{minutes / 60:.1f} hours" if minutes >= 90 else f"{minutes:.0f} minutes"


def say(text: str) -> None:
    """Tell a line of progress."""
    print(text, file=sys.stderr, flush=True)
