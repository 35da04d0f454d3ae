"""References that learn nothing, the simplest things that could work.

`replay` walks at random until a reward and then repeats the loop-erased path that led there, from
one rewarded cell to the next, action by action from the start. Continuous actions know no cells:
there it repeats what its best trial did up to its first reward, and rests. `retrace` goes by cell
instead of by time: wherever it stands on the path, it goes on along it. `sweep` knows that it acts
on a grid: it visits every cell in turn and then walks straight to the one that was rewarded. Where
that one pays only once, as a key does, it goes on from there and visits every cell again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.loop_erasure import loop_erased
from radt.methods.heuristic import Cell, HeuristicActor, Move, RandomActor, cell_of, register
from radt.methods.trials import RunningTrials
from radt.spaces import StateKind, TaskSpaces
from radt.trajectory import Trajectory


@dataclass(frozen=True)
class Segment:
    """The loop-erased path to one rewarded cell."""

    moves: tuple[Move, ...]
    place: Cell | None  # None: reached by the last step of a trial, so nobody saw it


@dataclass
class Known:
    """What `replay` knows of a task, and how far it is in the running trial."""

    segments: list[Segment] = field(default_factory=list)  # of the most promising trial
    paying: dict[Cell, dict[Cell, int]] = field(default_factory=dict)  # place -> rewarded moves
    lasting: set[Cell] = field(default_factory=set)  # places that paid twice in a trial
    done: int = 0  # segments of the running trial
    dry: set[Cell] = field(default_factory=set)  # paying places that did not pay since a reward

    @property
    def latest(self) -> Cell | None:
        """The place that was the last to be found paying."""
        return next(reversed(self.paying), None)


class ReplayActor(HeuristicActor):
    """Repeats the most promising trial, loops without reward left out, and stays where it paid."""

    by_place = False

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know no path and no reward."""
        if not hasattr(self, "known"):
            self.known: dict[int, Known] = {}
        for slot in slots.tolist():
            self.known[slot] = Known()

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Stand at the start of the path."""
        for slot in slots.tolist():
            self.known[slot].done = 0
            self.known[slot].dry.clear()

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep the path that promises most, of equals the shortest."""
        for trial in finished:
            if trial.total_return > 0:
                known = self.known[trial.task]
                segments = cut_segments(trial, known.latest, len(trial) < self.spaces.horizon)
                known.lasting |= lasting_places(trial)
                if not known.segments or self._promise(known, segments) > self._promise(
                    known, known.segments
                ):
                    known.segments = segments

    def _promise(self, known: Known, segments: Sequence[Segment]) -> tuple[int, int]:
        """Return what a trial earns that takes this path and stays where it leads."""
        length = sum(len(segment.moves) for segment in segments)
        stays = segments[-1].place in known.lasting
        return len(segments) + (self.spaces.horizon - length if stays else 0), -length

    def arrived(self, slot: int, moved: Move, cell: Cell, paid: bool) -> None:
        """Remember what was rewarded where, and which segments are done."""
        known = self.known[slot]
        if paid:
            known.paying.setdefault(cell, {})[moved[0]] = moved[1]
            known.dry.clear()
            known.segments = [
                replace(segment, place=cell)
                if segment.place is None and number == known.done
                else segment
                for number, segment in enumerate(known.segments)
            ]
        elif cell in known.paying:
            known.dry.add(cell)
        ahead = [segment.place for segment in known.segments[known.done :]]
        if cell in (ahead if paid else ahead[:1]):  # what pays early shortens the path
            known.done += ahead.index(cell) + 1

    def choose(self, slot: int, step: int, cell: Cell) -> int | None:
        """On the last segment follow what was rewarded, else the path, else act at random."""
        known = self.known[slot]
        segments, at = known.segments, min(known.done, len(known.segments) - 1)
        if at == len(segments) - 1:  # the last segment, or no path is known
            place = segments[at].place if segments else known.latest
            if place in known.dry:
                return None
            if place is not None and cell in known.paying.get(place, {}):
                return known.paying[place][cell]
        if self.by_place:
            return dict(segments[at].moves).get(cell) if segments else None
        for segment in segments:
            if step < len(segment.moves):
                return segment.moves[step][1]
            step -= len(segment.moves)
        return None


class RetraceActor(ReplayActor):
    """Follows the known path from any cell on it."""

    by_place = True


