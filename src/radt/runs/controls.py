"""Control experiments: one agent with an empty memory, without exploration bonus, or untrained.

The same tasks, trials and random numbers each time; nothing is trained. A method that has no
exploration bonus is given that of `ra-dt+`, to tell what it would bring to others.

    python -m radt.runs.controls --env dark-room-10x10 --weights RUN [--out FILE]
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from radt.checkpoint import untrained
from radt.envs.suite import success_threshold
from radt.errors import RunError
from radt.methods import Method
from radt.methods.exploration import ExplorationBonus
from radt.methods.method import Actor
from radt.methods.trials import RunningTrials
from radt.metrics import return_after_success, solved_by
from radt.runs.evaluate import roll_out
from radt.runs.questions import read_weights, scores, weights_file, write_answer
from radt.track import Tracker

COUNTS = {"count_bonus": 24.0, "revisit_penalty": 24.0}  # the weights of ra-dt+


def controls(method: Method, blank: Method) -> Iterator[tuple[str, Method]]:
    """Name each control and build it; `blank` is the method before its training."""
    yield "as it is", method
    if hasattr(method, "embedder"):
        yield "nothing remembered", altered(method, memory={"store_above": math.inf})
    if any(getattr(getattr(method, "options", None), name, 0.0) for name in COUNTS):
        yield "nothing counted", altered(method, options=dict.fromkeys(COUNTS, 0.0))
    else:
        yield "with exploration bonus", cast(Method, Counting(method))
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


def main(
    env: str,
    weights: Path,
    out: Path = Path("controls.json"),
    trials: int | None = None,
    tasks: int | None = None,
) -> None:
    """Let every control roll out the same trials, write what came out and print it.

    Args:
        env: where the weights were trained.
        weights: a run's folder or a checkpoint.
        out: where the answer goes.
        trials: of each task; usually as many as the environment's evaluation has.
        tasks: the first so many of the unseen ones; usually all.
    """
    torch.set_num_threads(1)
    method, card, usual = read_weights(weights, trials)
    if card.env != env:
        raise RunError(f"{weights} holds {card.method} for {card.env}; give a run in {env}")
    rolled = replace(usual, tasks=usual.tasks[:tasks])
    lines = []
    for name, each in controls(method, untrained(weights_file(weights), card)):
        returns = roll_out(each, rolled, Tracker()).returns  # [task, trial]
        above = success_threshold(rolled.suite, rolled.tasks) or 0.0
        after = return_after_success(returns, above)
        found = int(solved_by(returns, above)[-1])
        line = {"control": name, **scores(returns, np.random.default_rng(0)), "found": found}
        lines.append({**line, "return_after_success": None if math.isnan(after) else after})
        low, high = line["ci95_tasks"]
        print(
            f"{name:<20} {line['score']:6.1f} [{low:.1f}, {high:.1f}]  improves "
            f"{line['improvement']:+.1f}  found {found}"
        )
    record = {
        "env": env,
        "method": card.label or card.method,
        "weights": weights.name,
        "seed": card.seed,
    }
    write_answer(out, {**record, "trained_by": card.code_version, "controls": lines})


if __name__ == "__main__":
    tyro.cli(main)
