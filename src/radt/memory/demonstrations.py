"""Trajectories to fill a memory with before an agent's first trial: the paper's future work.

They come from a dataset, a file of a user's own, an environment that knows optimal actions, or a
recording of what anybody does in a Gymnasium environment.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from radt.data.foreign import read_arrays
from radt.data.manifest import DataError
from radt.data.reader import Dataset
from radt.envs.suite import Guide, Oracle, TaskSuite
from radt.memory.identity import (
    BadTrajectoryError,
    MemoryMismatchError,
    StoreError,
    check_trajectories,
)
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory

ARRAYS = ("states", "actions", "rewards", "lengths")  # of a file; `tasks` may be there, too


class SourceError(StoreError):
    """Demonstrations that cannot be read."""


def from_dataset(
    dataset: Dataset, spaces: TaskSpaces, tasks: Collection[int] | None, best: int | None
) -> list[Trajectory]:
    """Read the episodes of some tasks, or the `best` ones of each by return, in order."""
    if dataset.spaces != spaces:
        raise MemoryMismatchError(
            f"the dataset of {dataset.manifest.env} has other spaces ({dataset.spaces}) than the "
            f"memory ({spaces}); give a dataset of the environment that the agent was trained for"
        )
    chosen = dataset if tasks is None else dataset.select(tasks)
    return [chosen.trajectory(row) for row in _best_rows(chosen, best)]


def _best_rows(dataset: Dataset, best: int | None) -> list[int]:
    """Return rows of episodes in order, of each task those with the highest returns."""
    if best is None:
        return list(range(len(dataset)))
    if best < 1:
        raise SourceError(f"the best episodes of a task are 1 or more, not {best}")
    rows: list[int] = []
    for task in dataset.tasks:
        own = np.flatnonzero(dataset.episodes.task == task)
        order = np.argsort(-dataset.episodes.total_return[own], kind="stable")  # ties: oldest first
        rows += sorted(own[order[:best]].tolist())
    return rows


def from_npz(path: Path, spaces: TaskSpaces) -> list[Trajectory]:
    """Read episodes that lie one after the other in the arrays of an .npz file.

    `states` [N, ...], `actions` [N, ...], `rewards` [N], `lengths` [E] of the episodes and, where
    they are of several tasks, `tasks` [E].
    """
    arrays = _read_arrays(path)
    lengths, count = arrays["lengths"], len(arrays["rewards"])
    tasks = arrays.get("tasks", np.zeros(len(lengths), np.int64))
    for name, values in (("lengths", lengths), ("tasks", tasks)):
        if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) != len(lengths):
            raise SourceError(f"{path}: {name} must be one whole number for each episode")
    if (lengths < 1).any() or int(lengths.sum()) != count:
        raise SourceError(
            f"{path}: lengths must be 1 or more and make up the {count} steps, not {lengths.sum()}"
        )
    ends = np.cumsum(lengths)[:-1]
    steps = [np.split(arrays[name], ends) for name in ("states", "actions", "rewards")]
    ages: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
    found = []
    for task, states, actions, rewards in zip(tasks.tolist(), *steps, strict=True):
        age = next(ages[task])
        try:
            found.append(Trajectory(states, actions, rewards.astype(np.float32), task, age))
        except (TypeError, ValueError) as error:
            raise SourceError(f"{path}: episode {age} of task {task}: {error}") from error
    try:
        check_trajectories(found, spaces)
    except BadTrajectoryError as error:
        raise BadTrajectoryError(f"{path}: {error}") from error
    return found


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file."""
    try:
        arrays = read_arrays(path, (*ARRAYS, "tasks"))
    except DataError as error:
        raise SourceError(str(error)) from error
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise SourceError(
            f"{path} has no {' and no '.join(missing)}; save it with np.savez(file, states=..., "
            "actions=..., rewards=..., lengths=...), episodes one after the other"
        )
    counts = {name: len(arrays[name]) if arrays[name].ndim else 0 for name in ARRAYS[:3]}
    if len(set(counts.values())) != 1:
        raise SourceError(f"{path} must have as many states as actions and rewards, not {counts}")
    return arrays


