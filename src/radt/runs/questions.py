"""What questions to trained weights share: the weights and their trials, scores, and the answer.

Nothing is trained. Each question is a module of its own with a `main`, to be run by `python -m`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.agent import ActionRule
from radt.checkpoint import Card, load_checkpoint
from radt.decode import decode
from radt.envs.suite import SUITES
from radt.files import atomic_write
from radt.methods import Method
from radt.metrics import crossed_interval, improvement, late_score
from radt.runs.evaluate import Trials
from radt.runs.provenance import machine
from radt.runs.run import CHECKPOINT
from radt.version import code_version


def weights_file(place: Path) -> Path:
    """Return the checkpoint that a run's folder or a path stands for."""
    return place / CHECKPOINT if place.is_dir() else place


def read_weights(place: Path, trials: int | None = None) -> tuple[Method, Card, Trials]:
    """Load a run or a checkpoint, and say what its evaluation rolls out on unseen tasks."""
    file = weights_file(place)
    method, card = load_checkpoint(file)
    suite, rule = SUITES[card.env], decode(ActionRule, card.action_rule, str(file))
    count = trials or suite.trials
    return method, card, Trials(suite, suite.eval_tasks, count, rule, card.seed)


def scores(returns: NDArray[np.float64], rng: int | np.random.Generator = 0) -> dict[str, Any]:
    """Say what came out, with 95 % over tasks; `returns` are [task, trial]."""
    score, gain = (
        crossed_interval(of(returns)[None], np.random.default_rng(rng))
        for of in (late_score, improvement)
    )
    return {
        "score": score.mean,
        "ci95_tasks": [score.low, score.high],
        "improvement": gain.mean,
        "improves_ci95_tasks": [gain.low, gain.high],
        "returns": returns.tolist(),
    }


def write_answer(out: Path, record: dict[str, Any]) -> None:
    """Write a record with where it comes from."""
    record = {**record, "machine": machine(), "code_version": code_version()}
    atomic_write(out, (json.dumps(record, indent=1) + "\n").encode())
