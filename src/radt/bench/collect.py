"""`radt bench collect`: transitions per second against other people's PPO, and how well both learn.

Our side is one whole collection, files included. The other side is one process of one thread per
worker, with the same hyper-parameters and inputs. The two sides never run at the same time. Where
the laptop budget has a lighter way, it is measured against the same baseline, too.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from radt.bench.baseline import (
    BASELINES,
    BaselineJob,
    BaselineRun,
    learn_side_by_side,
)
from radt.bench.report import publish, with_provenance
from radt.collect import SOURCES, CollectProgress, collect
from radt.collect.histories import LATE_EPISODES, late_return
from radt.data import Dataset
from radt.decode import decode
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.presets import usual_recipe, usual_source
from radt.experiments.run import RunError
from radt.metrics import Interval, crossed_interval
from radt.track import Tracker

SAMPLED_TASKS = 8
OUT = Path("runs/bench/collect.json")

Mark = tuple[float, int]  # seconds since the start, transitions so far


@dataclass(frozen=True)
class Collected:
    """What one collection took, and how well its tasks were learned."""

    tasks: int
    transitions: int
    seconds: float  # from nothing to the finished dataset
    steady_rate: float  # transitions per second after warm-up
    late_returns: tuple[float | None, ...]  # of the sampled tasks


@dataclass(frozen=True)
class Setting:
    """What both sides have in common."""

    suite: TaskSuite
    source: str
    sampled: tuple[int, ...]  # the tasks whose returns are compared
    workers: int


def bench_collect(
    env: str = "dark-room-10x10",
    rollouts: int | None = None,
    sb3_rollouts: int = 5,
    returns: bool = True,
    config: Any = None,
    workers: int = 2,
    quiet: bool = True,
) -> dict[str, Any]:
    """Measure our collector against as many processes of the baseline as it has workers.

    Args:
        env: The suite whose training tasks are learned, by its usual source.
        rollouts: How many rollouts of each task; None: the whole collection.
        sb3_rollouts: How many the baseline is timed over when `returns` is off.
        returns: Train the baseline on 8 sampled tasks to the end, time that, compare late returns.
        config: Hyper-parameters of both; None: the paper's.
        workers: Processes of each side.
        quiet: Draw no bars.
    """
    suite, source = SUITES[env], usual_source(env)
    config = shortened(config or usual_options(env, source, "paper"), rollouts)
    lighter = shortened(usual_options(env, source, "laptop"), rollouts)
    version = BASELINES[source].version()  # fails before the long work does
    setting = Setting(suite, source, sample_tasks(suite, config), workers)
    tracker = Tracker(quiet=quiet)
    ours = collect_once(setting, config, tracker)
    light = None if source == "ppo" else collect_once(setting, lighter, tracker)
    jobs = baseline_jobs(setting, config, None if returns else sb3_rollouts)
    theirs = _run_baseline(jobs, tracker)
    rate = baseline_rate(theirs)
    runs = sorted((run for process in theirs for run in process), key=lambda run: run.task)
    known = runs if returns else None
    measured: dict[str, Any] = {
        "env": env,
        "source": source,
        **compared(setting, config, ours, rate, known),
        BASELINES[source].module: {
            "version": version,
            "processes": len(jobs),
            "threads_per_process": 1,
            "runs": [asdict(run) for run in runs],
            "rate": rate,
            "seconds_for_all": ours.transitions / rate,
        },
        "light": None if light is None else compared(setting, lighter, light, rate, known),
    }
    if light is not None and lighter.transitions == config.transitions:
        measured["light"]["beside_full"] = compare_returns(
            setting, light.late_returns, "full", ours.late_returns
        )
    return with_provenance("collect", measured, ours.steady_rate / rate)


def usual_options(env: str, source: str, budget: str) -> Any:
    """Return the options with which a source records at a budget."""
    return decode(SOURCES[source].options, usual_recipe(env, source, budget))


def shortened(config: Any, rollouts: int | None) -> Any:
    """Ask for some rollouts only, and to keep every task."""
    if rollouts is not None:
        config = replace(config, transitions=rollouts * config.n_steps * config.envs_per_task)
    if config.rollouts < 3:
        raise RunError(
            f"{config.rollouts} rollouts leave none between the warm-up and the last one; "
            "give at least 3"
        )
    return replace(config, keep_above=None) if hasattr(config, "keep_above") else config


def sample_tasks(suite: TaskSuite, config: Any) -> tuple[int, ...]:
    """Draw the training tasks whose returns are compared."""
    known = suite.train_tasks[: getattr(config, "candidates", None)]
    count = min(SAMPLED_TASKS, len(known))
    drawn = np.random.default_rng(config.seed).choice(known, count, replace=False)
    return tuple(int(task) for task in np.sort(drawn))


def measured_suite(setting: Setting, config: Any) -> TaskSuite:
    """Return the suite with the tasks that we collect.

    These are all; where one would take hours, the sampled ones, filled up to work for every worker.
    """
    suite, sampled = setting.suite, setting.sampled
    if setting.source == "ppo":
        return suite
    count = max(len(sampled), setting.workers * config.tasks_per_group)
    others = [task for task in suite.train_tasks if task not in sampled]
    tasks = tuple(sorted((*sampled, *others[: count - len(sampled)])))
    smaller: TaskSuite = dataclasses.replace(suite, train_tasks=tasks)  # type: ignore[type-var]
    return smaller


def collect_once(setting: Setting, config: Any, tracker: Tracker) -> Collected:
    """Collect a dataset in a temporary folder and note when each rollout was done."""
    suite, source = measured_suite(setting, config), setting.source
    tasks = len(suite.train_tasks)
    marks: list[Mark] = []
    tracker.start("collect", tasks * config.transitions)
    begun = time.perf_counter()

    def note(news: CollectProgress) -> None:
        marks.append((time.perf_counter() - begun, news.transitions))
        tracker.advance(news.transitions, f"return {news.recent_return:.1f}")

    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        workers = setting.workers
        collect(suite, config, Path(folder), workers, progress=note, quiet=True, source=source)
        seconds = time.perf_counter() - begun
        tracker.finish()
        episodes = Dataset.open(folder, setting.sampled, in_memory=False).episodes
    late = []
    for task in setting.sampled:
        own = episodes.rows(episodes.task == task)
        late.append(late_return(own.total_return, own.length, config.transitions))
    steady = steady_rate(marks, tasks, config)
    return Collected(tasks, tasks * config.transitions, seconds, steady, tuple(late))


def steady_rate(marks: Sequence[Mark], tasks: int, config: Any) -> float:
    """Return transitions per second without the first rollouts and without the last.

    The first ones wait for processes to start, and nothing is learned from the last ones.
    """
    per_round = tasks * config.n_steps * config.envs_per_task
    inside = [mark for mark in marks if per_round <= mark[1] <= per_round * (config.rollouts - 1)]
    (begun, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - begun)


def baseline_jobs(setting: Setting, config: Any, rollouts: int | None) -> list[BaselineJob]:
    """Deal the tasks out to processes: all of them to the end, or one each for some rollouts."""
    tasks, processes = setting.sampled, setting.workers
    if rollouts is None:
        shares, timed = [tuple(tasks[n::processes]) for n in range(processes)], config.rollouts - 1
    else:
        shares, timed = [(task,) for task in tasks[:processes]], rollouts
    return [
        BaselineJob(setting.suite, config, share, timed, setting.source)
        for share in shares
        if share
    ]


def _run_baseline(jobs: Sequence[BaselineJob], tracker: Tracker) -> list[list[BaselineRun]]:
    tracker.start("baseline", sum(len(job.tasks) for job in jobs))
    done: list[BaselineRun] = []

    def note(run: BaselineRun) -> None:
        done.append(run)
        tracker.advance(len(done), f"{run.transitions / run.seconds:.0f} transitions/s a process")

    try:
        return learn_side_by_side(jobs, note)
    finally:
        tracker.finish()


def baseline_rate(processes: Sequence[Sequence[BaselineRun]]) -> float:
    """Add up the transitions per second of processes that ran side by side."""
    return sum(
        sum(run.transitions for run in runs) / sum(run.seconds for run in runs)
        for runs in processes
    )


def compared(
    setting: Setting,
    config: Any,
    ours: Collected,
    rate: float,
    runs: Sequence[BaselineRun] | None,
) -> dict[str, Any]:
    """Put one of our collections beside the baseline."""
    returns = None
    if runs is not None:
        name, theirs = BASELINES[setting.source].module, [run.late_return for run in runs]
        returns = compare_returns(setting, ours.late_returns, name, theirs)
        if returns is None:
            raise RunError("some task finished no episode, so returns cannot be compared")
    return {
        "hyper_parameters": asdict(config),
        "ours": {"workers": setting.workers, **asdict(ours)},
        "returns": returns,
        "ratio_of_whole_runs": ours.transitions / ours.seconds / rate,
        "ratio": ours.steady_rate / rate,
    }


def compare_returns(
    setting: Setting,
    late: Sequence[float | None],
    others: str,
    other_late: Sequence[float | None],
) -> dict[str, Any] | None:
    """Say whether our mean return lies in the 95 % interval of the others'.

    None if a collection was so short that some task finished no episode.
    """
    ours, theirs = np.array(late, dtype=float), np.array(other_late, dtype=float)  # [task]
    if np.isnan(ours).any() or np.isnan(theirs).any():
        return None
    interval = _interval(theirs)
    return {
        "tasks": list(setting.sampled),
        "episodes": LATE_EPISODES,
        "ours": ours.tolist(),
        others: theirs.tolist(),
        "our_mean": float(ours.mean()),
        "interval": asdict(interval),  # of the others' mean, tasks resampled
        "difference": asdict(_interval(ours - theirs)),
        "inside": bool(interval.low <= ours.mean() <= interval.high),
    }


def _interval(scores: np.ndarray[Any, np.dtype[np.float64]]) -> Interval:
    return crossed_interval(scores[None], np.random.default_rng(0))


def _rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    baseline = BASELINES[record["source"]]
    theirs = record[baseline.module]
    processes = f"{theirs['processes']} {baseline.name} {theirs['version']} processes"
    rows = [(f"{processes}, transitions/s", f"{theirs['rate']:,.0f}")]
    rows += _side("radt", record, baseline.name)
    rows += [("seconds they need for as many", f"{theirs['seconds_for_all']:,.0f}")]
    if record["light"] is not None:
        rows += _side("radt, lighter", record["light"], baseline.name)
        rows += [("ratio, lighter", f"{record['light']['ratio']:.1f}")]
    return rows


def _span(interval: Mapping[str, float]) -> str:
    return "{mean:.2f} [{low:.2f}, {high:.2f}]".format(**interval)


def _side(name: str, side: Mapping[str, Any], baseline: str) -> list[tuple[str, str]]:
    ours, returns = side["ours"], side["returns"]
    rows = [
        (f"{name}, transitions collected", f"{ours['transitions']:,}"),
        (f"{name}, seconds, files included", f"{ours['seconds']:.1f}"),
        (f"{name}, transitions/s", f"{ours['steady_rate']:,.0f}"),
        (f"{name}, ratio with start-up and files", f"{side['ratio_of_whole_runs']:.1f}"),
    ]
    rows += _beside(name, baseline, returns)
    return rows + _beside(name, "radt", side.get("beside_full"))


def _beside(name: str, others: str, returns: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if returns is None:
        return []
    verdict = "inside" if returns["inside"] else "outside"
    return [
        (f"{name}, return on {len(returns['tasks'])} tasks", f"{returns['our_mean']:.2f}"),
        (f"{others}, return", _span(returns["interval"])),
        ("difference", _span(returns["difference"])),
        (f"{name} in the interval of {others}", verdict),
    ]


def main(
    out: Path | None = None,
    env: str = "dark-room-10x10",
    rollouts: int | None = None,
    sb3_rollouts: int = 5,
    returns: bool = True,
    workers: int = 2,
    json_only: bool = False,
    quiet: bool = False,
) -> int:
    """Run the benchmark, write its JSON and print the ratio last."""
    record = bench_collect(env, rollouts, sb3_rollouts, returns, workers=workers, quiet=quiet)
    publish(record, f"collecting {env}", _rows(record), out or OUT, json_only)
    return 0
