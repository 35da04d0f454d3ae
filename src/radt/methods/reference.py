"""References that learn nothing: repeat what worked, the simplest thing that could.

`replay` walks at random until something is rewarded and then repeats the way that led there,
from one place that pays to the next, loops left out, action by action from the start. `retrace`
does the same by place instead of by time: wherever it stands on the known way, it goes on along it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from radt.memory.ways import loop_erased
from radt.methods.heuristic import Cell, HeuristicActor, Move, cell_of, register
from radt.trajectory import Trajectory


@dataclass(frozen=True)
class Leg:
    """The way to one place that pays, loops left out."""

    moves: tuple[Move, ...]
    place: Cell | None  # None: reached by the last step of a trial, so nobody saw it


@dataclass
class Known:
    """What `replay` knows of a task, and how far it is in the running trial."""

    legs: list[Leg] = field(default_factory=list)  # of the most promising trial
    paying: dict[Cell, dict[Cell, int]] = field(default_factory=dict)  # place -> rewarded moves
    lasting: set[Cell] = field(default_factory=set)  # places that paid twice in a trial
    done: int = 0  # legs of the running trial
    dry: set[Cell] = field(default_factory=set)  # paying places that did not pay since a reward

    @property
    def latest(self) -> Cell | None:
        """The place that was the last to be found paying."""
        return next(reversed(self.paying), None)


class ReplayActor(HeuristicActor):
    """Repeats the most promising trial, loops without reward left out, and stays where it paid."""

    by_place = False

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know no way and no reward."""
        if not hasattr(self, "known"):
            self.known: dict[int, Known] = {}
        for slot in slots.tolist():
            self.known[slot] = Known()

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Stand at the beginning of the way."""
        for slot in slots.tolist():
            self.known[slot].done = 0
            self.known[slot].dry.clear()

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep the way that promises most, of equals the shortest."""
        for trial in finished:
            if trial.total_return > 0:
                known = self.known[trial.task]
                legs = cut_legs(trial, known.latest, len(trial) < self.spaces.horizon)
                known.lasting |= lasting_places(trial)
                if not known.legs or self._promise(known, legs) > self._promise(known, known.legs):
                    known.legs = legs

    def _promise(self, known: Known, legs: Sequence[Leg]) -> tuple[int, int]:
        """Return what a trial earns that takes this way and stays where it leads."""
        length = sum(len(leg.moves) for leg in legs)
        stays = legs[-1].place in known.lasting
        return len(legs) + (self.spaces.horizon - length if stays else 0), -length

    def arrived(self, slot: int, moved: Move, cell: Cell, paid: bool) -> None:
        """Remember what was rewarded where, and which legs are done."""
        known = self.known[slot]
        if paid:
            known.paying.setdefault(cell, {})[moved[0]] = moved[1]
            known.dry.clear()
            known.legs = [
                replace(leg, place=cell) if leg.place is None and number == known.done else leg
                for number, leg in enumerate(known.legs)
            ]
        elif cell in known.paying:
            known.dry.add(cell)
        ahead = [leg.place for leg in known.legs[known.done :]]
        if cell in (ahead if paid else ahead[:1]):  # what pays early shortens the way
            known.done += ahead.index(cell) + 1

    def choose(self, slot: int, step: int, cell: Cell) -> int | None:
        """On the last leg follow what was rewarded, else the way, else chance."""
        known = self.known[slot]
        legs, at = known.legs, min(known.done, len(known.legs) - 1)
        if at == len(legs) - 1:  # the last leg, or no way is known
            place = legs[at].place if legs else known.latest
            if place in known.dry:
                return None
            if place is not None and cell in known.paying.get(place, {}):
                return known.paying[place][cell]
        if self.by_place:
            return dict(legs[at].moves).get(cell) if legs else None
        for leg in legs:
            if step < len(leg.moves):
                return leg.moves[step][1]
            step -= len(leg.moves)
        return None


class RetraceActor(ReplayActor):
    """Follows the known way from any place on it."""

    by_place = True


def cut_legs(trial: Trajectory, unseen: Cell | None, early: bool = False) -> list[Leg]:
    """Cut a trial at each place's first reward; `unseen` is where its last step may have led.

    A trial that ends `early` with a reward ends at a place of its own, which nobody sees.
    """
    moves = [(cell_of(s), int(a)) for s, a in zip(trial.states, trial.actions, strict=True)]
    legs: list[Leg] = []
    begun = 0
    for step in np.flatnonzero(trial.rewards > 0).tolist():
        last = legs[-1].place if legs else unseen  # the best guess where the trial ends
        final = step + 1 == len(moves)
        place = (None if early else last) if final else moves[step + 1][0]
        if place is None or place not in [leg.place for leg in legs]:
            part = moves[begun : step + 1]
            way = tuple(part[at] for at in loop_erased([cell for cell, _ in part]))
            legs.append(Leg(way, place))
            begun = step + 1
    return legs


def lasting_places(trial: Trajectory) -> set[Cell]:
    """Return the places that paid more than once."""
    paid = np.flatnonzero(trial.rewards[:-1] > 0) + 1
    visits = Counter(cell_of(trial.states[step]) for step in paid.tolist())
    return {place for place, count in visits.items() if count > 1}


register("replay", ReplayActor)
register("retrace", RetraceActor)
