"""Which slots explore: those whose task is unsolved, unless they follow a path that is known.

A trial that collects rewards shows a path, which can be followed until its last reward. A path that
did not pay again, such as one to a key that is kept, is avoided for one trial, then for two, four,
and so on. All of it follows from how many rewards each finished trial of the task had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.old_names import translated

LONGEST = 5  # a known path is tried again after 2 ** this trials at the latest
OLDER = ("most_rewards", "back_off", "failures")  # columns of older agent files


@dataclass(frozen=True)
class KnownPath:
    """What the finished trials of a task say about its path."""

    most_rewards: int  # of any trial
    avoided: int  # trials for which the path is avoided from now on
    failures: int  # times that it did not pay in a row


def known_path(rewards: Sequence[int]) -> KnownPath:
    """Learn from how many rewards each finished trial had."""
    most = avoided = failures = 0
    if not any(rewards):
        return KnownPath(most, avoided, failures)
    for count in rewards:
        most = max(most, count)
        if count == most:
            avoided = failures = 0
        elif avoided:
            avoided -= 1
        else:
            avoided = 1 << min(failures, LONGEST)
            failures += 1
    return KnownPath(most, avoided, failures)


def backs_off(trials: RunningTrials, slot: int) -> bool:
    """Say whether a slot avoids the path it knows."""
    return known_path(trials.rewards_of_trials[slot]).avoided > 0


def exploring(trials: RunningTrials, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which slots explore, [B]: unsolved tasks where no trial had more rewards than this."""
    return np.array([not trials.solved[slot] and _off_path(trials, slot) for slot in slots], bool)


def _off_path(trials: RunningTrials, slot: int) -> bool:
    path = known_path(trials.rewards_of_trials[slot])
    return bool(trials.rewards_so_far[slot] >= path.most_rewards or path.avoided)


def packed(rewards: Sequence[Sequence[int]]) -> Tensor:
    """Put the rewards of each slot's trials into one array, [slots, trials], with -1 behind."""
    longest = max(map(len, rewards), default=0)
    rows = [[*row, *[-1] * (longest - len(row))] for row in rewards]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rewards), longest)


def unpacked(saved: Mapping[str, Tensor], slots: int) -> list[list[int]]:
    """Read what `packed` wrote; older files say what came of it, the oldest nothing."""
    if "rewards_of_trials" in saved:
        return [[n for n in row if n >= 0] for row in saved["rewards_of_trials"].tolist()]
    older = translated(saved, OLDER)
    columns = [older.get(name, torch.zeros(slots)).tolist() for name in OLDER]
    return [_trials_behind(KnownPath(*map(int, row))) for row in zip(*columns, strict=True)]


def _trials_behind(path: KnownPath) -> list[int]:
    """Return trials that a path could be known from."""
    failed = sum(1 + (1 << min(times, LONGEST)) for times in range(path.failures)) - path.avoided
    return [path.most_rewards, *[0] * failed] if path.most_rewards else []
