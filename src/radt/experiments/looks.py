"""Entries that only look: inside trained agents, and at how the sources of the data learned."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from radt.analyses import look
from radt.data import Dataset
from radt.experiments.experiment import Measurement, Study, Weights, add
from radt.experiments.grids import EXPERTS, MAZES, ROOM_10X10, ROWS
from radt.experiments.weights import opened
from radt.plots.source import draw_source
from radt.track import Tracker

MEMORY = ROOM_10X10.only("ra-dt", "ra-dt+")
ALL = ROOM_10X10.only(*ROWS)  # side by side


def ask(analysis: str, most: int, weights: Sequence[Weights], out: Path) -> None:
    """Look at trained weights in so many trials at most."""
    agents = [(method, trials) for method, _, trials in (opened(one, most) for one in weights)]
    look(analysis, agents, out.with_suffix(".png"), Tracker()).write()


def ask_data(datasets: Sequence[Path], out: Path) -> None:
    """Draw what the sources of some data earned while they were recorded."""
    draw_source([Dataset.open(folder) for folder in datasets], out.with_suffix(".png"))


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

CURVES = Measurement(ask_data, together=True)
add(
    name="key-door-data",
    paper="Learning curves of the data source: PPO solves Dark Key-Door.",
    kind="data",
    studies=(
        Study("dark-key-door-10x10", ("ra-dt",), 1, ("collect.privileged=false",)),
        Study("dark-key-door-10x10", ("ra-dt",), 1),
        Study("dark-key-door-10x10-persist", ("ra-dt",), 1),
    ),
    measurement=CURVES,
)
add(
    name="maze-data",
    paper="Learning curves of the data source: PPO with an LSTM earns about 1 in 100 mazes.",
    kind="data",
    studies=(Study(MAZES, ("ra-dt", EXPERTS[0]), 1),),
    measurement=CURVES,
)
