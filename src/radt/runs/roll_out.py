"""Rolling out trials: a method learns in context on tasks, under an action rule and a control.

Several workers may do it: each loads the method and rolls out some of the tasks. What a task brings
does not depend on the tasks beside it: noise, targets and environments are drawn by seed and task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from radt.action_rules import ActionRule
from radt.agent import Agent, Target
from radt.engine import Engine, single_threaded
from radt.envs.suite import TaskSuite
from radt.errors import RunError
from radt.icl import ICLResult, Observer, in_context_learning
from radt.memory.demonstrations import from_oracle
from radt.memory.memory import Memory
from radt.methods import Method
from radt.methods.controls import apply_control
from radt.track import Tracker

RESULTS = ("returns", "first_reward", "success")  # of every task and trial


@dataclass(frozen=True)
class Trials:
    """What is rolled out: which tasks, how often, under which action rule and control."""

    suite: TaskSuite
    tasks: tuple[int, ...]
    count: int
    rule: ActionRule
    seed: int
    control: str | None = None  # a name in CONTROLS
    target: Target | None = None  # what is aimed at; None: the suite's target, for every task
    title: str = field(default="evaluate", compare=False)  # what progress and logs call it


def roll_out(
    method: Method,
    trials: Trials,
    tracker: Tracker,
    observer: Observer | None = None,
    memory: Memory | None = None,
) -> ICLResult:
    """Let a method learn in context on some tasks at once, from empty memories or a filled one."""
    if trials.control == "oracle":
        memory = demonstrated(method, trials)
    env = trials.suite.make_vec(trials.tasks)
    agent = Agent(
        method,
        trials.target or Target(*trials.suite.target_return),
        trials.rule,
        seed=trials.seed,
        slots=len(trials.tasks),
        autoreset_mode=env.metadata["autoreset_mode"],
        tasks=trials.tasks,
        memory=memory,
    )
    if trials.control is not None:
        apply_control(trials.control, agent.actor, trials.tasks, trials.seed)
    tracker.start(trials.title, total=trials.count)

    def note(result: ICLResult, trial: int) -> None:
        returns = result.returns[:, trial - 1]
        tracker.log(
            trial, mean_return=float(returns.mean()), tasks_rewarded=int((returns > 0).sum())
        )

    watcher = None if observer is None else observer.after_step
    try:
        return in_context_learning(agent, env, trials.count, trials.seed, watcher, note)
    finally:
        tracker.finish()
        env.close()


def demonstrated(method: Method, trials: Trials) -> Memory:
    """Fill a memory with an expert's episode of each task."""
    own = method.actor(1).memory
    if own is None:
        raise RunError(f"{method.name} has no memory to show an expert's episode in")
    memory = own.at("ram:")
    for task in trials.tasks:
        memory.write(from_oracle(trials.suite, task, 1, trials.seed))
    return memory


class RollOut(Protocol):
    """Rolls out trials: `roll_out`, or a function that lets workers do it."""

    def __call__(
        self, method: Method, trials: Trials, tracker: Tracker, observer: Observer | None = None
    ) -> ICLResult:
        """Return what came of every trial."""


def shared(engine: Engine | None, load: Callable[[], Method]) -> RollOut:
    """Return a way to roll out trials that deals the tasks out to an engine's workers.

    Each of them gets the method from `load`, which must be importable.
    """
    if engine is None or engine.workers == 1:
        return roll_out
    return partial(_roll_out_on, engine, load)


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
