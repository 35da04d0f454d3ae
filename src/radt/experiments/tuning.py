"""Choosing settings on held-out training tasks, with every try on record.

A tuning run trains on four fifths of the training tasks and is scored on the rest; the evaluation
tasks are never touched. Each run becomes one line of `results/tuning.jsonl`.

    python -m radt.experiments.tuning dark-room-10x10 ra-dt+ options.best_fraction=0.4
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.agent import ActionRule
from radt.config import Layer, compose, overrides
from radt.data import Dataset
from radt.envs.suite import SUITES
from radt.experiments.presets import preset_layers
from radt.experiments.provenance import Stopwatch, code_version
from radt.experiments.run import Run, collect, live, load_method, train
from radt.icl import ICLResult
from radt.metrics import after_finding, found_by, improvement, late_score, nested_interval
from radt.track import Tracker

LOG = Path("results/tuning.jsonl")


def tune(env: str, method: str, sets: list[str], rules: list[ActionRule], out: Path) -> None:
    """Train once on the tuning split and score it under each action rule."""
    layers = [*preset_layers(env, method, "laptop"), overrides(sets)]
    config, _ = compose([*layers, Layer("tuning", {"split": "tune"})])
    watch = Stopwatch()
    run = Run(config, out, threads=torch.get_num_threads())
    dataset = Dataset.open(collect(config))
    train(run, dataset, watch)
    trained = load_method(run)
    for rule in rules or [config.evaluate.rule]:
        ruled, _ = compose(
            [*layers, Layer("rule", {"split": "tune", "evaluate": {"rule": asdict(rule)}})]
        )
        for name in (env, *config.evaluate.also_on):
            trial = Run(ruled, out)
            tested = run.tasks[1]
            result = live(trial, trained, SUITES[name], tested, config.evaluate.trials, Tracker())
            _record(env, method, sets, name, rule, result, watch)


def _record(
    env: str,
    method: str,
    sets: list[str],
    tested_on: str,
    rule: ActionRule,
    result: ICLResult,
    watch: Stopwatch,
) -> None:
    """Append one line about one score."""
    score = nested_interval(late_score(result.returns)[None], np.random.default_rng(0))
    line: dict[str, Any] = {
        "env": env,
        "method": method,
        "set": sets,
        "tested_on": tested_on,
        "action_rule": asdict(rule),
        "score": round(score.mean, 2),
        "ci95_tasks": [round(score.low, 2), round(score.high, 2)],
        "improvement": round(float(improvement(result.returns).mean()), 2),
        "by_trial": {str(n): round(float(result.returns[:, n - 1].mean()), 1) for n in (1, 10, 20)},
        "found_by": {str(n): int(found_by(result.returns)[n - 1]) for n in (1, 5, 10, 20, 40)},
        "after_finding": round(after_finding(result.returns), 2),
        "tasks": len(result.returns),
        "wall_seconds": watch.seconds,
        "threads": torch.get_num_threads(),
        "code_version": code_version(),
    }
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line))


def main(arguments: list[str]) -> None:
    """Run one try: environment, method, `a.b=c` ..., and rules as `rule=explore:exploit`."""
    env, method, *rest = arguments
    sets = [text for text in rest if not text.startswith(("rule=", "name=", "threads="))]
    named = dict(text.split("=", 1) for text in rest if text.startswith(("name=", "threads=")))
    pairs = [text[5:].split(":") for text in rest if text.startswith("rule=")]
    rules = [ActionRule(float(exploit), float(explore)) for explore, exploit in pairs]
    torch.set_num_threads(int(named.get("threads", "1")))
    tune(env, method, sets, rules, Path("runs/tune") / named.get("name", "-".join([method, *sets])))


if __name__ == "__main__":
    main(sys.argv[1:])
