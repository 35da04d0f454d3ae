"""Evaluation: many unseen tasks at once, trial after trial, and the record of how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from radt.agent import ActionRule, Agent, Target
from radt.checkpoint import load_checkpoint
from radt.config import TRAINING_TASKS
from radt.costs import count_parameters
from radt.envs.suite import SUITES, TaskSuite, success_threshold
from radt.files import atomic_write
from radt.icl import ICLResult, Observer, in_context_learning
from radt.memory.language import flush_embeddings
from radt.memory.memory import Memory
from radt.methods import METHODS, Method
from radt.metrics import late_score, return_after_success, solved_by
from radt.runs.provenance import Stopwatch, machine, measured
from radt.runs.run import (
    CHECKPOINT,
    RESULT,
    Run,
    build_for,
    claim,
    keep_threads,
    known_tasks,
    to_device,
)
from radt.runs.trace import Trace
from radt.track import Tracker
from radt.version import code_version

MOST_VALIDATED = 20  # tasks: a look on the way must not take longer than the learning itself


@dataclass(frozen=True)
class Trials:
    """What is rolled out: which tasks, how often, under which action rule."""

    suite: TaskSuite
    tasks: tuple[int, ...]
    count: int
    rule: ActionRule
    seed: int


def roll_out(
    method: Method,
    trials: Trials,
    tracker: Tracker,
    observer: Observer | None = None,
    memory: Memory | None = None,
) -> ICLResult:
    """Let a method learn in context on some tasks at once, from empty memories or a filled one."""
    env = trials.suite.make_vec(trials.tasks)
    agent = Agent(
        method,
        Target(*trials.suite.target_return),
        trials.rule,
        seed=trials.seed,
        slots=len(trials.tasks),
        autoreset_mode=env.metadata["autoreset_mode"],
        tasks=trials.tasks,
        memory=memory,
    )
    tracker.start("evaluate", total=trials.count)

    def note(result: ICLResult, trial: int) -> None:
        returns = result.returns[:, trial - 1]
        tracker.log(
            trial, mean_return=float(returns.mean()), tasks_rewarded=int((returns > 0).sum())
        )

    watcher = None if observer is None else observer.after_step
    try:
        return in_context_learning(agent, env, trials.count, trials.seed, watcher, note)
    finally:
        tracker.finish()
        env.close()


class RollOut(Protocol):
    """Rolls out trials: `roll_out`, or a function that lets workers do it."""

    def __call__(
        self, method: Method, trials: Trials, tracker: Tracker, observer: Observer | None = None
    ) -> ICLResult:
        """Return what came of every trial."""
        ...


def evaluate_run(
    run: Run, watch: Stopwatch, trace: Trace | None = None, how: RollOut = roll_out
) -> Path:
    """Evaluate a trained run on its test tasks and write `icl.json`."""
    path = run.out / RESULT
    claim(run)
    if path.exists():
        return path
    threads = keep_threads(run) if METHODS[run.config.method].learns else None
    method = load_trained(run)
    tracker = run.tracker()
    config, trials = run.config, trials_of(run)
    with watch.phase("evaluate"):
        result = how(method, trials, tracker, trace)
        variants = {
            place: _variant(how, method, trials_of(run, place), tracker)
            for place in config.evaluate.also_on
        }
    tracker.close()
    embedded = flush_embeddings(getattr(method, "embedder", None))  # before measuring adds its own
    record = {
        "experiment": "icl",
        "label": config.label,
        "method": config.method,
        "budget": config.budget,
        "split": config.split,
        **result_record(trials, result),
        "variants": variants,
        "parameters": count_parameters(method),
        **measured(run, method),
        "context": asdict(method.context),
        "embeddings": embedded or None,
        "threads": threads,
        "config": config.to_json(),
        "wall_seconds": watch.seconds,
    }
    atomic_write(path, (json.dumps(record) + "\n").encode())
    return path


def validate(run: Run, method: Method) -> Mapping[str, float]:
    """Look at in-context learning on the last fifth of the training tasks, or the last 20 of it.

    They are held out when the run is for tuning. A final run trains on them, so there the numbers
    show only how learning goes on, not how well it generalises.
    """
    config, known = run.config.evaluate, known_tasks(run.config)
    tasks, count = known[-min(len(known) // 5, MOST_VALIDATED) :], config.validation_trials
    trials = Trials(run.suite, tasks, count, config.rule, run.config.seed)
    returns = roll_out(method, trials, Tracker()).returns
    return {
        "trial_1": float(returns[:, 0].mean()),
        f"trial_{count}": float(returns[:, -1].mean()),
    }


def trials_of(run: Run, place: str | None = None) -> Trials:
    """Return what a run is tested on: its own test tasks, or one of the places of `also_on`."""
    config, suite, (known, tasks) = run.config.evaluate, run.suite, run.tasks
    if place == TRAINING_TASKS:
        spread = np.linspace(0, len(known) - 1, min(len(tasks), len(known)))
        tasks = tuple(known[int(at)] for at in spread)
    elif place is not None:
        suite = SUITES[place]
    return Trials(suite, tasks, config.trials, config.rule, run.config.seed)


def load_trained(run: Run) -> Method:
    """Load the trained method, or build one that learns nothing."""
    if not METHODS[run.config.method].learns:
        return build_for(run)
    method, _ = load_checkpoint(run.out / CHECKPOINT)
    to_device(method, run.device)
    return method


def result_record(trials: Trials, result: ICLResult) -> dict[str, Any]:
    """Say what was rolled out, what came of it, and where."""
    returns, above = result.returns, success_threshold(trials.suite, trials.tasks)
    later = np.nan if above is None else return_after_success(returns, above)
    return {
        "env": trials.suite.name,
        "seed": trials.seed,
        "tasks": list(trials.tasks),
        "returns": returns.tolist(),  # [task][trial]
        "first_reward": result.first_reward.tolist(),
        "optimum": optima(trials),
        "score": float(late_score(returns).mean()),
        "solved_above": above,
        "solved_by": None if above is None else solved_by(returns, above).tolist(),
        "return_after_success": None if np.isnan(later) else later,
        "action_rule": asdict(trials.rule),
        "code_version": code_version(),
        "machine": machine(),
    }


def optima(trials: Trials) -> list[float | None]:
    """Return the best possible return of each task."""
    return [trials.suite.optimal_return(task) for task in trials.tasks]


def _variant(how: RollOut, method: Method, trials: Trials, tracker: Tracker) -> dict[str, Any]:
    result = how(method, trials, tracker)
    return {"returns": result.returns.tolist(), "optimum": optima(trials)}
