"""Choosing settings on held-out training tasks, with every try on record.

A try trains on four fifths of the training tasks and is scored on the rest; evaluation tasks are
never touched. Each score becomes one line of `results/tuning.jsonl`.

    python -m radt.runs.tuning --env dark-room-10x10 --method ra-dt+ --set learn.updates=1000
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro

from radt.agent import ActionRule
from radt.checkpoint import load_checkpoint
from radt.config import Layer, RunConfig, compose, overrides
from radt.data import Dataset
from radt.envs.suite import success_threshold
from radt.icl import ICLResult
from radt.methods import Method
from radt.metrics import return_after_success, solved_by
from radt.runs.evaluate import Trials, load_trained, roll_out, trials_of
from radt.runs.presets import preset_layers
from radt.runs.provenance import Stopwatch
from radt.runs.questions import scores
from radt.runs.run import Run, build_for, collect
from radt.runs.train import train_run
from radt.track import Tracker
from radt.version import code_version

LOG = Path("results/tuning.jsonl")


@dataclass(frozen=True)
class Try:
    """What is tried: a method with some values changed, under one or more action rules."""

    env: str
    method: str
    set: tuple[str, ...] = ()  # values that differ from the preset, as a.b=c
    rules: tuple[str, ...] = ()  # action rules as explore:exploit temperatures; none: the preset's
    weights: Path | None = None  # score these with the values changed, instead of training anew
    threads: int = 1

    @property
    def out(self) -> Path:
        """Where the try is trained, and goes on if it was stopped; other code trains anew."""
        return Path("runs/tune") / self.env / code_version() / "-".join([self.method, *self.set])


def tune(one: Try) -> None:
    """Train on the tuning split, or take trained weights, and score them under each action rule."""
    layers = preset_layers(one.env, one.method, "laptop", overrides(one.set))
    config, _ = compose([*layers, Layer("tuning", {"split": "tune"})])
    watch = Stopwatch()
    run = Run(config, one.out, threads=one.threads)
    trained = _trained(run, one.weights, watch)
    for rule in [_rule(text) for text in one.rules] or [config.evaluate.rule]:
        for place in (None, *config.evaluate.also_on):
            trials = replace(trials_of(run, place), rule=rule)
            result = roll_out(trained, trials, Tracker())
            _record(one, config, trials, place, result, watch)


def _trained(run: Run, weights: Path | None, watch: Stopwatch) -> Method:
    if weights is None:
        train_run(run, Dataset.open(collect(run.config)), watch)
        return load_trained(run)
    method, _ = load_checkpoint(weights)
    changed = build_for(run)
    for part, network in method.networks.items():
        changed.networks[part].load_state_dict(network.state_dict())
    return changed


def _rule(text: str) -> ActionRule:
    explore, exploit = text.split(":")
    return ActionRule(temperature=float(exploit), explore_temperature=float(explore))


def _record(
    one: Try,
    config: RunConfig,
    trials: Trials,
    place: str | None,
    result: ICLResult,
    watch: Stopwatch,
) -> None:
    """Append one line about one score."""
    told, above = scores(result.returns), success_threshold(trials.suite, trials.tasks) or 0.0
    found = solved_by(result.returns, above)
    line: dict[str, Any] = {
        "env": one.env,
        "method": one.method,
        "set": list(one.set),
        "weights": None if one.weights is None else one.weights.parent.name,
        "config": config.to_json(),  # the presets that `set` changes may change, too
        "tested_on": place or one.env,
        "action_rule": asdict(trials.rule),
        "score": round(told["score"], 2),
        "ci95_tasks": [round(bound, 2) for bound in told["ci95_tasks"]],
        "improvement": round(told["improvement"], 2),
        "by_trial": {str(n): round(float(result.returns[:, n - 1].mean()), 2) for n in (1, 10, 20)},
        "solved_by": {str(n): int(found[n - 1]) for n in (1, 5, 10, 20, 40) if n <= len(found)},
        "return_after_success": round(return_after_success(result.returns, above), 2),
        "tasks": len(result.returns),
        "wall_seconds": watch.seconds,
        "threads": torch.get_num_threads(),
        "code_version": code_version(),
    }
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(json.dumps(line))


if __name__ == "__main__":
    chosen = tyro.cli(Try)
    torch.set_num_threads(chosen.threads)
    tune(chosen)
