"""Evaluation: many unseen tasks at once, trial after trial, and the record of how it went.

Beside the method itself, the same weights are evaluated under further action rules and under
controls, with the same tasks and random numbers. A killed evaluation goes on with what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from radt.action_rules import named_rule, rule_name
from radt.checkpoint import load_checkpoint
from radt.config import TRAINING_TASKS
from radt.costs import count_parameters
from radt.data import Dataset
from radt.data.manifest import MANIFEST
from radt.data.stats import mean_and_best
from radt.decode import decode, read_json
from radt.envs.suite import SUITES, scoring_of, splits_of, success_threshold
from radt.files import atomic_write
from radt.methods import METHODS, Method
from radt.metrics import late_score, return_after_success, solved_by
from radt.registry import plugins_behind
from radt.runs.belonging import check_checkpoint
from radt.runs.evaluations import (
    MAIN,
    Parts,
    evaluate_all,
    evaluations,
    rules_and_controls,
    weights_stamp,
)
from radt.runs.provenance import Stopwatch, machine, measured
from radt.runs.roll_out import RollOut, Trials, roll_out
from radt.runs.run import (
    CHECKPOINT,
    FURTHER,
    RESULT,
    Run,
    build_for,
    claim,
    dataset_path,
    keep_threads,
    known_tasks,
    target_of,
    to_device,
)
from radt.runs.trace import Trace
from radt.track import Tracker
from radt.version import code_version

PARTS = "evaluations"  # a folder of the run, while it is evaluated
MOST_VALIDATED = 20  # tasks: a look on the way must not take longer than the learning itself


def evaluate_run(
    run: Run, watch: Stopwatch, trace: Trace | None = None, how: RollOut = roll_out
) -> Path:
    """Evaluate a trained run on its test tasks and write `icl.json`."""
    path = run.out / RESULT
    claim(run)
    if path.exists() and not lacking(run, path):
        return path
    threads = keep_threads(run) if METHODS[run.config.method].learns else None
    method = load_trained(run)
    config, trials = run.config, trials_of(run)
    rules = {name: named_rule(name, config.method) for name in config.evaluate.rules}
    asked = evaluations(method, trials, rules, config.evaluate.controls)
    places = {f"on-{place}": trials_of(run, place) for place in config.evaluate.also_on}
    parts = Parts(run.out / PARTS, weights_stamp(run.out / CHECKPOINT))
    with watch.phase("evaluate"), closing(run.tracker()) as tracker:
        told = evaluate_all(method, {**asked, **places}, parts, how, tracker, trace)
    record = {
        "experiment": "icl",
        "label": config.label or config.method,
        "method": config.method,
        "budget": config.budget,
        "split": config.split,
        **result_record(config.method, asked, told),
        "variants": {
            name.removeprefix("on-"): {
                "returns": told[name]["returns"],
                "optimum": optima(there),
                "scoring": scoring_record(there),
            }
            for name, there in places.items()
        },
        "data": returns_of_data(run),
        "parameters": count_parameters(method),
        **measured(run, method),
        "context": asdict(method.context),
        "embeddings": told[MAIN]["embeddings"],
        "threads": threads,
        "config": config.to_json(),
        "plugins": plugins_behind(config.names),
        "wall_seconds": watch.seconds,
    }
    atomic_write(path, (json.dumps(record) + "\n").encode())
    parts.close()
    return path


def lacking(run: Run, path: Path) -> bool:
    """Tell whether a record lacks evaluations that its weights, still there, can answer."""
    if not (run.out / CHECKPOINT).exists():
        return False
    try:
        config = read_json(path, dict[str, Any], "")["config"]
        before = decode(dict[str, Any], config["evaluate"])
        known = {name for part in FURTHER for name in before.get(part, ())}
    except (ValueError, LookupError, TypeError):  # whoever reads it next says that it is damaged
        return False
    return not known >= {name for part in FURTHER for name in getattr(run.config.evaluate, part)}


def returns_of_data(run: Run) -> dict[str, float] | None:
    """Return the mean and the best return of what was learned from, unless it is gone."""
    folder = dataset_path(run.config)
    if not METHODS[run.config.method].learns_from_data or not (folder / MANIFEST).is_file():
        return None
    mean, best = mean_and_best(Dataset.open(folder, run.tasks[0], in_memory=False).episodes)
    return {"mean_return": mean, "best_return": best}


def validate(run: Run, method: Method) -> Mapping[str, float]:
    """Look at in-context learning on the last fifth of the training tasks, or the last 20 of it.

    They are held out when the run is for tuning. A final run trains on them, so there the numbers
    show only how learning goes on, not how well it generalises.
    """
    config, known = run.config.evaluate, known_tasks(run.config)
    tasks, count = known[-min(len(known) // 5, MOST_VALIDATED) :], config.validation_trials
    target = target_of(run)
    trials = Trials(run.suite, tasks, count, config.rule, run.config.seed, target=target)
    returns = roll_out(method, trials, Tracker()).returns
    return {
        "trial_1": float(returns[:, 0].mean()),
        f"trial_{count}": float(returns[:, -1].mean()),
    }


def trials_of(run: Run, place: str | None = None) -> Trials:
    """Return what a run is tested on: its own test tasks, or one of the places of `also_on`."""
    config, suite, (known, tasks) = run.config.evaluate, run.suite, run.tasks
    splits = splits_of(suite)
    if place in (TRAINING_TASKS, "train"):
        spread = np.linspace(0, len(known) - 1, min(len(tasks), len(known)))
        tasks = tuple(known[int(at)] for at in spread)
    elif place in splits:
        tasks = splits[place]
    elif place is not None:
        suite = SUITES[place]
    trials = Trials(
        suite, tasks, config.trials, config.rule, run.config.seed, target=target_of(run)
    )
    return trials if place is None else replace(trials, title=f"evaluate on {place}")


def load_trained(run: Run) -> Method:
    """Load the trained method, or build one that learns nothing."""
    if not METHODS[run.config.method].learns:
        return build_for(run)
    method, card = load_checkpoint(run.out / CHECKPOINT)
    check_checkpoint(run, card)
    to_device(method, run.device)
    return method


def result_record(
    method: str, asked: Mapping[str, Trials], told: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Say what was rolled out, what came of it, and where; and of rules and controls beside it."""
    trials, main = asked[MAIN], told[MAIN]
    returns = np.asarray(main["returns"], np.float64)  # [task, trial]
    above = success_threshold(trials.suite, trials.tasks)
    later = np.nan if above is None else return_after_success(returns, above)
    return {
        "env": trials.suite.name,
        "seed": trials.seed,
        "tasks": list(trials.tasks),
        "returns": main["returns"],  # [task][trial]
        "first_reward": main["first_reward"],
        "success": main.get("success"),  # [task][trial]; None: the environment does not say
        "optimum": optima(trials),
        "score": float(late_score(returns).mean()),
        "scoring": scoring_record(trials),
        "solved_above": above,
        "solved_by": None if above is None else solved_by(returns, above).tolist(),
        "return_after_success": None if np.isnan(later) else later,
        "action_rule": asdict(trials.rule),
        "code_version": code_version(),
        "machine": machine(),
        "rule": rule_name(trials.rule, method),
        **rules_and_controls(asked, told),
    }


def scoring_record(trials: Trials) -> dict[str, Any] | None:
    """Say between which returns of each task a score is normalised; None: it is not."""
    scoring = scoring_of(trials.suite)
    if not all(task in scoring.low and task in scoring.high for task in trials.tasks):
        return None
    low, high = ([ends[task] for task in trials.tasks] for ends in (scoring.low, scoring.high))
    return {"kind": scoring.kind, "low": low, "high": high}


def optima(trials: Trials) -> list[float | None]:
    """Return the best possible return of each task."""
    return [trials.suite.optimal_return(task) for task in trials.tasks]
