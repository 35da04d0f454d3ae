"""Transforms of training examples: translation, subgoals, truncated chunks.

Each is a function of batches and a random generator, and works for every method whose examples are
made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from radt.data.reader import Dataset
from radt.methods.windows import Windows, rewards_before
from radt.spaces import StateSpace, TaskSpaces
from radt.trajectory import Batch

SUBGOALS = 4  # the first, second and third reward of a trial, and all later ones


# Translation. Eighty tasks are few, and a policy can memorise their goals instead of reading them
# from its context. Shifted by a random number of cells, a window and its context still fit each
# other, but no cell means anything by itself. Walls do not move: an agent that runs into one seems
# to stand still in the middle of the grid.


def translate_states(
    seen: Sequence[tuple[Tensor, Tensor]], space: StateSpace, share: float, rng: np.random.Generator
) -> list[Tensor]:
    """Shift a share of the rows of all states [B, L, *state_shape] alike, each by its own cells.

    Every tensor of states comes with the mask [B, L] of those that must stay inside the grid.
    """
    moved = rng.random(len(seen[0][0])) < share  # [B]
    together = torch.cat([states for states, _ in seen], dim=1).long()  # [B, all L, *state_shape]
    real = torch.cat([mask for _, mask in seen], dim=1)
    real = real.view(*real.shape, *[1] * (together.ndim - 2))
    last = torch.tensor(space.bins).view(space.shape) - 1
    least = together.where(real, last).amin(1)  # [B, *state_shape]
    most = together.where(real, 0).amax(1)
    by = torch.from_numpy(rng.integers(-least.numpy(), (last - most).numpy(), endpoint=True))
    by[~moved] = 0
    return [
        (states.long() + by[:, None]).clamp_min(0).minimum(last).to(states.dtype)
        for states, _ in seen
    ]


def translate_batches(
    batches: Sequence[Batch], space: StateSpace, share: float, rng: np.random.Generator
) -> list[Batch]:
    """Shift a share of the rows of all batches [B, L] alike; without a share nothing is drawn."""
    if not share:
        return list(batches)
    seen = [(batch.states, batch.mask) for batch in batches]
    moved = translate_states(seen, space, share, rng)
    return [replace(batch, states=states) for batch, states in zip(batches, moved, strict=True)]


def check_translate(share: float, spaces: TaskSpaces) -> None:
    """Refuse to shift states that are no cells."""
    if share and spaces.state.kind != "discrete":
        raise ValueError("only discrete states can be translated; leave out options.translate")


# Subgoals. An agent that looks for a key and sees many rewards at a door in its chunk goes to the
# door. So after n rewards in its trial it is shown the part of the chunk from the n-th reward to
# the next one. Training shows the same part and asks only for the actions that belong to it.


def show_subgoal(chunks: Batch, subgoal: Tensor) -> Batch:
    """Show the steps to one subgoal [B] of each chunk [B, M], and the step after them."""
    shown = rewards_before(chunks.rewards * chunks.mask).clamp_max(SUBGOALS - 1) == subgoal[:, None]
    return replace(chunks, mask=chunks.mask & (shown | pad(shown[:, :-1], (1, 0))))


def subgoals_of_windows(dataset: Dataset, windows: Windows, recent: Batch) -> Tensor:
    """Return the subgoal of its episode that each step of each window leads to, [B, L]."""
    first, longest = np.zeros_like(windows.start), max(1, int(windows.start.max()))
    earlier = dataset.windows(windows.episode, first, longest)  # [B, longest]
    before = earlier.mask & (earlier.timesteps < torch.from_numpy(windows.start)[:, None])
    had = (before & (earlier.rewards > 0)).sum(1, keepdim=True)  # [B, 1]
    return (had + rewards_before(recent.rewards)).clamp_max(SUBGOALS - 1)


def draw_subgoals(subgoals: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
    """Draw one subgoal [B] of each window by the root of its share of the targets [B, L].

    Most steps of a long episode are spent on the goal; the root gives the others more weight.
    """
    steps = torch.stack([((subgoals == at) & targets).sum(1) for at in range(SUBGOALS)], dim=1)
    weight = steps.double().sqrt().cumsum(1)  # [B, SUBGOALS]
    drawn = torch.from_numpy(rng.random(len(subgoals)))[:, None] * weight[:, -1:]
    return (weight <= drawn).sum(1).clamp_max(SUBGOALS - 1)


# Truncated chunks. A first success may come with the last steps of a trial, so that its chunk holds
# one reward where those of the data hold many.


def truncate_chunks(chunks: Batch, some: NDArray[np.bool_], rng: np.random.Generator) -> Batch:
    """End some chunks [B] with their n-th reward, n geometric with p = 1/2."""
    last = rng.geometric(0.5, size=len(some))  # [B]
    most = torch.from_numpy(np.where(some, last, chunks.mask.shape[1] + 1))
    return replace(chunks, mask=chunks.mask & (rewards_before(chunks.rewards) < most[:, None]))
