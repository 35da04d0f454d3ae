"""Transforms of training examples, listed once: `transforms_of` says which act, in which order.

Each is a function of a batch of examples and a random generator, and works for every method whose
examples have what it changes. Filters, which choose the trajectories, are in windows.py; what is
done to a trial before it is stored is the memory's (loop_erasure.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from radt.data.reader import Dataset
from radt.methods.decision_cache import HeldChunks
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowOptions, check_share, rewards_before
from radt.model.policy import DecisionTransformer
from radt.spaces import StateSpace, TaskSpaces
from radt.trajectory import Batch

E = TypeVar("E")
SUBGOALS = 4  # the first, second and third reward of a trial, and all later ones


class Transform(Protocol):
    """Changes a batch of examples: a record with `recent`, perhaps `retrieved` or `known`."""

    def __call__(self, examples: E, rng: np.random.Generator) -> E:
        """Return the examples, changed."""


@dataclass(frozen=True, kw_only=True)
class ChunkOptions(WindowOptions):
    """What can be told, beside windows, about chunks that a method reads."""

    subgoals: bool = False  # show the chunk up to the next reward only (see transforms.py)

    def __post_init__(self) -> None:
        super().__post_init__()
        own: Any = self  # a method's options have `memory` and `training`
        check_share("truncated_chunks", own.training.truncated_chunks)
        if own.training.truncated_chunks and own.memory.top_k > 1:
            raise ValueError("truncated_chunks ends one chunk; it needs memory.top_k=1")
        asks_once = own.memory.top_k == 1 and own.memory.retrieve_every == 0
        if self.subgoals and not (asks_once and own.training.start_chunks):
            raise ValueError(
                "subgoals are counted from the start of one chunk and of the trial; they need "
                "memory.top_k=1, memory.retrieve_every=0 and training.start_chunks=true"
            )


def transforms_of(options: WindowOptions, dataset: Dataset) -> Transform:
    """Compose what a method's options ask for; each of them is left out where it has no weight."""
    found: list[Transform] = []
    if isinstance(options, ChunkOptions):
        own: Any = options
        if share := own.training.truncated_chunks:
            found.append(partial(_truncate, share))
        if options.subgoals:
            found.append(partial(_to_subgoals, dataset))
    if options.translate:
        found.append(partial(_translate, dataset.spaces.state, options.translate))
    return partial(_one_after_the_other, found)


def check_transforms(options: WindowOptions, spaces: TaskSpaces) -> None:
    """Refuse to shift states that are no cells."""
    if options.translate and spaces.state.kind != "discrete":
        raise ValueError("only discrete states can be translated; leave out options.translate")


def _one_after_the_other(
    transforms: Sequence[Transform], examples: E, rng: np.random.Generator
) -> E:
    for transform in transforms:
        examples = transform(examples, rng)
    return examples


def held_chunks(options: ChunkOptions, policy: DecisionTransformer, nothing: Batch) -> HeldChunks:
    """Return what holds the chunks of an actor, and shows them as they are shown in training."""
    return HeldSubgoals(policy, nothing) if options.subgoals else HeldChunks(policy, nothing)


def returns_decide(options: object) -> bool:
    """Say whether what was earned decides which steps are targets."""
    return any(getattr(options, name, False) for name in ("subgoals", "min_return"))


# Translation. Eighty tasks are few, and a policy can memorise their goals instead of reading them
# from its context. Shifted by a random number of cells, a window and its context still fit each
# other, but no cell means anything by itself. Walls do not move: an agent that runs into one seems
# to stand still in the middle of the grid.


def _translate(space: StateSpace, share: float, examples: Any, rng: np.random.Generator) -> Any:
    """Shift all states of a share of the examples alike."""
    parts = [name for name in ("recent", "retrieved", "known") if hasattr(examples, name)]
    batches = [getattr(examples, name) for name in parts]
    places = [(at, name) for at, one in enumerate(batches) for name in STATES if hasattr(one, name)]
    seen = [(getattr(batches[at], name), _inside(batches[at], name)) for at, name in places]
    for (at, name), states in zip(places, translate_states(seen, space, share, rng), strict=True):
        batches[at] = replace(batches[at], **{name: states})
    return replace(examples, **dict(zip(parts, batches, strict=True)))


