"""`radt bench collect`: transitions per second against other people's PPO, and how well both learn.

Our side is one whole collection, files included. The other side is one process of one thread per
worker, with the same hyper-parameters and inputs. The two sides never run at the same time. Where
the laptop budget has a lighter way, it is measured against the same baseline, too.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from radt.bench import USUAL, CollectArguments, Resources
from radt.bench.common import make_table, with_provenance
from radt.collect import SOURCES, CollectConfig, CollectProgress, RecurrentConfig, record_histories
from radt.collect.ppo import network_inputs
from radt.collect.ppo_lstm import network_view
from radt.collect.rollout import LATE_EPISODES, StateIndex, late_return
from radt.data import Dataset
from radt.decode import decode
from radt.engine import LocalEngine, single_threaded
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.presets import usual_recipe, usual_source
from radt.experiments.run import RunError
from radt.metrics import Interval, crossed_interval
from radt.track import Tracker

SAMPLED_TASKS = 8
Mark = tuple[float, int]  # seconds since the start, transitions so far


@dataclass(frozen=True)
class Setting:
    """What both sides have in common."""

    suite: TaskSuite
    source: str
    sampled: tuple[int, ...]  # the tasks whose returns are compared
    workers: int


@dataclass(frozen=True)
class Collected:
    """What one collection took, and how well its tasks were learned."""

    tasks: int
    transitions: int
    seconds: float  # from nothing to the finished dataset
    steady_rate: float  # transitions per second after warm-up
    late_returns: tuple[float | None, ...]  # of the sampled tasks


@dataclass(frozen=True)
class BaselineRun:
    """How fast the baseline learned one task, and how well."""

    task: int
    transitions: int  # that were timed
    seconds: float
    late_return: float | None  # mean of the last episodes, None if none was finished


@dataclass(frozen=True)
class BaselineJob:
    """The tasks that one process of the baseline learns one after the other."""

    setting: Setting
    config: Any  # the options of the source, with one environment per task
    tasks: tuple[int, ...]
    rollouts: int  # of each task that are timed, after one to warm up


def bench_collect(
    arguments: CollectArguments, resources: Resources = USUAL, config: Any = None
) -> dict[str, Any]:
    """Measure our collector against as many processes of the baseline as it has workers.

    `config` has the hyper-parameters of both sides and of the lighter way; None: the paper's, and
    the laptop budget's.
    """
    env, rollouts, tracker = arguments.env, arguments.rollouts, Tracker(quiet=resources.quiet)
    suite, source = SUITES[env], usual_source(env)
    full, lighter = (
        shortened(config or _source_options(env, source, budget), rollouts)
        for budget in ("paper", "laptop")
    )
    baseline = BASELINES[source]
    version = baseline.version()  # fails before the long work does
    setting = Setting(suite, source, sample_tasks(suite, full), resources.workers)
    ours = collect_once(setting, full, tracker)
    light = None if source == "ppo" else collect_once(setting, lighter, tracker)
    timed = arguments.sb3_rollouts if arguments.skip_returns else None
    by_process = run_baseline(baseline_jobs(setting, full, timed), tracker)
    rate = baseline_rate(by_process)
    runs = sorted((run for process in by_process for run in process), key=lambda run: run.task)
    known = None if arguments.skip_returns else runs
    measured: dict[str, Any] = {
        "env": env,
        "source": source,
        **compared(setting, full, ours, rate, known),
        baseline.module: {
            "version": version,
            "processes": len(by_process),
            "threads_per_process": 1,
            "runs": [asdict(run) for run in runs],
            "rate": rate,
            "seconds_for_all": ours.transitions / rate,
        },
        "light": None if light is None else compared(setting, lighter, light, rate, known),
    }
    if light is not None and lighter.transitions == full.transitions:
        measured["light"]["beside_full"] = compare_returns(
            setting, light.late_returns, "full", ours.late_returns
        )
    return with_provenance("collect", measured, ours.steady_rate / rate)


def _source_options(env: str, source: str, budget: str) -> Any:
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


def collected_suite(setting: Setting, config: Any) -> TaskSuite:
    """Return the suite with the tasks that we collect.

    These are all; where one would take hours, the sampled ones, filled up to work for every worker.
    """
    suite, sampled = setting.suite, setting.sampled
    if setting.source == "ppo":
        return suite
    count = max(len(sampled), setting.workers * config.tasks_per_group)
    others = [task for task in suite.train_tasks if task not in sampled]
    tasks = tuple(sorted((*sampled, *others[: count - len(sampled)])))
    smaller: TaskSuite = replace(suite, train_tasks=tasks)  # type: ignore[type-var]
    return smaller


def collect_once(setting: Setting, config: Any, tracker: Tracker) -> Collected:
    """Collect a dataset in a temporary folder and note when each rollout was done."""
    suite = collected_suite(setting, config)
    tasks = len(suite.train_tasks)
    marks: list[Mark] = []
    tracker.start("collect", tasks * config.transitions)
    begun = time.perf_counter()

    def note(news: CollectProgress) -> None:
        marks.append((time.perf_counter() - begun, news.transitions))
        tracker.advance(news.transitions, f"return {news.recent_return:.1f}")

    with tempfile.TemporaryDirectory(prefix="radt-bench-") as name:
        how: dict[str, Any] = {"workers": setting.workers, "source": setting.source}
        record_histories(suite, config, Path(name), progress=note, quiet=True, **how)
        seconds = time.perf_counter() - begun
        tracker.finish()
        episodes = Dataset.open(name, setting.sampled, in_memory=False).episodes
    own = [episodes.rows(episodes.task == task) for task in setting.sampled]
    late = tuple(late_return(each.total_return, each.length, config.transitions) for each in own)
    steady = steady_rate(marks, tasks, config)
    return Collected(tasks, tasks * config.transitions, seconds, steady, late)


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
        shares, rollouts = [tasks[n::processes] for n in range(processes)], config.rollouts - 1
    else:
        shares = [(task,) for task in tasks[:processes]]
    return [BaselineJob(setting, config, share, rollouts) for share in shares if share]


def run_baseline(jobs: Sequence[BaselineJob], tracker: Tracker) -> list[list[BaselineRun]]:
    """Do each job in a process of one thread, all at the same time; runs are listed by job."""
    done: dict[tuple[int, int], BaselineRun] = {}
    tracker.start("baseline", sum(len(job.tasks) for job in jobs))
    for place, news in LocalEngine(len(jobs)).map(learn_tasks, jobs):
        run = BaselineRun(*news)
        done[place, run.task] = run
        tracker.advance(len(done), f"{run.transitions / run.seconds:.0f} transitions/s a process")
    tracker.finish()
    return [[done[place, task] for task in job.tasks] for place, job in enumerate(jobs)]


def learn_tasks(job: BaselineJob) -> Iterator[tuple[Any, ...]]:
    """Train an unmodified PPO on each task in turn; the first rollout is not timed."""
    config, setting = job.config, job.setting
    with single_threaded():
        for task in job.tasks:
            model = BASELINES[setting.source].build(setting.suite, task, config)
            model.learn(config.n_steps)
            begun = time.perf_counter()
            model.learn(job.rollouts * config.n_steps, reset_num_timesteps=False)
            seconds = time.perf_counter() - begun
            monitor = model.get_env().envs[0]
            earned, lengths = monitor.get_episode_rewards(), monitor.get_episode_lengths()
            late = late_return(np.array(earned), np.array(lengths), config.transitions)
            yield astuple(BaselineRun(task, job.rollouts * config.n_steps, seconds, late))


def baseline_rate(processes: Sequence[Sequence[BaselineRun]]) -> float:
    """Add up the transitions per second of processes that ran side by side."""
    return sum(
        sum(run.transitions for run in runs) / sum(run.seconds for run in runs)
        for runs in processes
    )


def build_ppo(suite: TaskSuite, task: int, config: CollectConfig) -> Any:
    """Build stable-baselines3's PPO with the collector's hyper-parameters and inputs."""
    from stable_baselines3 import PPO

    return _build(PPO, "MlpPolicy", scaled(suite.make(task), suite, config), task, config, {})


def build_recurrent_ppo(suite: TaskSuite, task: int, config: RecurrentConfig) -> Any:
    """Build sb3-contrib's RecurrentPPO with the collector's hyper-parameters and inputs."""
    from sb3_contrib import RecurrentPPO

    env, state = suite.make(task), suite.spaces.state
    if state.kind == "discrete":
        view = network_view(state)
        env = transformed(env, lambda seen: view(seen[None])[0].numpy(), len(state.bins))
    width = {"lstm_hidden_size": config.units}
    return _build(RecurrentPPO, "MlpLstmPolicy", env, task, config, width)


def _build(
    learner: Any, policy: str, env: gym.Env[Any, Any], task: int, config: Any, width: dict[str, int]
) -> Any:
    from stable_baselines3.common.monitor import Monitor

    names = (
        *("learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda"),
        *("clip_range", "ent_coef", "vf_coef", "max_grad_norm"),
    )
    return learner(
        policy,
        Monitor(env),
        **{name: getattr(config, name) for name in names},
        policy_kwargs={"optimizer_kwargs": {"eps": config.adam_epsilon}, **width},
        seed=config.seed + task,
        device="cpu",
    )


def scaled(env: gym.Env[Any, Any], suite: TaskSuite, config: CollectConfig) -> gym.Env[Any, Any]:
    """Show the observations as the collector's networks see them; raw ones stay as they are."""
    if config.observation_scale == "raw":
        return env
    index = StateIndex(suite.spaces.state)
    inputs = network_inputs(index, config.observation_scale)[:, :-1].numpy()
    table = inputs.reshape(*index.bins, -1)  # [*bins, coordinates]
    return transformed(env, lambda seen: table[tuple(seen)], inputs.shape[1])


