"""The same weights otherwise: with another memory or bonus, untrained, by the authors' rules of AD.

Nothing is trained. All that one agent is asked has the same tasks, trials and random numbers. Where
another memory is asked, one control with an erased memory serves all: nothing that is changed there
matters to an empty one.

The code of the paper's authors takes AD's best action where it samples RA-DT's, and leaves
attention dropout on while AD acts: what that costs AD is measured one change at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.action_rules import ActionRule, named_rule
from radt.checkpoint import untrained
from radt.experiments.ablations import GAPS
from radt.experiments.experiment import ERASED, Measurement, Row, Verdict, Weights, add
from radt.experiments.grids import FIVE_MINUTES, KEY_RESET, ROOM_10X10
from radt.experiments.page import arms_picture
from radt.experiments.rows import answer_row
from radt.experiments.verdicts import CLOSE, NEAR, Above, all_above, found
from radt.experiments.weights import about, opened, remembering, weights_file, write_answer
from radt.methods import Method
from radt.methods.ad import AD
from radt.methods.exploration import ExplorationConfig, exploration_of, with_exploration
from radt.model.attention import SelfAttention
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


def rows_of_arms(answer: Mapping[str, Any]) -> list[Row]:
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
            asks({f"ra-dt@{option}-{value}": {option: value} for value in values}),
            rows_of_arms,
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
    measurement=Measurement(asks({}, LONGER), rows_of_arms),
    picture=arms_picture,
)

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


def ask_controls(weights: Sequence[Weights], out: Path) -> None:
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


def rows_of_controls(answer: Mapping[str, Any]) -> list[Row]:
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
    measurement=Measurement(ask_controls, rows_of_controls),
)

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


def ask_ways(weights: Sequence[Weights], out: Path) -> None:
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


def rows_of_ways(answer: Mapping[str, Any]) -> list[Row]:
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
    measurement=Measurement(ask_ways, rows_of_ways),
)
