"""Looks inside trained agents as entries: attention, visits, delusions, retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from radt.analyses.look import look
from radt.experiments.dark_room import ROOM_10X10, ROWS
from radt.experiments.experiment import Measurement, Weights, add
from radt.experiments.weights import opened
from radt.track import Tracker

MEMORY = ROOM_10X10.only("ra-dt", "ra-dt+")
ALL = ROOM_10X10.only(*ROWS)  # side by side


def ask(analysis: str, most: int, weights: Sequence[Weights], out: Path) -> None:
    """Look at trained weights in so many trials at most."""
    agents = [(method, trials) for method, _, trials in (opened(one, most) for one in weights)]
    look(analysis, agents, out.with_suffix(".png"), Tracker()).write()


for name, trials, study, paper in (
    ("attention", 15, MEMORY, "Attention maps: a good chunk is imitated, a bad one is avoided."),
    ("visits", 8, MEMORY, "State visitations: a room is explored until its goal is found."),
    ("delusions", 20, ALL, "Delusions: DT repeats itself where RA-DT does not."),
    ("retrieval", 8, MEMORY, "Not in the paper: what is retrieved, and from which task."),
):
    measurement = Measurement(partial(ask, name, trials), together=study is ALL, verdict="verdict")
    add(
        name=name,
        paper=paper,
        kind="reuse",
        studies=(study,),
        weights_of=("dark-room",),
        measurement=measurement,
    )