def transformed(
    env: gym.Env[Any, Any], view: Callable[[NDArray[Any]], NDArray[Any]], width: int
) -> gym.Env[Any, Any]:
    """Show other observations: `width` numbers from -1 to 1."""
    space = gym.spaces.Box(-1.0, 1.0, (width,), np.float32)
    return gym.wrappers.TransformObservation(env, view, space)


@dataclass(frozen=True)
class Baseline:
    """A library whose learner a source is measured against."""

    name: str
    module: str
    build: Callable[[TaskSuite, int, Any], Any]

    def version(self) -> str:
        """Return which version is installed, or say how to install one."""
        try:
            return str(importlib.import_module(self.module).__version__)
        except ImportError as error:
            raise RunError(
                f"the baseline of this benchmark, {self.name}, is not installed: "
                "pip install 'radt[dev]'"
            ) from error


BASELINES = {
    "ppo": Baseline("stable-baselines3", "stable_baselines3", build_ppo),
    "ppo-lstm": Baseline("sb3-contrib", "sb3_contrib", build_recurrent_ppo),
}


def compared(
    setting: Setting, config: Any, ours: Collected, rate: float, runs: Sequence[BaselineRun] | None
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
    setting: Setting, late: Sequence[float | None], others: str, other_late: Sequence[float | None]
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


def _interval(scores: NDArray[np.float64]) -> Interval:
    return crossed_interval(scores[None], np.random.default_rng(0))


def collect_table(record: Mapping[str, Any]) -> Table:
    """Show both sides and their returns."""
    baseline = BASELINES[record["source"]]
    theirs = record[baseline.module]
    processes = f"{theirs['processes']} {baseline.name} {theirs['version']} processes"
    rows = [(f"{processes}, transitions/s", f"{theirs['rate']:,.0f}")]
    rows += _side("radt", record, baseline.name)
    rows += [("seconds they need for as many", f"{theirs['seconds_for_all']:,.0f}")]
    if record["light"] is not None:
        rows += _side("radt, lighter", record["light"], baseline.name)
        rows += [("ratio, lighter", f"{record['light']['ratio']:.1f}")]
    return make_table(f"collecting {record['env']}", rows)


def _side(name: str, side: Mapping[str, Any], baseline: str) -> list[tuple[str, str]]:
    ours = side["ours"]
    rows = [
        (f"{name}, transitions collected", f"{ours['transitions']:,}"),
        (f"{name}, seconds, files included", f"{ours['seconds']:.1f}"),
        (f"{name}, transitions/s", f"{ours['steady_rate']:,.0f}"),
        (f"{name}, ratio with start-up and files", f"{side['ratio_of_whole_runs']:.1f}"),
    ]
    span = "{mean:.2f} [{low:.2f}, {high:.2f}]"
    for others, returns in ((baseline, side["returns"]), ("radt", side.get("beside_full"))):
        if returns is not None:
            rows += [
                (f"{name}, return on {len(returns['tasks'])} tasks", f"{returns['our_mean']:.2f}"),
                (f"{others}, return", span.format(**returns["interval"])),
                ("difference", span.format(**returns["difference"])),
                (
                    f"{name} in the interval of {others}",
                    "inside" if returns["inside"] else "outside",
                ),
            ]
    return rows
