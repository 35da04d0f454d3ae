"""Looks inside trained agents as entries: attention, visits, delusions, retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from radt.analyses.attention import analyse_attention
from radt.analyses.delusions import analyse_delusions
from radt.analyses.retrieval import analyse_retrieval
from radt.analyses.shared import drawable, record_trials
from radt.analyses.visits import analyse_visits
from radt.experiments.dark_room import ROOM_10X10, ROWS
from radt.experiments.experiment import Experiment, Measurement, Study, Weights, add
from radt.experiments.weights import opened
from radt.track import Tracker

Ask = Callable[[Sequence[Weights], Path], None]

STEPS = (1, 5, 10)  # whose attention is drawn
TRIALS = {"attention": 15, "visits": 8, "delusions": 20, "retrieval": 8}


def attention(weights: Sequence[Weights], out: Path) -> None:
    """Draw what a retrieved chunk is looked at for, and measure whether it is imitated."""
    method, _, trials = opened(weights[0], TRIALS["attention"])
    analyse_attention(method, trials, out.with_suffix(".png"), STEPS, Tracker()).write()


def visits(weights: Sequence[Weights], out: Path) -> None:
    """Draw where an agent goes."""
    method, _, trials = opened(weights[0], TRIALS["visits"])
    drawable(trials)
    analyse_visits(record_trials(method, trials, Tracker()), out.with_suffix(".png")).write()


def delusions(weights: Sequence[Weights], out: Path) -> None:
    """Count trials that end in a few states, of all agents side by side."""
    loaded = [opened(one, TRIALS["delusions"]) for one in weights]
    runs = [record_trials(method, trials, Tracker()) for method, _, trials in loaded]
    analyse_delusions(runs, out.with_suffix(".png")).write()


def retrieval(weights: Sequence[Weights], out: Path) -> None:
    """Measure what is retrieved: of which task, how similar, how good."""
    method, _, trials = opened(weights[0], TRIALS["retrieval"])
    analyse_retrieval(method, trials, out.with_suffix(".png"), Tracker()).write()


WITH_MEMORY = (ROOM_10X10.only("ra-dt", "ra-dt+"),)

MEASURED: tuple[tuple[Ask, str, tuple[Study, ...]], ...] = (
    (attention, "Attention maps: a good chunk is imitated, a bad one is avoided.", WITH_MEMORY),
    (visits, "State visitations: a room is explored until its goal is found.", WITH_MEMORY),
    (delusions, "Delusions: DT repeats itself where RA-DT does not.", (ROOM_10X10.only(*ROWS),)),
    (retrieval, "Not in the paper: what is retrieved, and from which task.", WITH_MEMORY),
)
for ask, paper, studies in MEASURED:
    add(
        Experiment(
            name=ask.__name__,
            paper=paper,
            kind="reuse",
            studies=studies,
            weights_of=("dark-room",),
            measurement=Measurement(ask, together=ask is delusions, verdict="verdict"),
        )
    )
