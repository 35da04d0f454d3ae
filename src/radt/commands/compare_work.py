"""The work behind `radt compare`: run after run, each published as soon as it is finished."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from radt.api import BusyError, alone_in, collect, run
from radt.commands.flags import Common, duration, plain_columns, say, styled
from radt.engine import Engine, LocalEngine
from radt.errors import RadtError, RunError
from radt.metrics import decimals
from radt.plots.comparison import write_comparison, write_equal_time_alone
from radt.plots.tables import BASE
from radt.runs.compare import (
    Comparison,
    Entry,
    entry,
    forget_changed,
    hours,
    pace_of,
    publish_run,
    to_collect,
)
from radt.runs.run import RESULT


@dataclass
class News:
    """What came of the runs."""

    finished: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)  # another process works on them
    failed: dict[str, str] = field(default_factory=dict)  # why


@dataclass(frozen=True)
class RunJob:
    """One run of a comparison, for whoever does it."""

    comparison: Comparison
    planned: Entry
    common: Common


def work(
    runs: Sequence[tuple[Comparison, Entry]],
    common: Common,
    engine: Engine | None = None,
    finished: Callable[[Entry], object] = lambda one: None,
) -> News:
    """Finish runs one by one, or side by side; an error of one does not stop the others.

    `finished` is told of each run as soon as it is published.
    """
    engine = engine or LocalEngine(1)
    news, begun, done, spent = News(), 0.0, 0.0, 0.0
    todo = [one for _, one in runs]
    if engine.workers > 1:
        runs = [(for_sharing(comparison), one) for comparison, one in runs]
        common = replace(common, threads=common.threads or 1)
        for config, _ in to_collect(todo).values():  # what runs share comes before them
            collect(config, quiet=common.quiet or common.json, engine=engine)
    jobs = [RunJob(comparison, one, common) for comparison, one in runs]
    for place, (state, why) in engine.map(finish_run, jobs):
        name = todo[place].name
        if state == "begun":
            begun = time.monotonic()
            rest = f", {time_left(todo[place:], done, spent)}" if engine.workers == 1 else ""
            if not (common.quiet or common.json):
                say(f"[{place + 1}/{len(todo)}] {name}{rest}")
        elif state == "finished":
            news.finished.append(name)
            finished(todo[place])
            done += todo[place].minutes
            spent += (time.monotonic() - begun) / 60.0
        elif state == "busy":
            news.busy.append(name)
        elif state == "failed":
            news.failed[name] = why
            say(f"failed: {name}: {why}")
    return news


def for_sharing(comparison: Comparison) -> Comparison:
    """Let runs share machines, with paths that hold everywhere."""
    if comparison.wall_minutes is not None:
        raise RunError(
            "equal time needs a machine for each run alone; leave out --engine and --workers"
        )
    out, results = comparison.out.absolute(), comparison.results.absolute()
    return replace(comparison, out=out, results=results)


def finish_run(job: RunJob) -> Iterator[tuple[str, str]]:
    """Bring one run to its end, publish it, and say what came of it."""
    yield "begun", ""
    try:
        yield finish(job.comparison, job.planned, job.common), ""
    except BusyError:
        yield "busy", ""
    except (RadtError, ValueError, OSError) as error:
        yield "failed", str(error)
    except Exception as error:  # whatever it is, the other runs go on
        yield "failed", f"{type(error).__name__}: {error}"


def finish(comparison: Comparison, planned: Entry, common: Common) -> str:
    """Bring one run to its end and publish it, unless another process has; say which it was."""
    row, seed, threads = planned.row, planned.config.seed, common.threads
    quiet = common.quiet or common.json
    if comparison.times(row):
        config, file = comparison.config(row, seed=0), comparison.pace_file(row)
        collect(config, common.workers, quiet)
        threads = pace_of(config, file, common.workers, common.device).threads  # equal for all
    again = planned.state == "changed"
    one = entry(comparison, row, seed, strict=not again)  # another process may have finished it
    if one.state == "published":
        return "published"
    if again:
        with alone_in(one.out):
            forget_changed(one)
    run(one.config, one.out, common.workers, quiet, threads=threads, device=common.device)
    publish_run(one.out, one.published)
    return "finished"


def write_table(comparison: Comparison) -> Path:
    """Compare all that is published of the environment, whoever has made it."""
    folder = comparison.published
    records = sorted(folder.glob("*-seed*/icl.json"))
    if not records:
        raise RunError(f"nothing is published in {folder} yet; run the comparison first")
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
    open_runs = (
        one for one in rest if one.state == "changed" or not (one.published / RESULT).exists()
    )
    return f"about {duration(factor * sum(one.minutes for one in open_runs))} left"


def show_entries(entries: Sequence[Entry]) -> tuple[Table, Text]:
    """Show every run with what is left to do, and sum it up in a line."""
    table = plain_columns(["run", "state"], ["minutes"], "where")
    for one in entries:
        over = one.state == "published"
        where = str(one.published if over else one.out)
        left = "" if one.state in ("published", "finished") else f"{one.minutes:.1f}"
        table.add_row(one.name, one.state, left, where, style="dim" if over else "")
    states = Counter(one.state for one in entries)
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    left = duration(60.0 * hours(entries))
    total = "[bold]{} runs[/]: {}; about {} to go on two CPU cores"
    return table, styled(total, len(entries), counts, left)


def show_methods(compared: Mapping[str, Any]) -> Table:
    """Show the numbers of each row that matter most."""
    rows = compared["methods"]
    score = next(name for name in next(iter(rows.values())) if name.startswith("mean_"))
    n = decimals(compared["optimum"], *(row[score] for row in rows.values()))
    stretch = score.split("_")[1:]
    trials = f"trial{'s' * (len(stretch) > 1)} {'-'.join(stretch)}"
    data = f", {compared['data']}" if compared["data"] else ""
    title = f"{compared['env']}, {compared['tasks']} tasks{data}"
    table = Table("method", title=title, title_justify="left")
    measured = any(row["causal_improvement"] for row in rows.values())
    buys = ("memory buys", "95 %") if measured else ()
    heads = ("seeds", "trial 1", trials, "95 %", *buys, "later - earlier")
    for head in (*heads, f"minus {BASE}", "95 %"):
        table.add_column(head, justify="right")
    for name, row in rows.items():
        table.add_row(
            name,
            str(row["seeds"]),
            f"{row['at_trial']['1']:.{n}f}",
            styled("[bold]{}[/]", f"{row[score]:.{n}f}"),
            _interval(row["ci95"], n),
            *(_difference(row["causal_improvement"], n, "not measured") if measured else ()),
            f"{row['improvement']:+.{n}f}",
            *_difference(row["minus"].get(BASE), n),
        )
    return table


def _difference(
    found: Mapping[str, Any] | None, digits: int, otherwise: str = ""
) -> tuple[str, str]:
    if found is None:
        return otherwise, ""
    return f"{found['mean']:+.{digits}f}", _interval(found["ci95"], digits)


def _interval(pair: Sequence[float], digits: int) -> str:
    return f"{pair[0]:.{digits}f} to {pair[1]:.{digits}f}"
