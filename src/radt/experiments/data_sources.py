"""How the sources of the data learned: the curves behind what methods learn from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from radt.data import Dataset
from radt.experiments.experiment import Measurement, Study, add
from radt.experiments.mazerunner import ENV, EXPERTS
from radt.files import atomic_write
from radt.plots.source import source_curve, source_picture


def ask(datasets: Sequence[Path], out: Path) -> None:
    """Draw what the sources of some data earned while they were recorded."""
    opened = [Dataset.open(folder) for folder in datasets]
    curves = [source_curve(one) for one in opened]
    source_picture(curves).save(out.with_suffix(".png"))
    atomic_write(out, (json.dumps([asdict(curve) for curve in curves], indent=1) + "\n").encode())


CURVES = Measurement(ask, together=True)

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
    studies=(Study(ENV, ("ra-dt", EXPERTS[0]), 1),),
    measurement=CURVES,
)
