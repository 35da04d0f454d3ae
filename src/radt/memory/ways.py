"""Remembering the way and not the wandering: trials without their unrewarded loops.

A first success is found by wandering, and who imitates it wanders again. Where a trial came back to
a state without a reward in between, what lay between taught nothing, so it is left out.
"""

from __future__ import annotations

from dataclasses import replace

from radt.trajectory import Trajectory


def without_loops(trial: Trajectory) -> Trajectory:
    """Leave out every loop that earned nothing; all rewards stay, and so does their order."""
    way: list[int] = []  # steps that stay
    places: dict[bytes, int] = {}  # since the last reward: a state -> its place on the way
    for step, state in enumerate(trial.states):
        here = state.tobytes()
        if here in places:
            loop = slice(places[here], None)
            for left in way[loop]:
                del places[trial.states[left].tobytes()]
            del way[loop]
        places[here] = len(way)
        way.append(step)
        if trial.rewards[step]:
            places.clear()
    return replace(
        trial, states=trial.states[way], actions=trial.actions[way], rewards=trial.rewards[way]
    )
