"""Exploration by counts around the methods: the same training, with and without them."""

from __future__ import annotations

from dataclasses import asdict

from radt.experiments.controls import COUNTS
from radt.experiments.experiment import Experiment, Study, add
from radt.variants import Variant, arm

PLAIN = ("ad", "dpt", "ra-dt")


def explores(row: str) -> Variant:
    """Let a row count while it acts, with the weights of `ra-dt+`."""
    note = "with the exploration wrapper of ra-dt+."
    return arm(f"{row}-counts", row, {"exploration": asdict(COUNTS)}, note=note)


EXPLORATION = add(
    Experiment(
        name="exploration",
        paper="Not in the paper: what exploration by counts brings to each method.",
        studies=(
            Study("dark-room-10x10", tuple(each for row in PLAIN for each in (row, explores(row)))),
        ),
    )
)
