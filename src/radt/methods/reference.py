"""References that learn nothing: the simplest things that could work.

`replay` walks at random until something is rewarded and then repeats the way that led there,
loops left out, action by action from the start. `retrace` does the same by place instead of by
time: wherever it stands on the known way, it goes on along it. `sweep` knows that it lives on a
grid, visits every cell in turn and then walks straight to the one that paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.memory.embed import Embedder
from radt.memory.memory import Memory
from radt.methods.method import METHODS, Actor, MethodEntry
from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces
from radt.trajectory import Retrieval, Trajectory

Cell = tuple[int, ...]
CERTAIN = 1e6  # a logit that wins at any temperature


@dataclass(frozen=True)
class NoOptions:
    """Nothing can be chosen."""


class Heuristic:
    """A method that is only an actor."""

    def __init__(self, name: str, spaces: TaskSpaces, actor: type[HeuristicActor]) -> None:
        if spaces.state.kind != "discrete" or spaces.action.kind != "discrete":
            raise ValueError(f"{name} recognises places and needs discrete states and actions")
        self.name, self.spaces, self._actor = name, spaces, actor
        self.networks: dict[str, nn.Module] = {}

    def prepare(self, dataset: Dataset) -> Mapping[str, float]:
        """Nothing to prepare."""
        return {}

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        """Refuse: there is nothing to learn."""
        raise TypeError(f"{self.name} learns nothing; evaluate it directly")

    def loss(self, examples: Any) -> Tensor:
        """Refuse: there is nothing to learn."""
        raise TypeError(f"{self.name} learns nothing; evaluate it directly")

    def actor(self, slots: int) -> Actor:
        """Put the heuristic to work."""
        return self._actor(self.spaces, slots)


class HeuristicActor:
    """Looks at one slot at a time; a subclass says what to do there."""

    memory: Memory | None = None
    retrieval: Retrieval | None = None
    asked: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def __init__(self, spaces: TaskSpaces, slots: int) -> None:
        self.spaces = spaces
        self.forget(np.arange(slots))

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start a new task."""
        raise NotImplementedError

    def choose(self, slot: int, step: int, cell: Cell) -> int | None:
        """Return an action, or None to leave it to chance."""
        raise NotImplementedError

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Nothing to prepare."""

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Nothing to remember."""

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Return equal logits where chance decides and one certain action elsewhere."""
        logits = torch.zeros(len(slots), self.spaces.action.size)
        for row, slot in enumerate(slots.tolist()):
            step = int(trials.step[slot])
            if step and trials.rewards[slot, step - 1] > 0:
                before = _cell(trials.states[slot, step - 1])
                self.paid(slot, before, int(trials.actions[slot, step - 1]), step)
            action = self.choose(slot, step, _cell(trials.states[slot, step]))
            if action is not None:
                logits[row, action] = CERTAIN
        return logits

    def paid(self, slot: int, cell: Cell, action: int, step: int) -> None:
        """Take note that an action was rewarded."""


class ReplayActor(HeuristicActor):
    """Repeats the loop-erased way to the first reward, then whatever was rewarded there."""

    by_place = False

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know no way and no reward."""
        if not hasattr(self, "ways"):
            self.ways: dict[int, list[tuple[Cell, int]]] = {}
            self.rewarded: dict[int, dict[Cell, int]] = {}
        for slot in slots.tolist():
            self.ways[slot], self.rewarded[slot] = [], {}

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep the shortest way to a reward."""
        for trial in finished:
            if trial.total_return > 0:
                way, known = loop_erased(trial), self.ways[trial.task]
                if not known or len(way) < len(known):
                    self.ways[trial.task] = way

    def paid(self, slot: int, cell: Cell, action: int, step: int) -> None:
        """Remember what was rewarded where."""
        self.rewarded[slot][cell] = action

    def choose(self, slot: int, step: int, cell: Cell) -> int | None:
        """Follow what was rewarded, else the way, else chance."""
        if cell in self.rewarded[slot]:
            return self.rewarded[slot][cell]
        way = self.ways[slot]
        if self.by_place:
            return dict(way).get(cell)
        return way[step][1] if step < len(way) else None


class RetraceActor(ReplayActor):
    """Follows the known way from any place on it."""

    by_place = True


def loop_erased(trial: Trajectory) -> list[tuple[Cell, int]]:
    """Return cells and actions up to the first reward, with every loop cut out."""
    last = int(np.flatnonzero(trial.rewards > 0)[0])
    way: list[tuple[Cell, int]] = []
    for state, action in zip(trial.states[: last + 1], trial.actions[: last + 1], strict=True):
        cell = _cell(state)
        visited = [known for known, _ in way]
        if cell in visited:
            way = way[: visited.index(cell)]
        way.append((cell, int(action)))
    return way


class SweepActor(HeuristicActor):
    """Visits every cell of a grid in boustrophedon order, then walks straight to the goal."""

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Have every cell still to visit."""
        if not hasattr(self, "unvisited"):
            self.unvisited: dict[int, list[Cell]] = {}
            self.goal: dict[int, Cell | None] = {}
        rows, columns = self.spaces.state.bins
        for slot in slots.tolist():
            self.unvisited[slot] = [
                (row, column if row % 2 == 0 else columns - 1 - column)
                for row in range(rows)
                for column in range(columns)
            ]
            self.goal[slot] = None

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Note where the last reward was paid before choosing."""
        for slot in slots.tolist():
            step = int(trials.step[slot])
            if step and trials.rewards[slot, step - 1] > 0:
                self.goal[slot] = _cell(trials.states[slot, step])
        return super().decide(trials, slots)

    def choose(self, slot: int, step: int, cell: Cell) -> int:
        """Walk towards the goal, or the next cell that was not visited yet."""
        left = self.unvisited[slot]
        if step and cell in left:
            left.remove(cell)
        target = self.goal[slot] or (left[0] if left else cell)
        (row, column), (to_row, to_column) = cell, target
        if row != to_row:
            return 2 if to_row > row else 0  # down, up
        if column != to_column:
            return 1 if to_column > column else 3  # right, left
        return 4  # wait


def _cell(state: NDArray[np.generic]) -> Cell:
    return tuple(int(value) for value in np.ravel(state))


def _register(name: str, actor: type[HeuristicActor]) -> None:
    def build(
        spaces: TaskSpaces, options: NoOptions, seed: int, embedder: Embedder | None
    ) -> Heuristic:
        return Heuristic(name, spaces, actor)

    METHODS.register(name, MethodEntry(NoOptions, build, learns=False))


_register("replay", ReplayActor)
_register("retrace", RetraceActor)
_register("sweep", SweepActor)
