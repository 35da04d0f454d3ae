"""Robots and games, sections 4.4 and 4.5: Meta-World, DMControl, Procgen, and hidden goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from radt.envs import GAMES
from radt.envs.procgen import NAMES
from radt.envs.suite import Scoring, splits_of
from radt.experiments.experiment import Row, Study, add
from radt.experiments.verdicts import best_without_improving
from radt.metrics import normalised_score
from radt.variants import arm

CONTROLS = ("erased", "other-task", "random-own")


def robots(env: str, **settings: Any) -> tuple[Study, ...]:
    """Run two rows with three seeds and the others with one, as far as two cores go."""
    many = Study(env, ("dt", "ra-dt-tuned"), controls=CONTROLS, **settings)
    return many, replace(many, rows=("ad", "dpt", "ra-dt", "ra-dt-lm"), seeds=1)


add(
    name="meta-world",
    paper="ML5, 30 trials: mean return of RA-DT 337.9, DT 195.7, AD 192.9, DPT 127.2; on the "
    "45 training tasks DT is above RA-DT; nobody improves in context.",
    studies=robots("meta-world"),
    claims={"C6": best_without_improving("meta-world", below_on=("ml45", "train"))},
    note="The data are of scripted policies with falling noise, not of SAC as the paper's.",
)
add(
    name="dm-control",
    paper="DMC5, 30 trials: mean return of RA-DT 444.0, DT 311.4, DPT 282.7, AD 154.6; nobody "
    "improves in context.",
    studies=robots("dm-control"),
    claims={"C7": best_without_improving("dm-control")},
)

(SUITE,) = GAMES
MEANS = {  # the paper's, by setting
    "seen": {"dt": 6.96, "ad": 2.6, "dpt": 3.81, "ra-dt": 7.64},
    "unseen": {"dt": 3.95, "ad": 2.99, "dpt": 3.28, "ra-dt": 4.68},
    "eval": {"dt": 1.33, "ad": 0.76, "dpt": 0.62, "ra-dt": 2.15},
}


def per_game(rows: Sequence[Row]) -> list[Row]:
    """Write the paper's three tables as one: a line for each game, means, and scores."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    table = []
    for setting, paper in MEANS.items():
        own: dict[str, Row] = {}
        for row in rows:
            if row["tasks"] == setting:
                own.setdefault(row["label"], row)  # by the rule that comes first
        tasks = splits_of(SUITE)[setting]
        earned = {label: np.array(list(row["per_task"].values())) for label, row in own.items()}
        lines: dict[str, dict[str, float]] = {
            NAMES[task]: {label: float(each[place]) for label, each in earned.items()}
            for place, task in enumerate(tasks)
        }
        lines["mean"] = {label: float(each.mean()) for label, each in earned.items()}
        lines["the paper's mean"] = paper
        for scoring in (SUITE.scoring, SUITE.data_scoring):
            lines[scoring.kind] = {
                label: _normalised(each, scoring, tasks) for label, each in earned.items()
            }
        lines["improves"] = {label: row["improves"] for label, row in own.items()}
        table += [
            {"setting": setting, "game": game, **{label: line.get(label) for label in labels}}
            for game, line in lines.items()
        ]
    return table


def _normalised(earned: np.ndarray, scoring: Scoring, tasks: Sequence[int]) -> float:
    low, high = (np.array([ends[task] for task in tasks]) for ends in (scoring.low, scoring.high))
    return float(normalised_score(earned[None, :, None], low, high).mean())


add(
    name="procgen",
    paper="PG12 on a seen level, on an unseen level, and PG4, 30 trials: mean return of RA-DT "
    "7.64 / 4.68 / 2.15, DT 6.96 / 3.95 / 1.33, AD 2.6 / 2.99 / 0.76, DPT 3.81 / 3.28 / 0.62; "
    "nobody improves in context; RA-DT retrieves from the same level about 80 % of the time.",
    studies=robots("procgen", rules=()),
    claims={"C8": best_without_improving("procgen", tasks=tuple(MEANS))},
    summary=per_game,
    note="The data are of PPO with a small network and a million steps a game, where the paper "
    "has 25 million. *Improves* is the mean minus that of the same weights with memories "
    "erased before each trial, where it was measured.",
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


add(name="point-robot", paper=HIDDEN + EXPLAINS, studies=explaining("point-robot"))
add(name="reacher-hidden", paper=HIDDEN + EXPLAINS, studies=explaining("reacher-hidden"))
add(
    name="reach-hidden",
    paper=f"{HIDDEN}here the goal is hidden.",
    studies=(Study("reach-hidden", ROWS, controls=CONTROLS),),
)
