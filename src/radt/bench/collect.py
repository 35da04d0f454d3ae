"""`radt bench collect`: transitions per second against stable-baselines3, and how well both learn.

Our side is one whole collection, files included. The other side is one process of one thread per
worker, with the same hyper-parameters and inputs. The two sides never run at the same time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from radt.bench.baseline import (
    LATE_EPISODES,
    BaselineJob,
    BaselineRun,
    baseline_version,
    late_return,
    learn_side_by_side,
)
from radt.bench.report import publish, with_provenance
from radt.collect import CollectConfig, CollectProgress, collect, paper_config
from radt.data import Dataset
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.run import RunError
from radt.metrics import Interval, nested_interval
from radt.track import Tracker

SAMPLED_TASKS = 8
OUT = Path("runs/bench/collect.json")

Mark = tuple[float, int]  # seconds since the start, transitions so far


@dataclass(frozen=True)
class Collected:
    """What one collection of every training task took, and how well its tasks were learned."""

    transitions: int
    seconds: float  # from nothing to the finished dataset
    steady_rate: float  # transitions per second after warm-up
    late_returns: tuple[float | None, ...]  # of the sampled tasks


def bench_collect(
    env: str = "dark-room-10x10",
    rollouts: int | None = None,
    sb3_rollouts: int = 5,
    returns: bool = True,
    config: CollectConfig | None = None,
    workers: int = 2,
    quiet: bool = True,
) -> dict[str, Any]:
    """Measure our collector against as many stable-baselines3 processes as it has workers.

    Args:
        env: The suite whose training tasks are learned.
        rollouts: How many rollouts of each task; None: the whole collection.
        sb3_rollouts: How many the baseline is timed over when `returns` is off.
        returns: Train the baseline on 8 sampled tasks to the end, time that, compare late returns.
        config: Hyper-parameters of both; None: the paper's.
        workers: Processes of each side.
        quiet: Draw no bars.
    """
    suite = SUITES[env]
    config = _shortened(config or paper_config(env), rollouts)
    version = baseline_version()  # fails before the long work does
    tasks = sample_tasks(suite, config.seed)
    tracker = Tracker(quiet=quiet)
    ours = collect_once(suite, config, workers, tasks, tracker)
    jobs = _baseline_jobs(suite, config, tasks, workers, None if returns else sb3_rollouts)
    theirs = _run_baseline(jobs, tracker)
    rate = baseline_rate(theirs)
    runs = sorted((run for process in theirs for run in process), key=lambda run: run.task)
    measured = {
        "env": env,
        "hyper_parameters": asdict(config),
        "ours": {"workers": workers, "tasks": len(suite.train_tasks), **asdict(ours)},
        "stable_baselines3": {
            "version": version,
            "processes": len(jobs),
            "threads_per_process": 1,
            "runs": [asdict(run) for run in runs],
            "rate": rate,
            "seconds_for_all": ours.transitions / rate,
        },
        "returns": _compare_returns(tasks, ours.late_returns, runs) if returns else None,
        "ratio_of_whole_runs": ours.transitions / ours.seconds / rate,
    }
    return with_provenance("collect", measured, ours.steady_rate / rate)


def _shortened(config: CollectConfig, rollouts: int | None) -> CollectConfig:
    if rollouts is not None:
        config = replace(config, transitions=rollouts * config.n_steps)
    if config.rollouts < 3:
        raise RunError(
            f"{config.rollouts} rollouts leave none between the warm-up and the last one; "
            "give at least 3"
        )
    return config


def sample_tasks(suite: TaskSuite, seed: int) -> tuple[int, ...]:
    """Draw the training tasks whose returns are compared."""
    count = min(SAMPLED_TASKS, len(suite.train_tasks))
    drawn = np.random.default_rng(seed).choice(suite.train_tasks, count, replace=False)
    return tuple(int(task) for task in np.sort(drawn))


def collect_once(
    suite: TaskSuite,
    config: CollectConfig,
    workers: int,
    sampled: Sequence[int],
    tracker: Tracker,
) -> Collected:
    """Collect a dataset in a temporary folder and note when each rollout was done."""
    marks: list[Mark] = []
    total = len(suite.train_tasks) * config.transitions
    tracker.start("collect", total)
    begun = time.perf_counter()

    def note(news: CollectProgress) -> None:
        marks.append((time.perf_counter() - begun, news.transitions))
        tracker.advance(news.transitions, f"return {news.recent_return:.1f}")

    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        collect(suite, config, Path(folder), workers, progress=note, quiet=True)
        seconds = time.perf_counter() - begun
        tracker.finish()
        episodes = Dataset.open(folder, sampled, in_memory=False).episodes
    late = []
    for task in sampled:
        own = episodes.rows(episodes.task == task)
        late.append(late_return(own.total_return, own.length, config.transitions))
    return Collected(total, seconds, steady_rate(marks, suite, config), tuple(late))


def steady_rate(marks: Sequence[Mark], suite: TaskSuite, config: CollectConfig) -> float:
    """Return transitions per second without the first rollouts and without the last.

    The first ones wait for processes to start, and nothing is learned from the last ones.
    """
    per_round = len(suite.train_tasks) * config.n_steps
    inside = [mark for mark in marks if per_round <= mark[1] <= per_round * (config.rollouts - 1)]
    (begun, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - begun)


def _baseline_jobs(
    suite: TaskSuite,
    config: CollectConfig,
    tasks: Sequence[int],
    processes: int,
    rollouts: int | None,
) -> list[BaselineJob]:
    """Deal the tasks out to processes: all of them to the end, or one each for some rollouts."""
    if rollouts is None:
        shares, timed = [tuple(tasks[n::processes]) for n in range(processes)], config.rollouts - 1
    else:
        shares, timed = [(task,) for task in tasks[:processes]], rollouts
    return [BaselineJob(suite, config, share, timed) for share in shares if share]


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


def _compare_returns(
    tasks: Sequence[int], late: Sequence[float | None], runs: Sequence[BaselineRun]
) -> dict[str, Any]:
    """Say whether our mean return lies in the 95 % interval of the baseline's."""
    ours = np.array(late, dtype=float)  # [task]
    theirs = np.array([run.late_return for run in runs], dtype=float)  # [task]
    if np.isnan(ours).any() or np.isnan(theirs).any():
        raise RunError("some task finished no episode, so returns cannot be compared; give more")
    interval = _interval(theirs)
    return {
        "tasks": list(tasks),
        "episodes": LATE_EPISODES,
        "ours": ours.tolist(),
        "stable_baselines3": theirs.tolist(),
        "our_mean": float(ours.mean()),
        "interval": asdict(interval),  # of the baseline's mean, tasks resampled
        "difference": asdict(_interval(ours - theirs)),
        "inside": bool(interval.low <= ours.mean() <= interval.high),
    }


def _interval(scores: np.ndarray[Any, np.dtype[np.float64]]) -> Interval:
    return nested_interval(scores[None], np.random.default_rng(0))


def _rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    ours, theirs, returns = record["ours"], record["stable_baselines3"], record["returns"]
    processes = f"{theirs['processes']} stable-baselines3 {theirs['version']} processes"
    rows = [
        ("transitions collected", f"{ours['transitions']:,}"),
        ("seconds, files included", f"{ours['seconds']:.1f}"),
        ("radt, transitions/s", f"{ours['steady_rate']:,.0f}"),
        (f"{processes}, transitions/s", f"{theirs['rate']:,.0f}"),
        ("seconds they need for as many", f"{theirs['seconds_for_all']:,.0f}"),
        ("ratio with start-up and files", f"{record['ratio_of_whole_runs']:.1f}"),
    ]
    if returns is not None:
        verdict = "inside" if returns["inside"] else "outside"
        rows += [
            (f"radt, return on {len(returns['tasks'])} tasks", f"{returns['our_mean']:.1f}"),
            ("stable-baselines3, return", str(Interval(**returns["interval"]))),
            ("difference", str(Interval(**returns["difference"]))),
            ("radt in the interval of stable-baselines3", verdict),
        ]
    return rows


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
