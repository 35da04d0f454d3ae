"""Remembering the way and not the wandering: trials without their unrewarded loops.

A first success is found by wandering, and who imitates it wanders again. Where a trial came back to
a state without a reward in between, what lay between taught nothing, and nor did what came after
its last reward: both are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from radt.trajectory import Trajectory


def without_loops(trial: Trajectory) -> Trajectory:
    """Leave out loops that earned nothing and what came after the last reward.

    All rewards above 0 stay, and so does their order. A trial without any loses its loops alone.
    States are the same place where their numbers are equal.
    """
    way: list[int] = []  # steps that stay
    places: dict[bytes, int] = {}  # since the last reward: a state -> its place on the way
    paid = np.flatnonzero(trial.rewards > 0)
    for step, state in enumerate(trial.states[: paid[-1] + 1 if len(paid) else None]):
        here = state.tobytes()
        if here in places:
            loop = slice(places[here], None)
            for left in way[loop]:
                del places[trial.states[left].tobytes()]
            del way[loop]
        places[here] = len(way)
        way.append(step)
        if trial.rewards[step] > 0:
            places.clear()
    return replace(
        trial, states=trial.states[way], actions=trial.actions[way], rewards=trial.rewards[way]
    )
