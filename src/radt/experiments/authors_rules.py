"""What the authors' way of evaluating Algorithm Distillation costs it.

Their code takes AD's best action where it samples RA-DT's, and leaves attention dropout on while AD
acts. Here trained weights of AD roll out the same trials under our rule and under theirs, one
change at a time; nothing is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.agent import ActionRule
from radt.experiments.experiment import Measurement, Row, Weights, add
from radt.experiments.grids import ROOM_10X10
from radt.experiments.rows import answer_row
from radt.experiments.weights import about, opened, write_answer
from radt.methods import Method
from radt.methods.ad import AD
from radt.model.attention import SelfAttention
from radt.runs.roll_out import roll_out
from radt.track import Tracker

DROPOUT = 0.1  # of attention, in the authors' fused path
BEST = ActionRule(temperature=0.0)


WAYS: dict[str, tuple[ActionRule | None, float]] = {  # rule (None: the run's own), and dropout
    "as here": (None, 0.0),
    "best action": (BEST, 0.0),
    "attention dropout": (None, DROPOUT),
    "best action and attention dropout, as the authors": (BEST, DROPOUT),
}


@contextmanager
def dropped(method: Method, chance: float) -> Iterator[None]:
    """Leave attention dropout on while a method acts; a cache would skip it, so there is none."""
    if not chance:
        yield
        return
    if not isinstance(method, AD):
        raise TypeError(f"the authors' way is that of AD, not of {method.name}")
    options, act = method.options, method.actor
    attention = [part for part in method.policy.modules() if isinstance(part, SelfAttention)]

    def actor(slots: int) -> Any:
        made = act(slots)  # which puts the policy to rest
        for part in attention:
            part.train()
            part.dropout = chance
        return made

    method.options = replace(options, cache=False)
    method.actor = actor  # type: ignore[method-assign]
    yield
    for part in attention:
        part.eval()
    method.options, method.actor = options, act  # type: ignore[method-assign]


def ask(weights: Sequence[Weights], out: Path) -> None:
    """Evaluate trained weights of AD in every way, and write what came out."""
    (one,) = weights
    lines = []
    for way, (rule, dropout) in WAYS.items():
        method, card, usual = opened(one)
        trials = replace(usual, rule=rule or usual.rule)
        torch.manual_seed(card.seed)  # of the dropout
        with dropped(method, dropout):
            returns = roll_out(method, trials, Tracker()).returns  # [task, trial]
        acted = {"way": way, "action_rule": asdict(trials.rule)}
        lines.append({**acted, "returns": returns.tolist()})
    record = about(one, card, usual)
    write_answer(out, {**record, "dropout": DROPOUT, "ways": lines})


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each way."""
    return [
        answer_row({**answer, **line}, line["way"], np.array([line["returns"]]))
        for line in answer["ways"]
    ]


add(
    name="authors-rules",
    paper="Not in the paper: its code evaluates AD by the best action and with attention "
    "dropout on, RA-DT by samples and without.",
    kind="reuse",
    studies=(ROOM_10X10.only("ad"),),
    weights_of=("dark-room",),
    measurement=Measurement(ask, rows),
)
