"""Keys for measuring a memory: real chunk embeddings, and more of their kind beyond.

The key of an entry at step t embeds what an agent has seen up to t. A dataset's episodes are walked
through as an agent would, so that every step t < C of each gives a real key at the price of one
step. Beyond the real ones an entry is a real key moved by a tenth of the difference of two others:
it stays among the directions in which real keys differ. Wider keys are the same keys turned into
more dimensions, which changes no cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.data import Dataset
from radt.experiments.run import RunError
from radt.memory.embed import Embedder
from radt.methods.trials import RunningTrials

PERTURBATION = "real key + 0.1 * (another real key - a third one)"
SHARE = 0.1
EPISODES_AT_ONCE = 256
BLOCK = 1 << 16  # keys that are made together


@dataclass(frozen=True)
class RealKeys:
    """Keys of a dataset's first steps, and queries from other episodes, both in random order."""

    keys: NDArray[np.float32]  # [R, d]
    task: NDArray[np.int64]  # [R]
    queries: NDArray[np.float32]  # [Q, d]
    asked_by: NDArray[np.int64]  # [Q] tasks

    @property
    def width(self) -> int:
        """How many numbers a key has."""
        return len(self.keys[0])

    def blocks(self, size: int, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Make so many keys [n, width] with their tasks [n], the real ones first."""
        turn = turned(self.width, width)
        for start in range(0, size, BLOCK):
            count = min(BLOCK, size - start)
            keys, task = self._some(start, count)
            yield torch.from_numpy(keys @ turn), torch.from_numpy(task)

    def _some(self, start: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if start + count <= len(self.keys):
            return self.keys[start : start + count], self.task[start : start + count]
        rng = np.random.default_rng(start)
        first, second, third = rng.integers(len(self.keys), size=(3, count))
        moved = self.keys[first] + np.float32(SHARE) * (self.keys[second] - self.keys[third])
        real = max(0, len(self.keys) - start)
        moved[:real], first[:real] = self.keys[start:], np.arange(start, start + real)
        return moved, self.task[first]

    def asked(self, width: int) -> Tensor:
        """Return the queries, [Q, width]."""
        return torch.from_numpy(self.queries @ turned(self.width, width))


def turned(width: int, wider: int) -> NDArray[np.float32]:
    """Return a turn of keys into a space of more dimensions that keeps all cosines, [d, D]."""
    if width == wider:
        return np.eye(width, dtype=np.float32)
    if wider < width:
        raise RunError(f"keys have {width} numbers; --widths cannot ask for {wider}")
    noise = np.random.default_rng(width).normal(size=(wider, width))
    return np.ascontiguousarray(np.linalg.qr(noise)[0].T, np.float32)


def real_keys(
    embedder: Embedder,
    dataset: Dataset,
    context_len: int,
    count: int,
    queries: int,
    advance: Callable[[int], None] = lambda done: None,
    seed: int = 0,
) -> RealKeys:
    """Embed as many prefixes of real episodes as are asked for, or as there are."""
    rng = np.random.default_rng(seed)
    long_enough = np.flatnonzero(dataset.episodes.length >= context_len)
    episodes = rng.permutation(long_enough)
    each = context_len - 1  # at step 0 all agents have seen the same
    asking = -(-queries // each)
    wanted = asking + -(-count // each)
    if len(episodes) <= asking:
        raise RunError(
            f"{queries} queries need {asking} episodes of at least {context_len} steps; the "
            f"dataset has {len(episodes)} in all. Ask for fewer --reads, or collect more"
        )
    episodes = episodes[:wanted]
    keys = np.concatenate(
        [
            walked(embedder, dataset, part, context_len, advance)
            for part in np.split(episodes, range(EPISODES_AT_ONCE, len(episodes), EPISODES_AT_ONCE))
        ]
    )[:, 1:].reshape(-1, embedder.width)
    task = np.repeat(dataset.episodes.task[episodes].astype(np.int64), each)
    asked = rng.permutation(asking * each)[:queries]
    held = asking * each + rng.permutation(len(keys) - asking * each)[:count]
    return RealKeys(keys[held], task[held], keys[asked], task[asked])


def walked(
    embedder: Embedder,
    dataset: Dataset,
    episodes: NDArray[np.int64],
    context_len: int,
    advance: Callable[[int], None] = lambda done: None,
) -> NDArray[np.float32]:
    """Embed what is seen up to each of the first C steps of some episodes, [E, C, d]."""
    slots = np.arange(len(episodes))
    stepper = embedder.stepper(len(slots), context_len)
    if stepper is None:
        raise RunError("this embedder takes no single steps; give a checkpoint with another one")
    stepper.reset(torch.from_numpy(slots))
    no_action = cast(Any, embedder.network).embed.no_action
    lived = dataset.windows(episodes, np.zeros_like(episodes), context_len)
    trials = RunningTrials(dataset.spaces, len(slots))
    keys = np.zeros((len(slots), context_len, embedder.width), np.float32)
    for step in range(context_len):
        trials.see(slots, lived.states[:, step].numpy())
        latest = trials.latest(slots, no_action)
        keys[:, step] = stepper.step(latest, torch.from_numpy(slots)).numpy()
        actions, rewards = lived.actions[:, step].numpy(), lived.rewards[:, step].numpy()
        trials.record(slots, actions, rewards)
    advance(len(episodes))
    return keys
