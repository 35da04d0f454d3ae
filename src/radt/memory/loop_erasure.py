"""Loop-erased trajectories: a trial without its unrewarded detours.

A first success is found by wandering, and an agent that imitates it wanders again. Where a trial
came back to a state without a reward in between, what lay between taught nothing, and nor did what
came after its last reward: both are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from radt.trajectory import Trajectory


def loop_erased_trial(trial: Trajectory) -> Trajectory:
    """Leave out loops that earned nothing and what came after the last reward.

    All rewards above 0 stay, and so does their order. A trial without any loses its loops alone.
    States are the same place where their numbers are equal.
    """
    places = [state.tobytes() for state in trial.states]
    ends = (np.flatnonzero(trial.rewards > 0) + 1).tolist() or [len(trial)]
    parts = pairwise([0, *ends])  # from one reward to the next
    path = [first + step for first, end in parts for step in loop_erased(places[first:end])]
    return replace(
        trial, states=trial.states[path], actions=trial.actions[path], rewards=trial.rewards[path]
    )


def loop_erased(places: Sequence[Hashable]) -> list[int]:
    """Return the steps of a path that are left when every loop is cut out."""
    path: list[int] = []
    reached: dict[Hashable, int] = {}  # where on the path each of its places is
    for step, place in enumerate(places):
        if place in reached:
            loop = slice(reached[place], None)
            for left in path[loop]:
                del reached[places[left]]
            del path[loop]
        reached[place] = len(path)
        path.append(step)
    return path
