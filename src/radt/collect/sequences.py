"""Minibatches of sequences: which steps of which environments, in which layout.

As in sb3-contrib, the rollouts of a task's environments are lined up, the line is cut at a random
place, its two parts swap, and minibatches are consecutive pieces of it. What starts inside a
rollout goes on from what the LSTM remembered there when it acted. All tasks share the cut, so that
their sequences have the same lengths and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radt.collect.lstm import Block
from radt.collect.minibatch import Integers


@dataclass(frozen=True)
class Piece:
    """The same steps of some environments, one lane each."""

    block: Block
    envs: Integers  # [lanes]
    first: int  # step


@dataclass(frozen=True)
class Sequences:
    """A minibatch: the ends of some rollouts and the beginnings of others."""

    rows: Integers  # [D] step * envs + env of each sample, in the order of the pieces
    pieces: tuple[Piece, ...]


def cut_sequences(steps: int, envs: int, batch_size: int, place: int) -> Iterator[Sequences]:
    """Yield one epoch of a rollout [steps, envs] whose line is cut at `place`."""
    first_env, cut = divmod(place, steps)
    each = batch_size // steps  # rollouts in a minibatch
    for start in range(first_env, first_env + envs, each):
        ends = np.arange(start, start + each) % envs
        ranges = [(ends, cut, steps)] + ([((ends + 1) % envs, 0, cut)] if cut else [])
        rows, pieces = list[Integers](), list[Piece]()
        for env, first, stop in ranges:
            filled = sum(part.size for part in rows)
            pieces.append(Piece(Block(filled, stop - first, each), env, first))
            rows.append((np.arange(first, stop)[:, None] * envs + env).ravel())
        yield Sequences(np.concatenate(rows), tuple(pieces))
