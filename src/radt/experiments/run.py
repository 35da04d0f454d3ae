"""One run from no data to a curve: collect, embed, train, evaluate.

Every step looks first at what is already there, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from radt.agent import Agent, Target
from radt.checkpoint import Card, load_checkpoint, save_checkpoint
from radt.collect import CollectProgress, paper_config
from radt.collect import collect as collect_histories
from radt.config import RunConfig, differences, from_json
from radt.data import Dataset, dataset_folder
from radt.envs.suite import SUITES, TaskSuite
from radt.experiments.choices import choose
from radt.experiments.provenance import Stopwatch, code_version, machine
from radt.experiments.trace import Trace
from radt.files import atomic_write
from radt.icl import ICLResult, in_context_learning
from radt.learn import learn
from radt.memory.embed import DecisionTransformerEmbedder
from radt.methods import METHODS, Method
from radt.methods.dt import DT, DTOptions
from radt.metrics import after_finding, found_by, late_score
from radt.track import JsonLines, Sink, Tracker

CHECKPOINT = "model.safetensors"
RESULT = "icl.json"
CHOICES = "choices.json"


class RunError(ValueError):
    """A run that cannot be started as asked; the message says what to do."""


@dataclass(frozen=True)
class Run:
    """A run's folder and config, and who is told how it goes."""

    config: RunConfig
    out: Path
    quiet: bool = True
    sinks: tuple[Sink, ...] = ()
    threads: int | None = None  # as asked for; None: the fastest number is measured
    device: str = "cpu"  # where networks compute

    def tracker(self) -> Tracker:
        """Log to the run's folder and show progress."""
        return Tracker((JsonLines(self.out / "log.jsonl"), *self.sinks), self.quiet)

    @property
    def suite(self) -> TaskSuite:
        """The environment's tasks."""
        return SUITES[self.config.env]

    @property
    def tasks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tasks to train on and those to be tested on."""
        train = self.suite.train_tasks
        if self.config.split == "final":
            return train, self.suite.eval_tasks
        kept = len(train) - len(train) // 5
        return train[:kept], train[kept:]


def claim(run: Run) -> None:
    """Make the run's folder, or check that it belongs to the same config."""
    file = run.out / "config.json"
    if file.exists():
        before = _read_config(file)
        if changes := differences(before, run.config):
            raise RunError(
                f"{run.out} belongs to another run:\n  "
                + "\n  ".join(changes)
                + "\nChoose another --out, or give the same options to go on with that run."
            )
        return
    content = json.dumps(run.config.to_json(), indent=2) + "\n"
    atomic_write(file, content.encode())


def _read_config(file: Path) -> RunConfig:
    try:
        return from_json(json.loads(file.read_text()), where=str(file))
    except (ValueError, KeyError) as error:
        raise RunError(
            f"{file} is not the config of a run of this version ({error}); choose another --out"
        ) from error


def collect(
    config: RunConfig,
    workers: int = 2,
    quiet: bool = True,
    progress: Callable[[CollectProgress], None] | None = None,
) -> Path:
    """Make the dataset that the config asks for, unless it exists, and return its folder."""
    folder = dataset_path(config)
    return collect_histories(
        SUITES[config.env], config.collect, folder, workers, progress=progress, quiet=quiet
    )


def dataset_path(config: RunConfig) -> Path:
    """Name the dataset's folder; one that is not made as in the paper carries a hash of how."""
    recipe, source = config.collect, "ppo"
    if recipe != paper_config(config.env, recipe.seed):
        content = json.dumps(asdict(recipe), sort_keys=True)
        source = f"ppo-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    return dataset_folder(config.env, source, recipe.seed)


def train(run: Run, dataset: Dataset, watch: Stopwatch) -> Path:
    """Train the config's method on the training tasks and return its checkpoint."""
    path = run.out / CHECKPOINT
    config, entry = run.config, METHODS[run.config.method]
    claim(run)
    if path.exists() or not entry.learns:
        return path
    chosen = dataset.select(run.tasks[0])
    tracker = run.tracker()
    with watch.phase("choose"):
        choose(run.out / CHOICES, _one_update(run, chosen), run.threads)
    embedder = None
    if entry.embeds:
        with watch.phase("embedder"):
            embedder = train_embedder(run, chosen, tracker)
    method = entry.build(run.suite.spaces, config.options, config.seed, embedder)
    to_device(method, run.device)
    with watch.phase("prepare"):
        tracker.start("prepare", total=1)
        tracker.log(1, **method.prepare(chosen))
        tracker.finish()
    with watch.phase("train"):
        learn(
            method,
            config.learn,
            config.seed,
            run.out / "policy.safetensors",
            tracker,
            evaluate=lambda update: _validate(run, method),
        )
    tracker.close()
    save_checkpoint(path, method, describe(run, method))
    return path


def _one_update(run: Run, dataset: Dataset) -> Callable[[], object]:
    """Return what an update costs most: a Decision Transformer's pass there and back."""
    config = run.config
    probe = DT(run.suite.spaces, DTOptions(config.options.model), config.seed)
    probe.prepare(dataset)
    examples = probe.draw(config.learn.batch_size, np.random.default_rng(config.seed))
    return lambda: probe.loss(examples).backward()


