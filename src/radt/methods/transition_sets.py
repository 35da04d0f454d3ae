"""Which transitions are in the set that DPT reads, in training and at work.

At work the set comes from the finished trials of the task. In training it comes from earlier
episodes of the query's task, chosen so that sets look like those of an agent at work: from few
episodes or many, up to an early moment of the history or a late one, so from bad ones only or from
bad to good. Of more steps than a set may hold, one is taken from each of equally long stretches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from radt.data.reader import Dataset, Episodes
from radt.model.set_policy import Transitions
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory

GOLDEN = (np.sqrt(5) - 1) / 2


def spread_out(total: int, size: int) -> NDArray[np.int64]:
    """Choose `size` of `total` steps, or all if there are fewer: one from each equal stretch.

    Where in its stretch a step lies follows the golden ratio: a fixed stride could fall into step
    with the episodes and show, say, every second cell of a grid only.
    """
    if total <= size:
        return np.arange(total)
    bounds = np.arange(size + 1) * total // size
    within = (np.arange(size) * GOLDEN) % 1  # [size] in [0, 1)
    return np.asarray(bounds[:-1] + (within * np.diff(bounds)).astype(np.int64))


@dataclass(frozen=True)
class Places:
    """Steps of episodes, set by set, padded at the end."""

    episode: NDArray[np.int64]  # [B, M] rows of the table of episodes
    step: NDArray[np.int64]  # [B, M]
    mask: NDArray[np.bool_]  # [B, M]


def earlier_episodes(before: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw episodes out of the first `before` of a history that is cut at a random moment."""
    moment = int(rng.integers(1, before + 1))
    count = int(np.exp(rng.uniform(0, np.log(most + 1))))  # 1 as often as 2-3 or 4-7
    return rng.choice(moment, size=min(count, moment), replace=False)


def draw_places(
    episodes: Episodes,
    rows: NDArray[np.int64],
    size: int,
    most: int,
    rng: np.random.Generator,
) -> Places:
    """Draw a set for each of some episodes; a task's first episode gets an empty one."""
    shape = (len(rows), size)
    places = Places(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, bool))
    for number, row in enumerate(rows.tolist()):
        before = int(episodes.index[row])
        if before == 0:
            continue
        chosen = row - before + earlier_episodes(before, most, rng)  # rows of the same task
        ends = np.cumsum(episodes.length[chosen])
        step = spread_out(int(ends[-1]), size)
        which = np.searchsorted(ends, step, side="right")
        count = slice(0, len(step))
        places.episode[number, count] = chosen[which]
        places.step[number, count] = step - (ends - episodes.length[chosen])[which]
        places.mask[number, count] = True
    return places


def read_places(dataset: Dataset, places: Places) -> Transitions:
    """Read the transitions at some places, [B, M]."""
    pairs = dataset.windows(places.episode.ravel(), places.step.ravel(), 2)  # [B * M, 2]
    shape = places.mask.shape
    return Transitions(
        states=pairs.states[:, 0].unflatten(0, shape),
        actions=pairs.actions[:, 0].unflatten(0, shape),
        next_states=pairs.states[:, 1].unflatten(0, shape),
        rewards=pairs.rewards[:, 0].view(shape),
        ends=~pairs.mask[:, 1].view(shape),
        mask=torch.from_numpy(places.mask),
    )


def from_trials(
    spaces: TaskSpaces, lived: Sequence[Sequence[Trajectory]], size: int
) -> Transitions:
    """Collect each row's set from its finished trials, [B, M]."""
    state_type = np.int64 if spaces.state.kind == "discrete" else spaces.state.dtype
    action_type = np.int64 if spaces.action.kind == "discrete" else spaces.action.dtype
    longest = min(size, max(sum(map(len, trials)) for trials in lived))
    shape = (len(lived), longest)
    states = np.zeros((*shape, *spaces.state.shape), state_type)
    after = np.zeros_like(states)
    actions = np.zeros((*shape, *spaces.action.shape), action_type)
    rewards = np.zeros(shape, np.float32)
    ends, mask = np.zeros((2, *shape), bool)
    for row, trials in enumerate(lived):
        if not trials:
            continue
        chosen = spread_out(sum(map(len, trials)), size)
        count = slice(0, len(chosen))
        everything = np.concatenate([trial.states for trial in trials])
        last = np.concatenate([np.arange(1, len(trial) + 1) == len(trial) for trial in trials])
        states[row, count] = everything[chosen]
        after[row, count] = everything[np.minimum(chosen + 1, len(everything) - 1)]
        actions[row, count] = np.concatenate([trial.actions for trial in trials])[chosen]
        rewards[row, count] = np.concatenate([trial.rewards for trial in trials])[chosen]
        ends[row, count], mask[row, count] = last[chosen], True
    return Transitions(*map(torch.from_numpy, (states, actions, after, rewards, ends, mask)))
