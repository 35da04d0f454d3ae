"""What demonstrations buy: an agent's first trial with k expert episodes in its memory.

The paper's first item of future work. The episodes come from an oracle of the environment, since
the data hold none of the unseen tasks; nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from radt.errors import RunError
from radt.experiments.experiment import Measurement, Row, Weights, add
from radt.experiments.grids import KEY_KEPT, KEY_RESET, ROOM_10X10
from radt.experiments.rows import answer_row, mean_or_none
from radt.experiments.weights import about, opened, write_answer
from radt.memory.demonstrations import from_oracle
from radt.runs.evaluate import optima
from radt.runs.roll_out import roll_out
from radt.track import Tracker

TRIALS = 10  # of each task; the first is what this is about
SHOWN = ((0, 0.0), (1, 0.0), (1, 0.2), (4, 0.0), (4, 0.2))  # episodes, share of random steps


def ask(weights: Sequence[Weights], out: Path) -> None:
    """Show trained weights some demonstrations, and write what came of it."""
    (one,) = weights
    _, card, trials = opened(one, TRIALS)
    record = {**about(one, card, trials), "action_rule": asdict(trials.rule)}
    measured = [with_demonstrations(one, k, noise) for k, noise in SHOWN]
    write_answer(out, {**record, "measured": measured})


def with_demonstrations(one: Weights, k: int, noise: float) -> dict[str, Any]:
    """Fill a memory with k episodes of each unseen task and see what a trained agent earns."""
    method, card, trials = opened(one, TRIALS)
    own = method.actor(1).memory
    if own is None:
        raise RunError(f"{one.place} is trained with {one.label}, which has no memory to fill")
    memory = own.at("ram:")
    shown = [
        episode
        for task in trials.tasks
        for episode in from_oracle(trials.suite, task, k, card.seed, noise)
    ]
    memory.write(shown)
    entries = len(memory)
    returns = roll_out(method, trials, Tracker(), memory=memory).returns  # [task, trial]
    return {
        "episodes": k,
        "noise": noise,
        "entries": entries,
        "shown_return": mean_or_none([episode.total_return for episode in shown]),
        "optimum": mean_or_none(optima(trials)),
        "trial_1": float(returns[:, 0].mean()),
        "last_trial": float(returns[:, -1].mean()),
        "returns": returns.tolist(),
    }


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each number of episodes and noise."""
    return [
        answer_row(
            {**answer, **line, "optimum": [line["optimum"]]},
            f"{line['episodes']} episodes shown, {line['noise']:.0%} noise",
            np.array([line["returns"]]),
        )
        for line in answer["measured"]
    ]


add(
    name="demonstrations",
    paper="Future work of the paper: expert episodes in the memory before the first trial.",
    kind="reuse",
    studies=(
        ROOM_10X10.only("ra-dt+", "ra-dt"),
        KEY_RESET.only("ra-dt+"),
        KEY_KEPT.only("ra-dt+"),
    ),
    weights_of=("dark-room", "key-door"),
    measurement=Measurement(ask, rows),
)
