"""Methods that learn nothing: an actor that looks at one slot at a time and needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.memory.embed import Embedder
from radt.methods.method import METHODS, Actor, ContextSize, Memoryless, MethodEntry, Progress
from radt.methods.trials import RunningTrials
from radt.spaces import StateKind, TaskSpaces

Cell = tuple[float, ...]  # a state's numbers
Move = tuple[Cell, int]  # where it was made, and the action
CERTAIN = 1e6  # a logit that wins at any temperature


@dataclass(frozen=True)
class NoOptions:
    """Nothing can be chosen."""


class Heuristic:
    """A method that is only an actor."""

    def __init__(self, name: str, spaces: TaskSpaces, actor: type[RandomActor]) -> None:
        if problem := actor.problem_with(spaces):
            raise ValueError(f"{name} {problem}")
        self.name, self.spaces, self._actor = name, spaces, actor
        self.networks: dict[str, nn.Module] = {}

    @property
    def context(self) -> ContextSize:
        return ContextSize(0)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Nothing to prepare."""
        return {}

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        raise TypeError(f"{self.name} learns nothing; evaluate it directly")

    def loss(self, examples: Any) -> Tensor:
        raise TypeError(f"{self.name} learns nothing; evaluate it directly")

    def actor(self, slots: int) -> Actor:
        return self._actor(self.spaces, slots)


class RandomActor(Memoryless):
    """Acts at random, all actions alike or uniformly in [-1, 1]; the base of all heuristics."""

    def __init__(self, spaces: TaskSpaces, slots: int) -> None:
        self.spaces = spaces
        self.forget(np.arange(slots))

    @classmethod
    def problem_with(cls, spaces: TaskSpaces) -> str | None:
        """Say what a heuristic needs that such tasks do not have, if anything."""
        return None

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Return equal logits, or a random action, [B, action_size]."""
        if self.spaces.action.kind == "discrete":
            return torch.zeros(len(slots), self.spaces.action.size)
        noise = trials.noise[slots, trials.step[slots]]  # [B, action_size] in [0, 1)
        return torch.from_numpy(2 * noise - 1).float()


class HeuristicActor(RandomActor):
    """Looks at one slot at a time; a subclass says what to do there."""

    reads: tuple[StateKind, ...] = ("discrete", "vector")  # states that can recur

    @classmethod
    def problem_with(cls, spaces: TaskSpaces) -> str | None:
        """Ask for places to recognise."""
        if spaces.state.kind in cls.reads and spaces.action.kind == "discrete":
            return None
        return f"recognises places and needs {' or '.join(cls.reads)} states, discrete actions"

    def choose(self, slot: int, step: int, cell: Cell) -> int | None:
        """Return an action, or None to leave it to chance."""
        raise NotImplementedError

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Return equal logits where chance decides and one certain action elsewhere."""
        logits = super().decide(trials, slots)
        for row, slot in enumerate(slots.tolist()):
            step = int(trials.step[slot])
            cell = cell_of(trials.states[slot, step])
            if step:
                before = cell_of(trials.states[slot, step - 1])
                moved = before, int(trials.actions[slot, step - 1])
                self.arrived(slot, moved, cell, paid=bool(trials.rewards[slot, step - 1] > 0))
            action = self.choose(slot, step, cell)
            if action is not None:
                logits[row, action] = CERTAIN
        return logits

    def arrived(self, slot: int, moved: Move, cell: Cell, paid: bool) -> None:
        """Take note of where a move led, and whether it was paid."""


def cell_of(state: NDArray[np.generic]) -> Cell:
    """Name the place of a state by its numbers."""
    return tuple(np.ravel(state).tolist())


def register(
    name: str, actor: type[RandomActor], continuous: type[RandomActor] | None = None
) -> None:
    """Make a heuristic known as a method; `continuous` acts for it where actions are no moves."""

    def build(
        spaces: TaskSpaces, options: NoOptions, seed: int, embedder: Embedder | None
    ) -> Heuristic:
        other = continuous if spaces.action.kind == "continuous" else None
        return Heuristic(name, spaces, other or actor)

    METHODS.register(name, MethodEntry(NoOptions, build, learns=False))
