"""Episodes from Minari datasets and into them; needs `pip install 'radt[minari]'`.

A Minari episode has one observation more than it has steps, the one after the last; a trajectory
does not, so the last observation that is written repeats the one before it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from radt.data.manifest import DataError
from radt.room import check_room
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory


def from_minari(name: str, folder: Path | None = None) -> list[Trajectory]:
    """Read the episodes of a local dataset; of our own ones each knows its task, others have 0.

    It is looked for where Minari keeps its datasets, or in `folder`.
    """
    minari = _library()
    try:
        if folder is None:
            dataset = minari.load_dataset(name)
        else:
            dataset = minari.MinariDataset(folder / name / "data")
        step = sum(_bytes(space) for space in (dataset.observation_space, dataset.action_space))
        needed = (step + 8) * int(dataset.total_steps)
        check_room(name, needed, "read it on a larger machine", DataError)
        return list(_episodes(dataset))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"the Minari dataset {name!r} cannot be read ({error}); `minari list local` shows the "
            "datasets that are there, `minari download` fetches one"
        ) from error


def _bytes(space: gym.Space[Any]) -> int:
    return math.prod(space.shape or ()) * np.dtype(space.dtype).itemsize


def _episodes(dataset: Any) -> Iterator[Trajectory]:
    described = dataset.storage.get_episode_metadata(dataset.episode_indices)
    ages: dict[int, int] = {}
    for episode, said in zip(dataset.iterate_episodes(), described, strict=True):
        plain = [isinstance(part, np.ndarray) for part in (episode.observations, episode.actions)]
        if not all(plain):
            raise TypeError("its observations or actions are no plain arrays")
        task = int(said.get("options", {}).get("task", 0))
        ages[task] = ages.get(task, -1) + 1
        count = len(episode.rewards)
        rewards = np.asarray(episode.rewards, np.float32)
        states, actions = episode.observations[:count], episode.actions[:count]
        yield Trajectory(states, actions, rewards, task, ages[task])


def to_minari(name: str, trajectories: Sequence[Trajectory], spaces: TaskSpaces) -> None:
    """Write trajectories to a new local dataset, e.g. `dark-room/mine-v0`, with their tasks."""
    minari = _library()
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            options={"task": trajectory.task},
            observations=np.concatenate([trajectory.states, trajectory.states[-1:]]),
            actions=trajectory.actions,
            rewards=trajectory.rewards,
            terminations=np.arange(1, len(trajectory) + 1) == len(trajectory),
            truncations=np.zeros(len(trajectory), bool),
        )
        for number, trajectory in enumerate(trajectories)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it misses an author, an email and a link
        minari.create_dataset_from_buffers(
            name,
            buffers,
            observation_space=spaces.state.in_gymnasium(),
            action_space=spaces.action.in_gymnasium(),
            algorithm_name="radt",
            data_format="hdf5",
            jpeg_encoding=False,
        )


def _library() -> Any:
    try:
        import minari
        import minari.data_collector
    except ImportError as error:
        raise DataError("Minari datasets need its library: pip install 'radt[minari]'") from error
    return minari
