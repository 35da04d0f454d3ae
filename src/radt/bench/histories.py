"""Histories made up for benchmarks, and untrained methods prepared with them."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radt.config import RunConfig
from radt.data import Dataset, History, Manifest, write_history, write_manifest
from radt.envs.suite import TaskSuite
from radt.experiments.run import Run, build
from radt.memory.embed import Embedder
from radt.methods import METHODS, Method
from radt.trajectory import Batch, Trajectory


@contextmanager
def made_up_histories(suite: TaskSuite, transitions: int, seed: int = 0) -> Iterator[Dataset]:
    """Let all training tasks be lived by random walks, in a dataset that is soon deleted."""
    with made_up_folder(suite, transitions, seed) as folder:
        yield Dataset.open(folder, in_memory=True)


@contextmanager
def made_up_folder(suite: TaskSuite, transitions: int, seed: int = 0) -> Iterator[Path]:
    """Write such a dataset, for processes that open it themselves."""
    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        files = tuple(
            write_history(Path(folder), history, suite.spaces)
            for history in random_walks(suite, transitions, seed)
        )
        manifest = Manifest(
            env=suite.name,
            env_spec={},
            spaces=suite.spaces,
            split="train",
            seed=seed,
            source="random",
            hyper_parameters={"transitions": transitions},
            code_version="",
            files=files,
        )
        write_manifest(Path(folder), manifest)
        yield Path(folder)


def random_walks(suite: TaskSuite, transitions: int, seed: int) -> list[History]:
    """Walk at random through every training task at once, whole episodes only."""
    spaces, tasks = suite.spaces, suite.train_tasks
    episodes = max(2, transitions // spaces.horizon)  # a chunk comes from another episode
    rng = np.random.default_rng(seed)
    env = suite.make_vec(tasks)
    count = episodes * spaces.horizon
    states = np.zeros((len(tasks), count, *spaces.state.shape), spaces.state.dtype)
    actions = rng.integers(spaces.action.size, size=(len(tasks), count)).astype(np.uint8)
    rewards = np.zeros((len(tasks), count), np.float32)
    for step in range(count):
        if step % spaces.horizon == 0:
            obs, _ = env.reset(seed=seed + step)
        states[:, step] = obs
        obs, rewards[:, step], *_ = env.step(actions[:, step])
    env.close()
    lengths = np.full(episodes, spaces.horizon, np.int32)
    return [
        History(task, states[row], actions[row], rewards[row], lengths)
        for row, task in enumerate(tasks)
    ]


def episodes_of(history: History, slot: int) -> list[Trajectory]:
    """Cut a history into its episodes, as an agent lives through them in a slot."""
    ends = np.cumsum(history.lengths)
    return [
        Trajectory(
            history.states[end - length : end],
            history.actions[end - length : end],
            history.rewards[end - length : end],
            slot,
            episode,
        )
        for episode, (length, end) in enumerate(zip(history.lengths, ends, strict=True))
    ]


class MadeUpKeys:
    """Stands in for an embedder while an index is filled: keys of the right width in no time."""

    def __init__(self, embedder: Embedder) -> None:
        self.width, self.network = embedder.width, embedder.network
        self._rng = torch.Generator().manual_seed(0)

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Return random directions, [B, width]."""
        return torch.randn(len(prefixes), self.width, generator=self._rng)


def untrained(config: RunConfig, device: str = "cpu") -> Method:
    """Build a run's method; how long it takes does not depend on what it has learned."""
    return build(Run(config, Path(), device=device))


def prepared(config: RunConfig, dataset: Dataset, device: str) -> tuple[Method, int]:
    """Build a method, fill its index with one key per entry, and count the keys.

    Nothing is dropped as a duplicate, so the search is over more keys than in training.
    """
    if not METHODS[config.method].embeds:
        method = untrained(config, device)
        method.prepare(dataset)
        return method, 0
    training = dataclasses.replace(config.options.training, dedup=None)
    options = dataclasses.replace(config.options, training=training)
    method = untrained(dataclasses.replace(config, options=options), device)
    reading: Any = method
    embedder = reading.embedder
    reading.embedder = MadeUpKeys(embedder)
    method.prepare(dataset)
    reading.embedder = reading.memory.embedder = embedder
    return method, len(reading.memory.index)