STATES = ("states", "next_states")


def _inside(batch: Any, name: str) -> Tensor:
    """Mark the states of a batch that are known, [B, L]; the last next state was not stored."""
    mask: Tensor = batch.mask
    return mask & ~batch.ends if name == "next_states" else mask


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


# Subgoals: chunks are shown up to the next reward. An agent that looks for a key and sees many
# rewards at a door in its chunk goes to the door. So after n rewards in its trial it is shown the
# part of the chunk from the n-th reward to the next one. Training shows the same part and asks only
# for the actions that belong to it.


def _to_subgoals(dataset: Dataset, examples: Any, rng: np.random.Generator) -> Any:
    """Show one subgoal of each chunk, and ask for the actions that lead to it."""
    every = subgoals_of_windows(dataset, examples.episode.numpy(), examples.recent)  # [B, L]
    drawn = draw_subgoals(every, examples.targets, rng)  # [B]
    targets = examples.targets & (every == drawn[:, None])
    return replace(examples, retrieved=show_subgoal(examples.retrieved, drawn), targets=targets)


def show_subgoal(chunks: Batch, subgoal: Tensor) -> Batch:
    """Show the steps to one subgoal [B] of each chunk [B, M], and the step after them."""
    shown = rewards_before(chunks.rewards * chunks.mask).clamp_max(SUBGOALS - 1) == subgoal[:, None]
    return replace(chunks, mask=chunks.mask & (shown | pad(shown[:, :-1], (1, 0))))


def subgoals_of_windows(dataset: Dataset, episode: NDArray[np.int64], recent: Batch) -> Tensor:
    """Return the subgoal of its episode [B] that each step of each window leads to, [B, L]."""
    start = recent.timesteps[:, 0]  # [B]
    earlier = dataset.windows(episode, np.zeros_like(episode), max(1, int(start.max())))
    before = earlier.mask & (earlier.timesteps < start[:, None])
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


class HeldSubgoals(HeldChunks):
    """Chunks of which each slot is shown the part that leads to its trial's next reward."""

    def __init__(self, policy: DecisionTransformer, nothing: Batch) -> None:
        super().__init__(policy, nothing)
        self.whole = nothing.rows(torch.arange(len(nothing)))  # [slots, k * 2C]
        self._subgoal = torch.full((len(self.whole),), -1)  # [slots] that is shown; -1: none yet

    def hold(self, chunks: Batch, slots: Tensor) -> None:
        """Keep other chunks, of which nothing is shown yet."""
        self.whole.put(slots, chunks)
        self._subgoal[slots] = -1

    def drop(self, slots: Tensor) -> None:
        """Hold nothing in some slots."""
        super().drop(slots)
        self.whole.mask[slots] = False
        self._subgoal[slots] = -1

    def show(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        """After a reward, show the part of the chunk that leads to the next one."""
        rows, had = torch.from_numpy(slots), torch.from_numpy(trials.rewards_so_far[slots])
        subgoal = had.clamp_max(SUBGOALS - 1)  # [B]
        turned = self._subgoal[rows] != subgoal
        if bool(turned.any()):
            subgoal, rows = subgoal[turned], rows[turned]
            self._subgoal[rows] = subgoal
            super().hold(show_subgoal(self.whole.rows(rows), subgoal), rows)


# Truncated chunks. A first success may come with the last steps of a trial, so that its chunk holds
# one reward where those of the data hold many.


def _truncate(share: float, examples: Any, rng: np.random.Generator) -> Any:
    """End a share of the chunks early."""
    some = rng.random(len(examples.retrieved)) < share
    return replace(examples, retrieved=truncate_chunks(examples.retrieved, some, rng))


def truncate_chunks(chunks: Batch, some: NDArray[np.bool_], rng: np.random.Generator) -> Batch:
    """End some chunks [B] with their n-th reward, n geometric with p = 1/2."""
    last = rng.geometric(0.5, size=len(some))  # [B]
    most = torch.from_numpy(np.where(some, last, chunks.mask.shape[1] + 1))
    return replace(chunks, mask=chunks.mask & (rewards_before(chunks.rewards) < most[:, None]))
