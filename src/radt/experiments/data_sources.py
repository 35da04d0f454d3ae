"""How the sources of the data learned: the curves behind what methods learn from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radt.data import Dataset
from radt.experiments.experiment import Experiment, Measurement, Study, add
from radt.experiments.mazerunner import ENV, EXPERTS
from radt.plots.source import draw_source


def ask(datasets: Sequence[Path], out: Path) -> None:
    """Draw what the sources of some data earned while they were recorded."""
    draw_source([Dataset.open(folder) for folder in datasets], out.with_suffix(".png"))


CURVES = Measurement(ask, together=True)

add(
    Experiment(
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
)
add(
    Experiment(
        name="maze-data",
        paper="Learning curves of the data source: PPO with an LSTM earns about 1 in 100 mazes.",
        kind="data",
        studies=(Study(ENV, ("ra-dt", EXPERTS[0]), 1),),
        measurement=CURVES,
    )
)
