"""Evaluation on several workers: each loads the method and rolls out some of the tasks.

What a task brings does not depend on the tasks beside it: noise, targets and environments are drawn
by seed and task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from radt.engine import Engine, single_threaded
from radt.experiments.evaluate import RollOut, Trials, roll_out
from radt.experiments.run import RunError
from radt.icl import ICLResult, Observer
from radt.methods import Method
from radt.track import Tracker

Share = tuple[Callable[[], Method], Trials]  # what loads the method (importable), some of the tasks


def shared(engine: Engine, load: Callable[[], Method]) -> RollOut:
    """Return a way to roll out trials that deals the tasks out to an engine's workers."""
    return roll_out if engine.workers == 1 else partial(_roll_out_on, engine, load)


def _roll_out_on(
    engine: Engine,
    load: Callable[[], Method],
    method: Method,
    trials: Trials,
    tracker: Tracker,
    observer: Observer | None = None,
) -> ICLResult:
    """Roll out all shares and put what came of them in the order of the tasks."""
    if observer is not None:
        raise RunError("one process writes a trace: leave out --trace, or --engine and --workers")
    shares = [(load, replace(trials, tasks=tasks)) for tasks in _dealt(trials.tasks, engine)]
    told: dict[int, dict[str, Any]] = {}
    tracker.start("evaluate", total=len(shares))
    try:
        for place, result in engine.map(_roll_out_share, shares):
            told[place] = result
            tracker.advance(len(told), f"{len(told)} of {len(shares)} shares")
    finally:
        tracker.finish()
    parts = [told[place] for place in range(len(shares))]
    returns, first_reward = (
        np.concatenate([np.array(part[name]) for part in parts])  # [task, trial]
        for name in ("returns", "first_reward")
    )
    return ICLResult(returns, first_reward)


def _dealt(tasks: tuple[int, ...], engine: Engine) -> list[tuple[int, ...]]:
    """Cut the tasks into as many shares as there are workers, of nearly equal size."""
    parts = np.array_split(np.array(tasks), min(engine.workers, len(tasks)))
    return [tuple(part.tolist()) for part in parts]


def _roll_out_share(share: Share) -> Iterator[dict[str, Any]]:
    """Roll out the tasks of one share, with one thread."""
    load, trials = share
    with single_threaded():
        result = roll_out(load(), trials, Tracker())
    yield {"returns": result.returns.tolist(), "first_reward": result.first_reward.tolist()}
