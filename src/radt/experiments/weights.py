"""Questions to trained weights: where they lie, what they roll out, and how answers are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from radt.agent import ActionRule
from radt.checkpoint import Card, load_checkpoint
from radt.config import Budget
from radt.decode import decode
from radt.envs.suite import SUITES
from radt.experiments.experiment import Weights
from radt.files import atomic_write
from radt.methods import Method
from radt.runs.compare import read_config
from radt.runs.evaluate import Trials, trials_of
from radt.runs.provenance import machine
from radt.runs.run import CHECKPOINT, Run
from radt.version import code_version

SHIPPED = Path(__file__).parents[1] / "weights"
SHIPPED_ROW = ("ra-dt+", "laptop")  # label and budget


def weights_file(place: Path) -> Path:
    """Return the checkpoint that a run's folder or a path stands for."""
    return place / CHECKPOINT if place.is_dir() else place


def find_weights(env: str, label: str, budget: Budget, *folders: Path) -> Weights | None:
    """Look for trained weights: in a run's folders, then among those that come with radt."""
    for folder in folders:
        if (folder / CHECKPOINT).is_file():
            return Weights(env, label, folder)
    shipped = SHIPPED / f"{env}.safetensors"
    fits = (label, budget) == SHIPPED_ROW and shipped.is_file()
    return Weights(env, label, shipped) if fits else None


def opened(weights: Weights, most: int | None = None) -> tuple[Method, Card, Trials]:
    """Load weights and say what they roll out on unseen tasks, at most so many trials."""
    file = weights_file(weights.place)
    method, card = load_checkpoint(file)
    if (weights.place / "config.json").is_file():
        usual = trials_of(Run(read_config(weights.place), weights.place))
    else:
        suite, rule = SUITES[card.env], decode(ActionRule, card.action_rule, str(file))
        usual = Trials(suite, suite.eval_tasks, suite.trials, rule, card.seed)
    count = usual.count if most is None else min(most, usual.count)
    return method, card, replace(usual, count=count)


def write_answer(out: Path, record: dict[str, Any]) -> None:
    """Write a record with where it comes from."""
    record = {**record, "machine": machine(), "code_version": code_version()}
    atomic_write(out, (json.dumps(record, indent=1) + "\n").encode())
