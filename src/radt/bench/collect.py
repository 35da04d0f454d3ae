"""`radt bench collect`: transitions per second against other people's PPO, and how well both learn.

Our side is one whole collection, files included. The other side is the source `sb3`: an unmodified
learner with the same hyper-parameters and inputs in one process of one thread per worker, of which
only learning is timed. The two sides never run at the same time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from radt.bench import USUAL, CollectArguments, Resources
from radt.bench.common import with_provenance
from radt.collect import CollectProgress, SB3Options, record_histories
from radt.collect.rollout import LATE_EPISODES, late_return
from radt.collect.sb3 import library
from radt.data import Dataset
from radt.envs.suite import SUITES, TaskSuite, source_of
from radt.metrics import crossed_interval
from radt.runs.presets import usual_options
from radt.runs.run import RunError
from radt.track import Tracker

SAMPLED_TASKS = 8
ALGORITHMS = {"ppo": "PPO", "ppo-lstm": "RecurrentPPO"}  # of the baseline, by source
SHARED = (
    *("learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda"),
    *("clip_range", "ent_coef", "vf_coef", "max_grad_norm"),
)
TABLE = ("", ())
Mark = tuple[float, int]  # seconds since the start, transitions so far
Late = float | None  # the mean return of a task's last episodes; None if none was finished


@dataclass(frozen=True)
class Collected:
    """What a collection took, and how well the sampled tasks were learned."""

    tasks: int
    transitions: int  # of all tasks
    seconds: float  # from nothing to the finished dataset
    work_seconds: float  # the same without the start of processes
    marks: list[Mark]
    late: list[Late]  # of the sampled tasks


def bench_collect(
    arguments: CollectArguments, resources: Resources = USUAL, config: Any = None
) -> dict[str, Any]:
    """Measure our collector against as many processes of the baseline as it has workers.

    `config` has the hyper-parameters of both sides, by default the paper's.
    """
    suite, source = SUITES[arguments.env], source_of(SUITES[arguments.env])
    config = shortened(config or usual_options(arguments.env, source, "paper"), arguments.rollouts)
    library()  # refused before the long work
    sampled, tracker = sample_tasks(suite, config), Tracker(quiet=resources.quiet)
    workers, some = resources.workers, sampled
    transitions = config.transitions
    if arguments.skip_returns:
        some, transitions = sampled[:workers], arguments.sb3_rollouts * config.n_steps
    # A source that takes hours for all tasks collects the sampled ones only.
    own = suite if source == "ppo" else only(suite, sampled)
    ours = collect_once(own, source, config, sampled, workers, tracker)
    options = baseline_options(source, config, transitions)
    theirs = collect_once(only(suite, some), "sb3", options, some, workers, tracker)
    steady, rate = steady_rate(ours, config), theirs.transitions / theirs.work_seconds
    measured = {
        "env": arguments.env,
        "source": source,
        "hyper_parameters": asdict(config),
        "ours": {**_sizes(ours), "workers": workers, "steady_rate": steady},
        "baseline": {
            **_sizes(theirs),
            "algorithm": options.algorithm,
            "processes": min(workers, len(some)),
            "rate": rate,
        },
        "returns": None if arguments.skip_returns else compare_returns(ours.late, theirs.late),
        "ratio_of_whole_runs": ours.transitions / ours.seconds / rate,
    }
    return with_provenance("collect", measured, steady / rate)


def _sizes(side: Collected) -> dict[str, float]:
    return {name: getattr(side, name) for name in ("tasks", "transitions", "seconds")}


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


def only(suite: TaskSuite, tasks: tuple[int, ...]) -> TaskSuite:
    """Choose what is collected."""
    chosen: TaskSuite = replace(suite, train_tasks=tasks)  # type: ignore[type-var]
    return chosen


def baseline_options(source: str, config: Any, transitions: int) -> SB3Options:
    """Give the library's learner the collector's hyper-parameters."""
    width = {"lstm_hidden_size": config.units} if source == "ppo-lstm" else {}
    policy = {"optimizer_kwargs": {"eps": config.adam_epsilon}, **width}
    return SB3Options(
        seed=config.seed,
        algorithm=ALGORITHMS[source],  # type: ignore[arg-type]
        settings={**{name: getattr(config, name) for name in SHARED}, "policy_kwargs": policy},
        transitions=transitions,
        parts=1,
    )


def collect_once(
    suite: TaskSuite, source: str, config: Any, sampled: tuple[int, ...], workers: int, bar: Tracker
) -> Collected:
    """Collect into a temporary folder."""
    tasks, marks = len(suite.train_tasks), list[Mark]()
    bar.start(source, tasks * config.transitions)
    begun = time.perf_counter()

    def note(news: CollectProgress) -> None:
        marks.append((time.perf_counter() - begun, news.transitions))
        bar.advance(news.transitions, f"return {news.recent_return:.1f}")

    with tempfile.TemporaryDirectory(prefix="radt-bench-") as name:
        record_histories(suite, config, Path(name), workers, note, quiet=True, source=source)
        seconds = time.perf_counter() - begun
        bar.finish()
        data = Dataset.open(name, sampled, in_memory=False)
    own = [data.episodes.rows(data.episodes.task == task) for task in sampled]
    late = [late_return(each.total_return, each.length, config.transitions) for each in own]
    work = data.manifest.wall_seconds
    return Collected(tasks, tasks * config.transitions, seconds, work, marks, late)


def steady_rate(ours: Collected, config: Any) -> float:
    """Return transitions per second without the first rollouts and without the last.

    The first ones wait for processes to start, and nothing is learned from the last ones.
    """
    per_round = ours.tasks * config.n_steps * config.envs_per_task
    last_round = per_round * (config.rollouts - 1)
    inside = [mark for mark in ours.marks if per_round <= mark[1] <= last_round]
    (begun, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - begun)


def compare_returns(ours: Sequence[Late], theirs: Sequence[Late]) -> dict[str, Any]:
    """Put late returns by task side by side, with the interval of the others' mean."""
    if None in (*ours, *theirs):
        raise RunError("some task finished no episode, so returns cannot be compared")
    interval = crossed_interval(np.array([theirs], float), np.random.default_rng(0))
    return {
        "episodes": LATE_EPISODES,
        "ours": list(ours),
        "baseline": list(theirs),
        "our_mean": float(np.mean(np.array(ours, float))),
        "interval": asdict(interval),  # tasks resampled
    }
