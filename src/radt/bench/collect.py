"""`radt bench collect`: transitions per second against other people's PPO, and how well both learn.

Our side is one whole collection, files included. The other side is one process of one thread per
worker, with the same hyper-parameters and inputs. The two sides never run at the same time.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from radt.bench import USUAL, CollectArguments, Resources
from radt.bench.common import with_provenance
from radt.collect import CollectProgress, record_histories
from radt.collect.rollout import LATE_EPISODES, late_return
from radt.data import Dataset
from radt.engine import LocalEngine, single_threaded
from radt.envs.suite import SUITES, TaskSuite, source_of
from radt.metrics import crossed_interval
from radt.runs.presets import usual_options
from radt.runs.run import RunError
from radt.track import Tracker

SAMPLED_TASKS = 8
BASELINES = {"ppo": "stable_baselines3", "ppo-lstm": "sb3_contrib"}  # modules, by source
TABLE = ("", ())
Late = float | None  # the mean return of a task's last episodes; None if none was finished


@dataclass(frozen=True)
class BaselineJob:
    """The tasks that one process of the baseline learns one after the other."""

    suite: TaskSuite
    source: str
    config: Any  # the options of the source
    tasks: tuple[int, ...]
    rollouts: int  # of each task that are timed, after one to warm up


def bench_collect(
    arguments: CollectArguments, resources: Resources = USUAL, config: Any = None
) -> dict[str, Any]:
    """Measure our collector against as many processes of the baseline as it has workers.

    `config` has the hyper-parameters of both sides, by default the paper's.
    """
    suite, source = SUITES[arguments.env], source_of(SUITES[arguments.env])
    config = shortened(config or usual_options(arguments.env, source, "paper"), arguments.rollouts)
    module, version = BASELINES[source], baseline_version(source)  # fails before the long work
    sampled, tracker = sample_tasks(suite, config), Tracker(quiet=resources.quiet)
    ours, late = collect_once(suite, source, config, sampled, resources.workers, tracker)
    timed = arguments.sb3_rollouts if arguments.skip_returns else config.rollouts - 1
    shares = [sampled[first :: resources.workers] for first in range(resources.workers)]
    jobs = [
        BaselineJob(suite, source, config, share[:1] if arguments.skip_returns else share, timed)
        for share in shares
        if share
    ]
    runs = run_baseline(jobs, tracker)
    seconds = [sum(run["seconds"] for run in runs if run["task"] in job.tasks) for job in jobs]
    rate = sum(
        len(job.tasks) * timed * config.n_steps / spent
        for job, spent in zip(jobs, seconds, strict=True)
    )
    returns = None
    if not arguments.skip_returns:
        by_task = {run["task"]: run["late_return"] for run in runs}
        returns = compare_returns(late, module, [by_task[task] for task in sampled])
    measured = {
        "env": arguments.env,
        "source": source,
        "hyper_parameters": asdict(config),
        "ours": ours,
        module: {
            "version": version,
            "processes": len(jobs),
            "threads_per_process": 1,
            "runs": runs,
            "rate": rate,
            "seconds_for_all": ours["transitions"] / rate,
        },
        "returns": returns,
        "ratio_of_whole_runs": ours["transitions"] / ours["seconds"] / rate,
    }
    return with_provenance("collect", measured, ours["steady_rate"] / rate)


def baseline_version(source: str) -> str:
    """Return which version of the baseline is installed, or say how to install one."""
    try:
        return str(importlib.import_module(BASELINES[source]).__version__)
    except ImportError as error:
        raise RunError(
            f"the baseline of this benchmark, {BASELINES[source]}, is not installed: "
            "pip install 'radt[dev]'"
        ) from error


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


def collect_once(
    suite: TaskSuite, source: str, config: Any, sampled: tuple[int, ...], workers: int, bar: Tracker
) -> tuple[dict[str, Any], list[Late]]:
    """Collect into a temporary folder: what it took, and the late returns of the sampled tasks.

    A source that takes hours for all tasks collects the sampled ones only.
    """
    if source != "ppo":
        suite = replace(suite, train_tasks=sampled)  # type: ignore[type-var]
    tasks = len(suite.train_tasks)
    marks: list[tuple[float, int]] = []  # seconds since the start, transitions so far
    bar.start("collect", tasks * config.transitions)
    begun = time.perf_counter()

    def note(news: CollectProgress) -> None:
        marks.append((time.perf_counter() - begun, news.transitions))
        bar.advance(news.transitions, f"return {news.recent_return:.1f}")

    with tempfile.TemporaryDirectory(prefix="radt-bench-") as name:
        record_histories(suite, config, Path(name), workers, note, quiet=True, source=source)
        seconds = time.perf_counter() - begun
        bar.finish()
        episodes = Dataset.open(name, sampled, in_memory=False).episodes
    own = [episodes.rows(episodes.task == task) for task in sampled]
    late = [late_return(each.total_return, each.length, config.transitions) for each in own]
    ours = {
        "workers": workers,
        "tasks": tasks,
        "transitions": tasks * config.transitions,
        "seconds": seconds,  # from nothing to the finished dataset
        "steady_rate": steady_rate(marks, tasks, config),
    }
    return ours, late


def steady_rate(marks: Sequence[tuple[float, int]], tasks: int, config: Any) -> float:
    """Return transitions per second without the first rollouts and without the last.

    The first ones wait for processes to start, and nothing is learned from the last ones.
    """
    per_round = tasks * config.n_steps * config.envs_per_task
    inside = [mark for mark in marks if per_round <= mark[1] <= per_round * (config.rollouts - 1)]
    (begun, first), (ended, last) = inside[0], inside[-1]
    return (last - first) / (ended - begun)


def run_baseline(jobs: Sequence[BaselineJob], tracker: Tracker) -> list[dict[str, Any]]:
    """Do each job in a process of one thread, all at the same time; return the runs by task."""
    runs: list[dict[str, Any]] = []
    tracker.start("baseline", sum(len(job.tasks) for job in jobs))
    for _, run in LocalEngine(len(jobs)).map(learn_tasks, jobs):
        runs.append(run)
        rate = run["transitions"] / run["seconds"]
        tracker.advance(len(runs), f"{rate:.0f} transitions/s a process")
    tracker.finish()
    return sorted(runs, key=lambda run: int(run["task"]))


def learn_tasks(job: BaselineJob) -> Iterator[dict[str, Any]]:
    """Train an unmodified PPO on each task in turn; the first rollout is not timed."""
    config = job.config
    with single_threaded():
        for task in job.tasks:
            model = build_baseline(job.source, job.suite, task, config)
            model.learn(config.n_steps)
            begun = time.perf_counter()
            model.learn(job.rollouts * config.n_steps, reset_num_timesteps=False)
            seconds = time.perf_counter() - begun
            monitor = model.get_env().envs[0]
            earned, lengths = monitor.get_episode_rewards(), monitor.get_episode_lengths()
            yield {
                "task": task,
                "transitions": job.rollouts * config.n_steps,
                "seconds": seconds,
                "late_return": late_return(earned, np.array(lengths), config.transitions),
            }


def build_baseline(source: str, suite: TaskSuite, task: int, config: Any) -> Any:
    """Build the library's learner with the collector's hyper-parameters and inputs."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    names = (
        *("learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda"),
        *("clip_range", "ent_coef", "vf_coef", "max_grad_norm"),
    )
    learner: Any = PPO
    policy, width = "MlpPolicy", dict[str, int]()
    if source == "ppo-lstm":
        from sb3_contrib import RecurrentPPO

        learner, policy, width = RecurrentPPO, "MlpLstmPolicy", {"lstm_hidden_size": config.units}
    return learner(
        policy,
        Monitor(network_env(suite, task, getattr(config, "observation_scale", "unit"))),
        **{name: getattr(config, name) for name in names},
        policy_kwargs={"optimizer_kwargs": {"eps": config.adam_epsilon}, **width},
        seed=config.seed + task,
        device="cpu",
    )


def network_env(suite: TaskSuite, task: int, scale: str) -> gym.Env[Any, Any]:
    """Show a task's observations as our networks see them: grid coordinates from -1 to 1."""
    env, state = suite.make(task), suite.spaces.state
    if state.kind != "discrete" or scale == "raw":
        return env
    half = np.maximum(np.array(state.bins, np.float32) - 1, 1) / 2
    space = gym.spaces.Box(-1.0, 1.0, half.shape, np.float32)
    return gym.wrappers.TransformObservation(env, lambda seen: seen.reshape(-1) / half - 1, space)


def compare_returns(late: Sequence[Late], others: str, theirs: Sequence[Late]) -> dict[str, Any]:
    """Put late returns by task side by side, with the interval of the others' mean."""
    if None in (*late, *theirs):
        raise RunError("some task finished no episode, so returns cannot be compared")
    interval = crossed_interval(np.array([theirs], float), np.random.default_rng(0))
    return {
        "episodes": LATE_EPISODES,
        "ours": list(late),
        others: list(theirs),
        "our_mean": float(np.mean(np.array(late, float))),
        "interval": asdict(interval),  # tasks resampled
    }
