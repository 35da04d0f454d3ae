"""What is the memory's, what the counts' and what the weights': one agent, changed in one part.

The same tasks, trials and random numbers each time; nothing is trained. An agent whose memory stays
empty shows what its gains owe to the memory, one that does not count what it tried what they owe to
the counts, and one with untrained weights what looking around alone finds. An agent that does not
count by itself is lent the counts of `ra-dt+`, to tell what they would bring to another method.

    python -m radt.experiments.controls --env dark-room-10x10 --weights RUN [--out FILE]
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import ActionRule
from radt.checkpoint import load_checkpoint, untrained
from radt.decode import decode
from radt.envs.suite import SUITES, found_above
from radt.experiments.evaluate import Trials, live
from radt.experiments.provenance import machine
from radt.experiments.run import CHECKPOINT, RunError
from radt.files import atomic_write
from radt.methods import METHODS, Method
from radt.methods.exploration import ExplorationBonus
from radt.methods.method import Actor
from radt.methods.trials import RunningTrials
from radt.metrics import after_finding, crossed_interval, found_by, improvement, late_score
from radt.track import Tracker
from radt.version import code_version

COUNTS = {"count_bonus": 24.0, "revisit_penalty": 24.0}  # the weights of ra-dt+


@dataclass(frozen=True)
class Ask:
    """Whose weights are looked at, where, and where the answer goes."""

    env: str
    weights: Path  # a run's folder or a checkpoint
    out: Path = Path("controls.json")
    trials: int | None = None  # None: as many as the environment's evaluation has
    tasks: int | None = None  # the first so many of the unseen ones; None: all


def controls(method: Method, blank: Method) -> Iterator[tuple[str, Method]]:
    """Name each control and build it; `blank` is the method before its training."""
    yield "as it is", method
    if METHODS[method.name].embeds:
        yield "nothing remembered", altered(method, memory={"store_above": math.inf})
    if any(getattr(getattr(method, "options", None), name, 0.0) for name in COUNTS):
        yield "nothing counted", altered(method, options=dict.fromkeys(COUNTS, 0.0))
    else:
        yield "lent counts", cast(Method, Counting(method))
    yield "untrained", blank


class Counting:
    """A method that counts while it acts, as `ra-dt+` does, whatever it is."""

    def __init__(self, method: Method) -> None:
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def actor(self, slots: int) -> CountingActor:
        """Put the method to work, and count."""
        counts = ExplorationBonus(self._method.spaces, slots, **COUNTS)
        return CountingActor(self._method.actor(slots), counts)


class CountingActor:
    """An actor whose logits are lowered where it has tried something before."""

    def __init__(self, actor: Actor, counts: ExplorationBonus) -> None:
        self._actor, self._counts = actor, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start new tasks with nothing counted."""
        self._actor.forget(slots)
        self._counts.forget(slots)

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Predict the next action and lower what was tried, [B, action_size]."""
        return self._counts.adjust(self._actor.decide(trials, slots), trials, slots)


def altered(
    method: Method, memory: dict[str, Any] | None = None, options: dict[str, Any] | None = None
) -> Method:
    """Copy a method with some options of its own or of its memory changed, as far as it has them.

    A method of a third party may count nothing.
    """
    changed: Any = copy.copy(method)
    own = {name: to for name, to in (options or {}).items() if hasattr(changed.options, name)}
    kept = replace(changed.options.memory, **(memory or {}))
    changed.options = replace(changed.options, memory=kept, **own)
    return cast(Method, changed)


def compare_controls(ask: Ask) -> dict[str, Any]:
    """Let every control live through the same trials."""
    file = ask.weights / CHECKPOINT if ask.weights.is_dir() else ask.weights
    method, card = load_checkpoint(file)
    if card.env != ask.env:
        raise RunError(f"{file} holds {card.method} for {card.env}; give a run in {ask.env}")
    suite = SUITES[ask.env]
    tasks = suite.eval_tasks[: ask.tasks]
    rule = decode(ActionRule, card.action_rule, str(file))
    trials = Trials(suite, tasks, ask.trials or suite.trials, rule, card.seed)
    lines = [
        {"control": name, **_scores(live(each, trials, Tracker()).returns, trials)}
        for name, each in controls(method, untrained(file, card))
    ]
    return {
        "env": ask.env,
        "method": card.method,
        "weights": ask.weights.name,
        "trained_by": card.code_version,
        "seed": card.seed,
        "controls": lines,
        "machine": machine(),
        "code_version": code_version(),
    }


def _scores(returns: np.ndarray[Any, np.dtype[np.float64]], trials: Trials) -> dict[str, Any]:
    """Say what came out, with 95 % over tasks; `returns` are [task, trial]."""
    rng, above = np.random.default_rng(0), found_above(trials.suite, trials.tasks)
    score, gain = (crossed_interval(of(returns)[None], rng) for of in (late_score, improvement))
    after = after_finding(returns, above)
    return {
        "score": score.mean,
        "ci95_tasks": [score.low, score.high],
        "improvement": gain.mean,
        "improves_ci95_tasks": [gain.low, gain.high],
        "found": int(found_by(returns, above)[-1]),
        "after_finding": None if math.isnan(after) else after,
        "returns": returns.tolist(),
    }


def main(ask: Ask) -> None:
    """Compare, write what came out and print it."""
    torch.set_num_threads(1)
    record = compare_controls(ask)
    atomic_write(ask.out, (json.dumps(record) + "\n").encode())
    for line in record["controls"]:
        low, high = line["ci95_tasks"]
        print(
            f"{line['control']:<20} {line['score']:6.1f} [{low:.1f}, {high:.1f}]  improves "
            f"{line['improvement']:+.1f}  found {line['found']}"
        )


if __name__ == "__main__":
    main(tyro.cli(Ask))
