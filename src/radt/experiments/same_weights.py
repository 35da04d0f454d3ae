"""The same weights with another memory: alpha at inference, steps between retrievals, 200 trials.

Nothing is trained. Every arm has the same tasks and random numbers, and one control with an erased
memory serves all of them: nothing that is changed here matters to an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from radt.action_rules import named_rule
from radt.experiments.ablations import GAPS
from radt.experiments.experiment import ERASED, Measurement, Row, Verdict, Weights, add
from radt.experiments.grids import ROOM_10X10
from radt.experiments.page import arms_picture
from radt.experiments.rows import answer_row
from radt.experiments.verdicts import CLOSE, NEAR, Above, all_above, found
from radt.experiments.weights import about, opened, remembering, write_answer
from radt.runs.roll_out import roll_out
from radt.track import Tracker

ENV = ROOM_10X10.env
RULES = ("paper", "explore-exploit")
ALPHAS = (0, 0.1, 0.5, 1, 2, 10)
STEPS = (1, 5, 10, 25, 50, 0)  # between retrievals; 0: once a trial
LONGER = 5  # times as many trials: 200 instead of 40

Arms = Mapping[str, Mapping[str, Any]]  # what is changed about the memory, by label


def asks(arms: Arms, longer: int = 1) -> Callable[[Sequence[Weights], Path], None]:
    """Say how arms are asked of weights: all by each rule, with so many times as many trials."""

    def ask(weights: Sequence[Weights], out: Path) -> None:
        (one,) = weights
        method, card, usual = opened(one)
        lines = []
        for rule in RULES:
            acting = replace(usual, rule=named_rule(rule, card.method), count=longer * usual.count)
            erased = roll_out(method, replace(acting, control=ERASED), Tracker()).returns
            for label, changes in (arms or {one.label: {}}).items():
                earned = roll_out(remembering(method, changes), acting, Tracker()).returns
                lines.append(
                    {
                        "label": label,
                        "rule": rule,
                        "action_rule": asdict(acting.rule),
                        "memory": dict(changes),
                        "returns": earned.tolist(),
                        "erased": erased.tolist(),
                    }
                )
        write_answer(out, {**about(one, card, usual), "arms": lines})

    return ask


def rows(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each arm and rule."""
    return [
        answer_row({**answer, **line}, "", np.array([line["returns"]]), np.array([line["erased"]]))
        for line in answer["arms"]
    ]


def near_the_optimum(told: Sequence[Row]) -> Verdict:
    """Judge whether AD and DPT end near the optimum."""
    ends = {label: found(told, ENV, label) for label in ("ad", "ad@gap-50", "dpt")}
    known = {label: row["normalised"] for label, row in ends.items() if row is not None}
    why = "; ".join(f"{label}: {share:.0%} of the optimum" for label, share in known.items())
    if "dpt" not in known or len(known) < 2:
        return Verdict("open", why or "neither AD nor DPT is measured")
    best = max(share for label, share in known.items() if label != "dpt")
    return Verdict("holds" if min(best, known["dpt"]) >= NEAR else "does not", why)


for name, option, values, paper, claim, judge in (
    (
        "ablate-alpha-eval",
        "alpha",
        ALPHAS,
        "Figure 11b: at inference RA-DT does well for a range of alpha; 0 is worse.",
        "C11",
        all_above(
            ENV,
            *(Above(f"ra-dt@alpha-{alpha}", "ra-dt@alpha-1", -CLOSE) for alpha in (0.5, 2)),
            Above("ra-dt@alpha-1", "ra-dt@alpha-0"),
        ),
    ),
    (
        "ablate-retrieval-interval",
        "retrieve_every",
        STEPS,
        "Appendix D.6: more steps between retrievals cost little.",
        "C15",
        all_above(ENV, Above("ra-dt@retrieve_every-25", "ra-dt@retrieve_every-1", -CLOSE)),
    ),
):
    add(
        name=name,
        paper=paper,
        kind="reuse",
        studies=(ROOM_10X10.only("ra-dt"),),
        weights_of=("dark-room",),
        claims={claim: judge},
        measurement=Measurement(
            asks({f"ra-dt@{option}-{value}": {option: value} for value in values}), rows
        ),
        picture=arms_picture,
    )

add(
    name="200-trials",
    paper="Appendix D.11: given 200 trials, AD (with K = 50) and DPT go on towards the optimum.",
    kind="reuse",
    studies=(ROOM_10X10.only("ad", "dpt"), GAPS.only("ad@gap-50")),
    weights_of=("dark-room", "ad-gap"),
    claims={"C19": near_the_optimum},
    measurement=Measurement(asks({}, LONGER), rows),
    picture=arms_picture,
)
