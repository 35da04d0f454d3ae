"""Toy datasets, embedders and entries for the tests of the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from radt.data import Dataset, History, Manifest, write_history, write_manifest
from radt.envs.suite import TaskSuite
from radt.memory.embed import DecisionTransformerEmbedder
from radt.memory.entries import Entries, Halves, cut
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory
from tests.model.batches import small_model


def write_toys(
    folder: Path, suite: TaskSuite, lived: Mapping[int, Sequence[Trajectory]]
) -> Dataset:
    """Store histories as a dataset and open it."""
    files = [
        write_history(
            folder,
            History(
                task,
                np.concatenate([t.states for t in episodes]),
                np.concatenate([t.actions for t in episodes]),
                np.concatenate([t.rewards for t in episodes]),
                np.array([len(t) for t in episodes], np.int32),
            ),
            suite.spaces,
        )
        for task, episodes in lived.items()
    ]
    said = {"env_spec": {}, "split": "train", "seed": 0, "source": "random"}
    rest = {"hyper_parameters": {}, "code_version": "0", "wall_seconds": 0.0}
    write_manifest(
        folder,
        Manifest(env=suite.name, spaces=suite.spaces, files=tuple(files), **said, **rest),  # type: ignore[arg-type]
    )
    return Dataset.open(folder)


def toy_embedder(spaces: TaskSpaces, tokens: str = "fused") -> DecisionTransformerEmbedder:
    """Embed with random weights; without returns-to-go, which know the future."""
    return DecisionTransformerEmbedder(small_model(spaces, tokens=tokens, return_to_go=False))


def random_entries(
    rng: np.random.Generator, count: int, tasks: int = 3, episodes: int = 8, returns: int = 4
) -> Entries:
    """Draw entries with many ties, whatever trajectories they would be from."""
    episode = torch.from_numpy(rng.integers(0, episodes, count))
    zero = torch.zeros(count, dtype=torch.int64)
    return Entries(
        task=episode % tasks,
        episode=episode,
        age=episode // tasks,
        position=zero,
        start=zero,
        stop=zero + 1,
        total_return=torch.from_numpy(rng.integers(0, returns, count)).float(),
    )


def cut_lengths(lengths: Sequence[int], context_len: int) -> Entries:
    """Cut trajectories of these lengths, all of task 0."""
    length = torch.tensor(lengths)
    row: Tensor = torch.arange(len(lengths))
    halves = Halves(context_len, context_len)
    return cut(torch.zeros_like(row), row, row, length, row.float(), halves)


def normalised(values: list[float]) -> list[np.float32]:
    """Scale to [0, 1], all 0 where nothing differs, one value after the other."""
    if not values or max(values) == min(values):
        return [np.float32(0)] * len(values)
    low, high = np.float32(min(values)), np.float32(max(values))
    return [(np.float32(v) - low) / (high - low) for v in values]