def train_embedder(run: Run, dataset: Dataset, tracker: Tracker) -> DecisionTransformerEmbedder:
    """Train the Decision Transformer whose hidden states become keys."""
    config = run.config
    options = DTOptions(config.embedder.model, config.options.memory.context_len)
    teacher = DT(run.suite.spaces, options, config.seed)
    to_device(teacher, run.device)
    teacher.prepare(dataset)
    short = dataclasses.replace(config.learn, updates=config.embedder.updates, evaluate_every=0)
    file = run.out / "embedder.safetensors"
    learn(teacher, short, config.seed, file, tracker, phase="embedder")
    return DecisionTransformerEmbedder(teacher.policy)


def describe(run: Run, method: Method) -> Card:
    """Say what a checkpoint of this run holds."""
    config = run.config
    return Card(
        method=config.method,
        env=config.env,
        spaces=run.suite.spaces,
        options=asdict(config.options),
        embedder=config.embedder.model if METHODS[config.method].embeds else None,
        target=run.suite.target_return,
        action_rule=asdict(config.evaluate.rule),
        seed=config.seed,
        code_version=code_version(),
    )


def _validate(run: Run, method: Method) -> Mapping[str, float]:
    """Look at in-context learning on the last fifth of the training tasks.

    They are held out when the run is for tuning. A final run trains on them, so there the numbers
    show only how learning goes on, not how well it generalises.
    """
    tasks = run.suite.train_tasks[-(len(run.suite.train_tasks) // 5) :]
    trials = run.config.evaluate.validation_trials
    result = live(run, method, run.suite, tasks, trials, Tracker())
    first, last = result.returns[:, 0].mean(), result.returns[:, -1].mean()
    return {"trial_1": float(first), f"trial_{trials}": float(last)}


def live(
    run: Run,
    method: Method,
    suite: TaskSuite,
    tasks: tuple[int, ...],
    trials: int,
    tracker: Tracker,
    trace: Trace | None = None,
) -> ICLResult:
    """Let a method learn in context on some tasks, all at once, with empty memories."""
    env = suite.make_vec(tasks)
    agent = Agent(
        method,
        Target(*suite.target_return),
        run.config.evaluate.rule,
        seed=run.config.seed,
        slots=len(tasks),
        autoreset_mode=env.metadata["autoreset_mode"],
        keys=tasks,
    )
    tracker.start("evaluate", total=trials)

    def note(result: ICLResult, trial: int) -> None:
        returns = result.returns[:, trial - 1]
        tracker.log(
            trial, mean_return=float(returns.mean()), tasks_rewarded=int((returns > 0).sum())
        )

    watcher = None if trace is None else trace.after_step
    result = in_context_learning(
        agent, env, trials, seed=run.config.seed, after_step=watcher, after_trial=note
    )
    tracker.finish()
    env.close()
    return result


def evaluate(run: Run, watch: Stopwatch, trace: Trace | None = None) -> Path:
    """Evaluate a trained run on its test tasks and write `icl.json`."""
    path = run.out / RESULT
    claim(run)
    if path.exists():
        return path
    if (run.out / CHOICES).exists():
        choose(run.out / CHOICES, update=lambda: None)  # as many threads as in training
    method = load_method(run)
    tracker = run.tracker()
    with watch.phase("evaluate"):
        trials = run.config.evaluate.trials
        result = live(run, method, run.suite, run.tasks[1], trials, tracker, trace)
        variants = {
            name: live(run, method, SUITES[name], run.tasks[1], trials, tracker)
            for name in run.config.evaluate.also_on
        }
    tracker.close()
    record = result_record(run, method, result, watch)
    record["variants"] = {
        name: {
            "returns": found.returns.tolist(),
            "optimum": optima(SUITES[name], run.tasks[1]),
        }
        for name, found in variants.items()
    }
    atomic_write(path, (json.dumps(record) + "\n").encode())
    return path


def load_method(run: Run) -> Method:
    """Load the trained method, or build one that learns nothing."""
    entry = METHODS[run.config.method]
    if not entry.learns:
        return entry.build(run.suite.spaces, run.config.options, run.config.seed, None)
    method, _ = load_checkpoint(run.out / CHECKPOINT)
    to_device(method, run.device)
    return method


def to_device(method: Method, device: str) -> None:
    """Move a method's networks; what they read follows them."""
    for network in method.networks.values():
        network.to(device)


def result_record(run: Run, method: Method, result: ICLResult, watch: Stopwatch) -> dict[str, Any]:
    """Put together all that `icl.json` says."""
    config, tasks = run.config, run.tasks[1]
    return {
        "experiment": "icl",
        "env": config.env,
        "method": config.method,
        "seed": config.seed,
        "budget": config.budget,
        "split": config.split,
        "tasks": list(tasks),
        "returns": result.returns.tolist(),  # [task][trial]
        "first_reward": result.first_reward.tolist(),
        "optimum": optima(run.suite, tasks),
        "score": float(late_score(result.returns).mean()),
        "found_by": found_by(result.returns).tolist(),
        "after_finding": _number(after_finding(result.returns)),
        "parameters": parameters(method),
        "action_rule": asdict(config.evaluate.rule),
        "config": config.to_json(),
        "code_version": code_version(),
        "machine": machine(),
        "wall_seconds": watch.seconds,
    }


def parameters(method: Method) -> int:
    """Count the weights of all networks."""
    return sum(
        weight.numel() for network in method.networks.values() for weight in network.parameters()
    )


def optima(suite: TaskSuite, tasks: tuple[int, ...]) -> list[float | None]:
    """Return the best possible return of each task."""
    return [suite.optimal_return(task) for task in tasks]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
