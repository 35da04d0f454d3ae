"""Memories that others fill, the paper's future work: an expert's demonstrations, and a fleet.

Demonstrations: what an agent earns in its first trial with k expert episodes in its memory. They
come from an oracle of the environment, since the data hold none of the unseen tasks.

A fleet: several agents on one task share one memory while they act. They are slots of one vector
agent on one memory in RAM: each has noise of its own, and reads from its next trial on what all
have stored. Where trials have one length, they end together. Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from radt.action_rules import named_rule
from radt.errors import RunError
from radt.experiments.experiment import Measurement, Row, Weights, add
from radt.experiments.grids import KEY_KEPT, KEY_RESET, ROOM_10X10
from radt.experiments.rows import answer_row, mean_or_none
from radt.experiments.weights import about, opened, write_answer
from radt.memory.demonstrations import from_oracle
from radt.memory.memory import Memory
from radt.methods import Method
from radt.metrics import RESAMPLES, Array, Interval, late_score, trials_to_solve
from radt.plots.style import INK, SPARE_COLOURS, Picture, plain_axes
from radt.runs.evaluate import optima
from radt.runs.roll_out import Trials, roll_out
from radt.track import Tracker

TRIALS = 10  # of each task; the first is what this is about
SHOWN = ((0, 0.0), (1, 0.0), (1, 0.2), (4, 0.0), (4, 0.2))  # episodes, share of random steps


def empty_memory(method: Method) -> Memory:
    """Return a memory in RAM as the method has it, for all agents of a task together."""
    own = method.actor(1).memory
    if own is None:
        raise RunError(f"{method.name} has no memory that others could fill; take ra-dt")
    return own.at("ram:")


def ask_demonstrations(weights: Sequence[Weights], out: Path) -> None:
    """Show trained weights some demonstrations, and write what came of it."""
    (one,) = weights
    _, card, trials = opened(one, TRIALS)
    record = {**about(one, card, trials), "action_rule": asdict(trials.rule)}
    measured = [with_demonstrations(one, k, noise) for k, noise in SHOWN]
    write_answer(out, {**record, "measured": measured})


def with_demonstrations(one: Weights, k: int, noise: float) -> dict[str, Any]:
    """Fill a memory with k episodes of each unseen task and see what a trained agent earns."""
    method, card, trials = opened(one, TRIALS)
    memory = empty_memory(method)
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


def rows_of_demonstrations(answer: Mapping[str, Any]) -> list[Row]:
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
    measurement=Measurement(ask_demonstrations, rows_of_demonstrations),
)

AGENTS = (1, 2, 4, 8)
SHARE = 5  # the largest fleet is to need at most so small a part of the trials that one agent has


def ask_fleets(weights: Sequence[Weights], out: Path) -> None:
    """Let fleets of each size act, and write what each agent earned."""
    (one,) = weights
    method, card, usual = opened(one)
    trials = replace(usual, rule=named_rule("paper", card.method))
    returns = {agents: together(method, trials, agents) for agents in AGENTS}
    lines = [{"agents": agents, "returns": each.tolist()} for agents, each in returns.items()]
    record = {**about(one, card, trials), "action_rule": asdict(trials.rule)}
    needed = reached(returns[AGENTS[-1]].mean(1), returns[1][:, 0])
    verdict = (
        f"{AGENTS[-1]} agents need {needed} trials each to earn what one earns in the last of its "
        f"{trials.count}; at most {trials.count // SHARE} are the aim"
    )
    write_answer(out, {**record, "fleets": lines, "verdict": verdict})


def together(method: Method, trials: Trials, agents: int) -> Array:
    """Let so many agents act on each task with one memory; return [task, agent, trial]."""
    slots = tuple(task for task in trials.tasks for _ in range(agents))
    count = trials.count if agents == 1 else max(1, trials.count // 4)
    with empty_memory(method) as memory:
        acting = replace(trials, tasks=slots, count=count)
        returns = roll_out(method, acting, Tracker(), memory=memory).returns
    return returns.reshape(len(trials.tasks), agents, count)


def reached(fleet: Array, one: Array) -> Interval:
    """Count trials until a fleet earns what one agent earns late, both [task, trial].

    95 % over tasks; a fleet that never does so counts as one trial more than it had.
    """
    level = late_score(one)  # [task]
    drawn = np.random.default_rng(0).integers(len(level), size=(RESAMPLES, len(level)))
    found = trials_to_solve(fleet[drawn].mean(1), level[drawn].mean(1)[:, None])
    low, high = np.percentile(found, [2.5, 97.5])
    return Interval(float(trials_to_solve(fleet.mean(0), level.mean())), float(low), float(high))


def rows_of_fleets(answer: Mapping[str, Any]) -> list[Row]:
    """Make a row of each fleet, from the mean of its agents; what one agent earns is the level."""
    returns = {line["agents"]: np.array(line["returns"]).mean(1) for line in answer["fleets"]}
    level = float(late_score(returns[1]).mean())
    return [
        {
            **answer_row(answer, f"{agents} agents", fleet[None]),
            "agents": agents,
            "level": level,
            "reached_after": asdict(reached(fleet, returns[1])),
            "curve": fleet.mean(0).tolist(),
        }
        for agents, fleet in returns.items()
    ]


def summary(rows: Sequence[Row]) -> list[Row]:
    """Tell of each fleet how many trials each of its agents needs."""
    return [
        {
            "row": f"`{row['label']}`",
            "agents": row["agents"],
            "trials each": row["trials"],
            "first trial": row["curve"][0],
            "late trials": row["score"],
            "trials each until one agent's late trials": int(row["reached_after"]["mean"]),
            "95 % over tasks": "[{low:.0f}, {high:.0f}]".format(**row["reached_after"]),
        }
        for row in rows
    ]


def picture(rows: Sequence[Row], file: Path) -> Path:
    """Draw the mean return against trials each, a panel for each agent that was trained."""

    def draw(axes: Axes, label: str) -> None:
        own = [row for row in rows if row["label"] == label]
        for row, colour in zip(own, SPARE_COLOURS, strict=False):
            trials = range(1, row["trials"] + 1)
            axes.plot(trials, row["curve"], color=colour, linewidth=1.6, label=row["condition"])
        axes.axhline(own[0]["level"], color=INK, linewidth=0.9, linestyle=(0, (6, 4)))
        plain_axes(axes, label, "trials each")
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)

    panels = [partial(draw, label=label) for label in dict.fromkeys(row["label"] for row in rows)]
    note = f"mean return over {len(rows[0]['per_task'])} unseen tasks; dashed: one, late trials"
    title, size = f"{rows[0]['env']}: fleets that share a memory", (4.2 * len(panels) + 0.6, 3.6)
    return Picture(panels, title, note, size, (1.0,) * len(panels)).save(file)


add(
    name="fleet",
    paper="Future work of the paper: agents use the experience of others, here while all act.",
    kind="reuse",
    studies=(ROOM_10X10.only("ra-dt+", "ra-dt-tuned"),),
    weights_of=("dark-room",),
    measurement=Measurement(ask_fleets, rows_of_fleets, verdict="verdict"),
    note="The agents of a task are slots of one vector agent with one memory in RAM, so their "
    "trials end together. Each sees at the start of a trial what all have stored, and none "
    "explores a task that another has solved; where exploration counts what was tried, they "
    "count together. The mean return of the n-th trial is compared with what one agent earns "
    "in its late trials.",
    picture=picture,
    summary=summary,
)
