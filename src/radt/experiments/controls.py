"""Control experiments: one agent with an empty memory, without exploration bonus, or untrained.

The same tasks, trials and random numbers each time; nothing is trained. A method that has no
exploration bonus is given that of `ra-dt+`, to tell what it would bring to others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from radt.checkpoint import untrained
from radt.experiments.experiment import Measurement, Row, Weights, add
from radt.experiments.grids import FIVE_MINUTES, KEY_RESET, ROOM_10X10
from radt.experiments.rows import answer_row
from radt.experiments.weights import about, opened, remembering, weights_file, write_answer
from radt.methods import Method
from radt.methods.exploration import ExplorationConfig, exploration_of, with_exploration
from radt.runs.roll_out import roll_out
from radt.track import Tracker

AS_IT_IS, EMPTY = "as it is", "nothing remembered"
COUNTS = ExplorationConfig(count_bonus=24.0, revisit_penalty=24.0)  # the weights of ra-dt+


def controls(method: Method, blank: Method) -> Iterator[tuple[str, Method]]:
    """Name each control and build it; `blank` is the method before its training."""
    plain, exploration = exploration_of(method)
    yield AS_IT_IS, method
    if hasattr(plain, "embedder"):
        yield EMPTY, remembering(method, {"store_above": math.inf})
    if exploration == ExplorationConfig():
        yield "with exploration bonus", with_exploration(plain, COUNTS)
    else:
        yield "nothing counted", plain
    yield "untrained", blank


def ask(weights: Sequence[Weights], out: Path) -> None:
    """Let every control of one agent roll out the same trials, and write what came out."""
    (one,) = weights
    method, card, trials = opened(one)
    blank = untrained(weights_file(one.place), card)
    lines = [
        {"control": name, "returns": roll_out(each, trials, Tracker()).returns.tolist()}
        for name, each in controls(method, blank)
    ]
    record = {**about(one, card, trials), "action_rule": asdict(trials.rule)}
    write_answer(out, {**record, "controls": lines})


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each control; what the agent's memory brings is what the empty one lacks."""
    returns = {line["control"]: np.array([line["returns"]]) for line in answer["controls"]}
    return [
        answer_row(answer, name, found, returns.get(EMPTY) if name == AS_IT_IS else None)
        for name, found in returns.items()
    ]


add(
    name="controls",
    paper="Not in the paper: what an agent's memory, its exploration bonus and its training "
    "each bring.",
    kind="reuse",
    studies=(
        ROOM_10X10.only("ad", "dpt", "ra-dt", "ra-dt-tuned", "ra-dt+"),
        KEY_RESET.only("ra-dt+"),
        FIVE_MINUTES["dark-room-20x20"].only("ra-dt+"),
    ),
    weights_of=("dark-room", "key-door", "five-minutes"),
    measurement=Measurement(ask, rows),
)
