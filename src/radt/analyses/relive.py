"""The trials of a run once more, with somebody looking on.

An agent draws its noise from its seed, its task and its trial, so what is lived through here is
what was measured, as far as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.agent import Agent
from radt.envs.suite import DrawnSuite, found_above
from radt.experiments.evaluate import Trials, live
from radt.experiments.run import RunError
from radt.icl import Observer
from radt.methods import Method
from radt.track import Tracker
from radt.trajectory import Trajectory


@dataclass(frozen=True)
class Lives:
    """All trials that a method lived through, task by task."""

    method: str
    trials: Trials
    episodes: tuple[tuple[Trajectory, ...], ...]  # [task][trial]

    @property
    def returns(self) -> NDArray[np.float64]:
        """What every trial earned, [task, trial]."""
        return np.array([[trial.total_return for trial in task] for task in self.episodes])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Which trials found what their task is about, as scores count it, [task, trial]."""
        return np.asarray(self.returns > found_above(self.trials.suite, self.trials.tasks))


def relive(
    method: Method, trials: Trials, tracker: Tracker | None = None, *others: Observer
) -> Lives:
    """Live through trials, write them down, and let others look on."""
    recorder = Recorder(trials.count)
    live(method, trials, tracker or Tracker(), Together((recorder, *others)))
    return Lives(method.name, trials, recorder.episodes(trials.tasks))


@dataclass(frozen=True)
class Together:
    """Several observers as one."""

    observers: Sequence[Observer]

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Let each of them look."""
        for observer in self.observers:
            observer.after_step(step, agent, obs, rewards)


class Recorder:
    """Writes down what every slot sees, does and earns."""

    def __init__(self, count: int) -> None:
        """Record the first `count` trials of each slot."""
        self.count = count
        self._steps: list[tuple[NDArray[Any], ...]] = []  # counts, trial, state, action, reward

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Write down one step of every slot."""
        running = agent.trials
        counts = agent.is_acting & (running.trial < self.count)
        now = np.where(counts, running.step, 0)
        states = running.states[np.arange(agent.slots), now]
        self._steps.append((counts, running.trial.copy(), states, agent.actions, rewards.copy()))

    def episodes(self, tasks: Sequence[int]) -> tuple[tuple[Trajectory, ...], ...]:
        """Cut what was written into trials, [task][trial]."""
        columns = [np.stack(column) for column in zip(*self._steps, strict=True)]  # [N, slots, ...]
        counts, others = columns[0], columns[1:]
        return tuple(
            _cut(task, *(column[counts[:, slot], slot] for column in others))
            for slot, task in enumerate(tasks)
        )


def _cut(
    task: int,
    trial: NDArray[np.int64],
    states: NDArray[Any],
    actions: NDArray[Any],
    rewards: NDArray[Any],
) -> tuple[Trajectory, ...]:
    """Cut the steps of one task [N] where a new trial begins."""
    where = np.flatnonzero(np.diff(trial)) + 1
    parts = (np.split(column, where) for column in (states, actions, rewards.astype(np.float32)))
    return tuple(
        Trajectory(seen, done, earned, task, number)
        for number, (seen, done, earned) in enumerate(zip(*parts, strict=True))
    )


def drawable(trials: Trials) -> DrawnSuite:
    """Return the suite as one that can be drawn, or refuse it."""
    if not isinstance(trials.suite, DrawnSuite):
        raise RunError(
            f"this analysis looks at the cells of a room, which {trials.suite.name} has not; it "
            "works where `radt demo` draws, such as dark-room-10x10"
        )
    return trials.suite


def cells(suite: DrawnSuite, episode: Trajectory) -> NDArray[np.int64]:
    """Return the cell (row, column) of every state of an episode, [T, 2]."""
    return np.array(suite.view(episode.task, episode.states, episode.rewards[:-1]).trail)
