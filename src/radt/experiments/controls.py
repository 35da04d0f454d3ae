"""Control experiments: one agent with an empty memory, without exploration bonus, or untrained.

The same tasks, trials and random numbers each time; nothing is trained. A method that has no
exploration bonus is given that of `ra-dt+`, to tell what it would bring to others.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from radt.checkpoint import untrained
from radt.envs.suite import success_threshold
from radt.experiments.dark_room import ROOM_10X10, ROOM_20X20, SIX_MINUTES, TWENTY_MINUTES
from radt.experiments.experiment import Experiment, Measurement, Row, Weights, add
from radt.experiments.key_door import KEY_RESET
from radt.experiments.rows import answer_row
from radt.experiments.weights import opened, weights_file, write_answer
from radt.methods import Method
from radt.methods.exploration import ExplorationConfig, exploration_of, with_exploration
from radt.runs.evaluate import optima, roll_out
from radt.track import Tracker

AS_IT_IS, EMPTY = "as it is", "nothing remembered"
COUNTS = ExplorationConfig(count_bonus=24.0, revisit_penalty=24.0)  # the weights of ra-dt+


def controls(method: Method, blank: Method) -> Iterator[tuple[str, Method]]:
    """Name each control and build it; `blank` is the method before its training."""
    plain, exploration = exploration_of(method)
    yield "as it is", method
    if hasattr(plain, "embedder"):
        yield "nothing remembered", with_exploration(storing_nothing(plain), exploration)
    if exploration == ExplorationConfig():
        yield "with exploration bonus", with_exploration(plain, COUNTS)
    else:
        yield "nothing counted", plain
    yield "untrained", blank


def storing_nothing(method: Method) -> Method:
    """Copy a method whose memory stays empty."""
    changed: Any = copy.copy(method)
    memory = replace(changed.options.memory, store_above=math.inf)
    changed.options = replace(changed.options, memory=memory)
    return cast(Method, changed)


def ask(weights: Sequence[Weights], out: Path) -> None:
    """Let every control of one agent roll out the same trials, and write what came out."""
    (one,) = weights
    method, card, trials = opened(one)
    blank = untrained(weights_file(one.place), card)
    lines = [
        {"control": name, "returns": roll_out(each, trials, Tracker()).returns.tolist()}
        for name, each in controls(method, blank)
    ]
    record = {
        "env": card.env,
        "label": one.label,
        "method": card.method,
        "seed": card.seed,
        "trained_by": card.code_version,
        "tasks": list(trials.tasks),
        "optimum": optima(trials),
        "success_above": success_threshold(trials.suite, trials.tasks),
        "action_rule": asdict(trials.rule),
    }
    write_answer(out, {**record, "controls": lines})


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each control; what the agent's memory brings is what the empty one lacks."""
    returns = {line["control"]: np.array([line["returns"]]) for line in answer["controls"]}
    return [
        answer_row(answer, name, found, returns.get(EMPTY) if name == AS_IT_IS else None)
        for name, found in returns.items()
    ]


CONTROLS = add(
    Experiment(
        name="controls",
        paper="Not in the paper: what an agent's memory, its exploration bonus and its training "
        "each bring.",
        kind="reuse",
        studies=(
            ROOM_10X10.only("ra-dt+"),
            KEY_RESET.only("ra-dt+"),
            ROOM_20X20.only("ra-dt+"),
            SIX_MINUTES.only("dt-2ep", "ad", "dpt", "ra-dt"),
            TWENTY_MINUTES.only("ad"),
        ),
        weights_of=("dark-room", "key-door"),
        measurement=Measurement(ask, rows),
    )
)
