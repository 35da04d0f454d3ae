"""Questions to trained weights: where they lie, what they roll out, and how answers are kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from radt.agent import ActionRule
from radt.checkpoint import Card, load_checkpoint
from radt.decode import decode
from radt.envs.suite import SUITES, success_threshold
from radt.experiments.experiment import Weights
from radt.files import atomic_write
from radt.methods import Method
from radt.methods.exploration import exploration_of, with_exploration
from radt.runs.belonging import check_checkpoint
from radt.runs.compare import read_config
from radt.runs.evaluate import optima, trials_of
from radt.runs.provenance import machine
from radt.runs.roll_out import Trials
from radt.runs.run import CHECKPOINT, Run, carried_target
from radt.version import code_version


def weights_file(place: Path) -> Path:
    """Return the checkpoint that a run's folder or a path stands for."""
    return place / CHECKPOINT if place.is_dir() else place


def opened(weights: Weights, most: int | None = None) -> tuple[Method, Card, Trials]:
    """Load weights and say what they roll out on unseen tasks, at most so many trials."""
    file = weights_file(weights.place)
    method, card = load_checkpoint(file)
    usual = usual_trials(weights.place, card, decode(ActionRule, card.action_rule, str(file)))
    count = usual.count if most is None else min(most, usual.count)
    return method, card, replace(usual, count=count)


def usual_trials(place: Path, card: Card, rule: ActionRule) -> Trials:
    """Say what weights roll out on unseen tasks: as their run does, or as their suite says."""
    if (place / "config.json").is_file():
        run = Run(read_config(place), place)
        check_checkpoint(run, card)
        return trials_of(run)
    suite, target = SUITES[card.env], carried_target(card)
    return Trials(suite, suite.eval_tasks, suite.trials, rule, card.seed, target=target)


def about(one: Weights, card: Card, trials: Trials) -> dict[str, Any]:
    """Say of which weights and tasks an answer is."""
    return {
        "env": card.env,
        "label": one.label,
        "method": card.method,
        "seed": card.seed,
        "trained_by": card.code_version,
        "tasks": list(trials.tasks),
        "optimum": optima(trials),
        "success_above": success_threshold(trials.suite, trials.tasks),
    }


def remembering(method: Method, changes: Mapping[str, Any]) -> Method:
    """Copy a method with other values of its memory."""
    if not changes:
        return method
    plain, exploration = exploration_of(method)
    changed: Any = copy.copy(plain)
    memory = replace(changed.options.memory, **changes)
    changed.options = replace(changed.options, memory=memory)
    return with_exploration(cast(Method, changed), exploration)


def write_answer(out: Path, record: dict[str, Any]) -> None:
    """Write a record with where it comes from."""
    record = {**record, "machine": machine(), "code_version": code_version()}
    atomic_write(out, (json.dumps(record, indent=1) + "\n").encode())
