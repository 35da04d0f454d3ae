"""Robots, section 4.4: unseen tasks of Meta-World and DMControl; and where the goal is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from radt.experiments.experiment import Study, add
from radt.experiments.verdicts import best_without_improving
from radt.variants import arm

CONTROLS = ("erased", "other-task", "random-own")


def robots(env: str, **settings: Any) -> tuple[Study, ...]:
    """Run two rows with three seeds and the others with one, as far as two cores go."""
    many = Study(env, ("dt", "ra-dt-tuned"), controls=CONTROLS, **settings)
    return many, replace(many, rows=("ad", "dpt", "ra-dt", "ra-dt-lm"), seeds=1)


META_WORLD = add(
    name="meta-world",
    paper="ML5, 30 trials: mean return of RA-DT 337.9, DT 195.7, AD 192.9, DPT 127.2; on the "
    "45 training tasks DT is above RA-DT; nobody improves in context.",
    studies=robots("meta-world"),
    claims={"C6": best_without_improving("meta-world", below_on=("ml45", "train"))},
    note="The data are of scripted policies with falling noise, not of SAC as the paper's.",
)
DM_CONTROL = add(
    name="dm-control",
    paper="DMC5, 30 trials: mean return of RA-DT 444.0, DT 311.4, DPT 282.7, AD 154.6; nobody "
    "improves in context.",
    studies=robots("dm-control"),
    claims={"C7": best_without_improving("dm-control")},
)

ONE_ACTION = arm(
    "ra-dt-tuned@mse",
    "ra-dt-tuned",
    {"options": {"model": {"action_head": "mse"}}},
    note="its head predicts one action and cannot be sampled.",
)
ROWS = ("dt", "ad", "dpt", "ra-dt", "ra-dt-tuned")
TWINS = ("-fixed-start", "-visible", "-visible-fixed-start")
HIDDEN = (
    "Not in the paper, which suspects that its robots can read their task off the observation: "
)
EXPLAINS = (
    "here the goal is hidden or visible, the start varies or not, and actions are sampled or not."
)


def explaining(env: str) -> tuple[Study, ...]:
    """Run all rows, and what may explain the paper's result: goal, head and start, two of each."""
    pair = ("ra-dt-tuned", ONE_ACTION)
    twins = (Study(f"{env}{twin}", pair, controls=CONTROLS) for twin in TWINS)
    return Study(env, (*ROWS, ONE_ACTION), controls=CONTROLS), *twins


POINT_ROBOT = add(name="point-robot", paper=HIDDEN + EXPLAINS, studies=explaining("point-robot"))
REACHER_HIDDEN = add(
    name="reacher-hidden", paper=HIDDEN + EXPLAINS, studies=explaining("reacher-hidden")
)
REACH_HIDDEN = add(
    name="reach-hidden",
    paper=f"{HIDDEN}here the goal is hidden.",
    studies=(Study("reach-hidden", ROWS, controls=CONTROLS),),
)
