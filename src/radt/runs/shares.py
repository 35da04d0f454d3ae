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
from radt.icl import ICLResult, Observer
from radt.methods import Method
from radt.runs.evaluate import RollOut, Trials, roll_out
from radt.runs.run import RunError
from radt.track import Tracker

RESULTS = ("returns", "first_reward", "success")  # of every task and trial


def shared(engine: Engine, load: Callable[[], Method]) -> RollOut:
    """Return a way to roll out trials that deals the tasks out to an engine's workers.

    Each of them gets the method from `load`, which must be importable.
    """
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
    if trials.control == "other-task":  # which task the other one is depends on the tasks beside it
        return roll_out(method, trials, tracker)
    parts = np.array_split(np.array(trials.tasks), min(engine.workers, len(trials.tasks)))
    shares = [replace(trials, tasks=tuple(part.tolist())) for part in parts]
    told: dict[int, dict[str, Any]] = {}
    tracker.start(trials.title, total=len(shares))
    try:
        for place, result in engine.map(partial(_roll_out_share, load), shares):
            told[place] = result
            tracker.advance(len(told), f"{len(told)} of {len(shares)} shares")
    finally:
        tracker.finish()
    returns, first_reward, success = (
        np.concatenate([np.array(told[place][name]) for place in sorted(told)])  # [task, trial]
        for name in RESULTS
    )
    return ICLResult(returns, first_reward, success)


def _roll_out_share(load: Callable[[], Method], trials: Trials) -> Iterator[dict[str, Any]]:
    with single_threaded():
        result = roll_out(load(), trials, Tracker())
    yield {name: getattr(result, name).tolist() for name in RESULTS}
