"""Minibatches of sequences: which steps of which environments, in which layout.

As in sb3-contrib, the rollouts of a task's environments are lined up, the line is cut at a random
place, its two parts swap, and minibatches are consecutive pieces of it. What starts inside a
rollout goes on from what the LSTM remembered there when it acted. All tasks share the cut, so that
in all lanes of a minibatch the end of one rollout is followed by the beginning of another at the
same step, and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radt.collect.minibatch import Integers


@dataclass(frozen=True)
class Start:
    """Where lanes start to follow a rollout."""

    step: int  # of the rollout
    envs: Integers  # [lanes]


@dataclass(frozen=True)
class Sequences:
    """A minibatch: as many steps as a rollout has, of some lanes."""

    rows: Integers  # [steps * lanes] step * envs + env of each sample in the rollout
    starts: dict[int, Start]  # by the step of the minibatch


def cut_sequences(steps: int, envs: int, batch_size: int, place: int) -> Iterator[Sequences]:
    """Yield one epoch of a rollout [steps, envs] whose line is cut at `place`."""
    first_env, cut = divmod(place, steps)
    lanes = batch_size // steps
    for first in range(first_env, first_env + envs, lanes):
        ends = np.arange(first, first + lanes) % envs
        starts = {0: Start(cut, ends)}
        if cut:
            starts[steps - cut] = Start(0, (ends + 1) % envs)
        parts = [
            np.arange(start.step, steps if number == 0 else cut)[:, None] * envs + start.envs
            for number, start in starts.items()
        ]
        yield Sequences(np.concatenate(parts).ravel(), starts)