def cut_segments(trial: Trajectory, unseen: Cell | None, early: bool = False) -> list[Segment]:
    """Cut a trial at each place's first reward; `unseen` is where its last step may have led.

    A trial that ends `early` with a reward ends at a place of its own, which nobody sees.
    """
    moves = [(cell_of(s), int(a)) for s, a in zip(trial.states, trial.actions, strict=True)]
    segments: list[Segment] = []
    begun = 0
    for step in np.flatnonzero(trial.rewards > 0).tolist():
        last = segments[-1].place if segments else unseen  # the best guess where the trial ends
        final = step + 1 == len(moves)
        place = (None if early else last) if final else moves[step + 1][0]
        if place is None or place not in [segment.place for segment in segments]:
            part = moves[begun : step + 1]
            path = tuple(part[at] for at in loop_erased([cell for cell, _ in part]))
            segments.append(Segment(path, place))
            begun = step + 1
    return segments


def lasting_places(trial: Trajectory) -> set[Cell]:
    """Return the places that paid more than once."""
    paid = np.flatnonzero(trial.rewards[:-1] > 0) + 1
    visits = Counter(cell_of(trial.states[step]) for step in paid.tolist())
    return {place for place, count in visits.items() if count > 1}


class RepeatActor(RandomActor):
    """Repeats the actions of its best trial up to the first reward, and then none."""

    def forget(self, slots: NDArray[np.int64]) -> None:
        if not hasattr(self, "best"):
            self.best: dict[int, Trajectory] = {}
        for slot in slots.tolist():
            self.best.pop(slot, None)

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep the trial that earned most, of equals the first."""
        for trial in finished:
            known = self.best.get(trial.task)
            if trial.total_return > (0.0 if known is None else known.total_return):
                self.best[trial.task] = trial

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Act by time where a success is known, else at random, [B, action_size]."""
        decided = super().decide(trials, slots)
        for row, slot in enumerate(slots.tolist()):
            if (trial := self.best.get(slot)) is not None:
                step, paid = int(trials.step[slot]), int(np.argmax(trial.rewards > 0))
                own = trial.actions[step] if step <= paid else np.zeros_like(trial.actions[0])
                decided[row] = torch.from_numpy(own)
        return decided


register("replay", ReplayActor, RepeatActor)
register("retrace", RetraceActor)


@dataclass
class Search:
    """What `sweep` knows of a task, and how far it is in the running trial."""

    unvisited: list[Cell]  # since the last errand
    errands: list[Cell] = field(default_factory=list)  # places that pay once, in their order
    goal: Cell | None = None  # the place that paid last
    done: int = 0  # errands of the running trial


class SweepActor(HeuristicActor):
    """Visits every cell of a grid in boustrophedon order, then walks straight to the goal."""

    reads: tuple[StateKind, ...] = ("discrete",)  # and it has to know how many there are

    @classmethod
    def problem_with(cls, spaces: TaskSpaces) -> str | None:
        """Ask for a grid, also where states are discrete."""
        if problem := super().problem_with(spaces):
            return problem
        on_grid = len(spaces.state.bins) == 2 and spaces.action.size == 5
        return None if on_grid else "needs rows, columns and the five moves of a grid"

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Have every cell still to visit."""
        if not hasattr(self, "searches"):
            self.searches: dict[int, Search] = {}
        for slot in slots.tolist():
            self.searches[slot] = Search(self._every_cell())

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Have every errand to do again."""
        for slot in slots.tolist():
            self.searches[slot].done = 0

    def _every_cell(self) -> list[Cell]:
        rows, columns = self.spaces.state.bins
        return [
            (row, column if row % 2 == 0 else columns - 1 - column)
            for row in range(rows)
            for column in range(columns)
        ]

    def arrived(self, slot: int, moved: Move, cell: Cell, paid: bool) -> None:
        """Note what pays, and what does not pay any more."""
        search = self.searches[slot]
        if search.done < len(search.errands):
            if cell == search.errands[search.done]:
                if paid:
                    search.done += 1
                else:  # it pays no more, in this trial and later ones
                    search.errands.pop(search.done)
        elif paid:
            search.goal = cell
        elif cell == search.goal:  # it paid once: an errand, after which the search begins anew
            search.errands.append(cell)
            search.done, search.goal = len(search.errands), None
            search.unvisited = self._every_cell()

    def choose(self, slot: int, step: int, cell: Cell) -> int:
        """Walk to the next errand, else the goal, else the next cell that was not visited yet."""
        search = self.searches[slot]
        if search.done < len(search.errands):
            return _towards(cell, search.errands[search.done])
        if step and cell in search.unvisited:
            search.unvisited.remove(cell)
        return _towards(cell, search.goal or next(iter(search.unvisited), cell))


def _towards(cell: Cell, target: Cell) -> int:
    """Return the action that leads nearer, row first."""
    (row, column), (to_row, to_column) = cell, target
    if row != to_row:
        return 2 if to_row > row else 0  # down, up
    if column != to_column:
        return 1 if to_column > column else 3  # right, left
    return 4  # wait


register("sweep", SweepActor)
