"""A data source: from records of your own to the learning histories that methods learn from.

To make it yours, let `episodes_of` read your records. Files that radt knows need no code, see the
sources `npz` and `minari` in docs/own-dataset.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radt.collect import SOURCES, Forecast, Recorded, Request, SourceEntry
from radt.data import History
from radt.envs import TaskSuite
from radt.memory.demonstrations import from_oracle
from radt.trajectory import Trajectory

NAME = "template"  # what `--set source=` calls it


@dataclass(frozen=True)
class RecordOptions:
    """1. Options, set as collect.episodes."""

    seed: int = 0  # of the dataset
    tasks: int = 20  # the first training tasks of the suite
    episodes: int = 10  # of each task


def episodes_of(suite: TaskSuite, task: int, options: RecordOptions) -> Iterator[Trajectory]:
    """2. Return a task's episodes, the first one first: here an oracle acts, ever more surely.

    One of yours is Trajectory(states, actions, rewards, task, age), `age` counting from 0.
    """
    for age, noise in enumerate(np.linspace(0.9, 0.0, options.episodes)):
        yield from from_oracle(suite, task, episodes=1, seed=options.seed + age, noise=float(noise))


def history_of(suite: TaskSuite, task: int, options: RecordOptions) -> History:
    """Lay a task's episodes one after the other; radt checks every value of them."""
    episodes = list(episodes_of(suite, task, options))
    lengths = np.array([len(episode) for episode in episodes], np.int32)
    names = ("states", "actions", "rewards")
    steps = {name: np.concatenate([getattr(one, name) for one in episodes]) for name in names}
    return History(task, **steps, lengths=lengths)


def record(request: Request) -> Recorded:
    """Return the histories of training tasks; it is called once for a dataset."""
    suite, options = request.suite, request.options
    return Recorded(history_of(suite, task, options) for task in suite.train_tasks[: options.tasks])


def forecast(suite: TaskSuite, options: RecordOptions) -> Forecast:
    """3. Estimate how much it is and how long it takes, for `--dry-run`."""
    tasks = min(options.tasks, len(suite.train_tasks))
    return Forecast(tasks, tasks * options.episodes * suite.spaces.horizon, seconds=2.0)


SOURCES.register(NAME, SourceEntry(RecordOptions, record, forecast))
