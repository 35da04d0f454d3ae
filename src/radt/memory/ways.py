"""Remembering the way and not the wandering: trials without their unrewarded loops.

A first success is found by wandering, and who imitates it wanders again. Where a trial came back to
a state without a reward in between, what lay between taught nothing, and nor did what came after
its last reward: both are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from radt.trajectory import Trajectory


def without_loops(trial: Trajectory) -> Trajectory:
    """Leave out loops that earned nothing and what came after the last reward.

    All rewards above 0 stay, and so does their order. A trial without any loses its loops alone.
    States are the same place where their numbers are equal.
    """
    places = [state.tobytes() for state in trial.states]
    ends = (np.flatnonzero(trial.rewards > 0) + 1).tolist() or [len(trial)]
    legs = pairwise([0, *ends])  # from one reward to the next
    way = [first + step for first, end in legs for step in loop_erased(places[first:end])]
    return replace(
        trial, states=trial.states[way], actions=trial.actions[way], rewards=trial.rewards[way]
    )


def loop_erased(places: Sequence[Hashable]) -> list[int]:
    """Return the steps of a way that are left when every loop is cut out."""
    way: list[int] = []
    reached: dict[Hashable, int] = {}  # where on the way each of its places is
    for step, place in enumerate(places):
        if place in reached:
            loop = slice(reached[place], None)
            for left in way[loop]:
                del reached[places[left]]
            del way[loop]
        reached[place] = len(way)
        way.append(step)
    return way