def write_npz(path: Path, trajectories: Sequence[Trajectory]) -> None:
    """Write trajectories to a file that `from_npz` reads."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(trajectory, name) for trajectory in trajectories])
        for name in ("states", "actions", "rewards")
    }
    lengths = [len(trajectory) for trajectory in trajectories]
    tasks = [trajectory.task for trajectory in trajectories]
    np.savez_compressed(path, **arrays, lengths=np.array(lengths), tasks=np.array(tasks))


def can_demonstrate(suite: TaskSuite) -> bool:
    """Say whether a suite, or its vector environments, know what is best."""
    if isinstance(suite, Oracle):
        return True
    env = suite.make_vec(suite.eval_tasks[:1])
    env.close()
    return isinstance(env, Guide)


def from_oracle(
    suite: TaskSuite, task: int, episodes: int, seed: int = 0, noise: float = 0.0
) -> list[Trajectory]:
    """Let an environment that knows the best actions play a task.

    With the probability `noise` a step is random instead: a demonstrator that makes mistakes.
    """
    if not can_demonstrate(suite):
        raise SourceError(f"{suite.name} does not know what is best; give trajectories of your own")
    rng = np.random.default_rng([seed, task])
    return [replace(_played(suite, task, rng, noise), episode=age) for age in range(episodes)]


def _played(suite: Any, task: int, rng: np.random.Generator, noise: float) -> Trajectory:
    """Ask before each step what the episode so far should go on with."""
    env: Any = suite.make_vec([task])
    present, _ = env.reset(seed=[int(rng.integers(1 << 31))])
    states, actions, rewards, over = list[Any](), list[Any](), list[float](), False
    while not over:
        states.append(np.array(present[0]))
        if isinstance(suite, Oracle):
            known = np.array([*rewards, 0.0], np.float32)
            best = suite.optimal_actions(task, np.stack(states), known)[-1:]
        else:
            best = env.optimal_actions()
        random = suite.spaces.action.sample(1, rng)
        actions.append((random if rng.random() < noise else best)[0])
        present, reward, terminated, truncated, _ = env.step(np.stack(actions[-1:]))
        rewards.append(float(reward[0]))
        over = bool(terminated[0] or truncated[0])
    env.close()
    earned = np.array(rewards, np.float32)
    return Trajectory(np.stack(states), np.stack(actions), earned, task, 0)


def as_task(trajectories: Sequence[Trajectory], task: int) -> list[Trajectory]:
    """Put all trajectories into one task, one after the other."""
    return [replace(each, task=task, episode=age) for age, each in enumerate(trajectories)]


class Recording(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps every finished episode of an environment; one that is broken off is left out."""

    def __init__(self, env: gym.Env[Any, Any], task: int = 0) -> None:
        super().__init__(env)
        self.task = task
        self.episodes: list[Trajectory] = []
        self._state: Any = None
        self._steps: list[tuple[Any, Any, float]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._state, info = self.env.reset(seed=seed, options=options)
        self._steps = []
        return self._state, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and write down where, what, and what it brought."""
        state, reward, terminated, truncated, info = self.env.step(action)
        self._steps.append((np.array(self._state), np.array(action), float(reward)))
        self._state = state
        if terminated or truncated:
            states, actions, rewards = zip(*self._steps, strict=True)
            number = len(self.episodes)
            kept = np.stack(states), np.stack(actions), np.array(rewards, np.float32)
            self.episodes.append(Trajectory(*kept, self.task, number))
            self._steps = []
        return state, float(reward), terminated, truncated, info

    def save(self, path: str | Path) -> None:
        """Write the finished episodes to an .npz file for `radt memory import`."""
        if not self.episodes:
            raise ValueError(f"no episode is finished yet, so there is nothing to save to {path}")
        write_npz(Path(path), self.episodes)
