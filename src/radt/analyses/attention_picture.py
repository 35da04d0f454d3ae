"""Attention on a figure: a good and a bad chunk, the map at some steps, and the agent beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from radt.analyses.imitation import is_bad, is_good
from radt.analyses.moments import Moments
from radt.analyses.relive import Lives, cells, drawable
from radt.analyses.rooms import draw_heat, draw_room, draw_way
from radt.envs.render import GridView
from radt.model.looking import attention_to_steps
from radt.model.policy import DecisionTransformer
from radt.plots import style
from radt.trajectory import Trajectory

FAINTEST = 0.1  # of the strongest: weaker attention is not drawn


@dataclass(frozen=True)
class Shown:
    """One decision that is drawn."""

    kind: str  # good or bad
    moment: Moments  # one row

    def to_json(self) -> dict[str, Any]:
        """Say which decision it is."""
        moment = self.moment
        return {
            "kind": self.kind,
            "task": int(moment.task[0]),
            "trial": int(moment.trial[0]) + 1,
            "step": int(moment.step[0]) + 1,
            "chunk_return": float(moment.chunk_return[0]),
            "action": int(moment.action[0]),
        }


def choose(lives: Lives, kept: Sequence[Moments], steps: Sequence[int]) -> list[Shown]:
    """Choose the decisions at some steps of a trial with a good chunk, and of one with a bad one.

    Both are of one task if there is a task that has both; of several the one in the middle.
    """
    wanted = [step - 1 for step in steps]
    rows = [m.rows(at) for m in kept for at in np.flatnonzero(np.isin(m.step, wanted))[:, None]]
    by_trial: dict[tuple[int, int], list[Moments]] = {}
    for row in rows:
        by_trial.setdefault((int(row.task[0]), int(row.trial[0])), []).append(row)
    best = dict(zip(lives.trials.tasks, lives.returns.max(axis=1).tolist(), strict=True))
    tests = {"good": is_good(lives.trials, best), "bad": is_bad(lives.trials)}
    found = {
        kind: {
            trial: same
            for trial, same in by_trial.items()
            if len(same) == len(wanted)
            and all(test(trial[0], float(row.chunk_return[0])) for row in same)
        }
        for kind, test in tests.items()
    }
    picked = _same_task({kind: list(trials) for kind, trials in found.items()})
    return [Shown(kind, row) for kind, trial in picked.items() for row in found[kind][trial]]


def _same_task(found: dict[str, list[tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Pick one trial of each kind, of the same task where that is possible."""
    common = set.intersection(*({task for task, _ in trials} for trials in found.values()))
    picked = {}
    for kind, trials in found.items():
        mine = [trial for trial in trials if not common or trial[0] in common]
        if mine:
            tasks = sorted({task for task, _ in mine})
            own = sorted(trial for trial in mine if trial[0] == tasks[len(tasks) // 2])
            picked[kind] = own[-1] if kind == "good" else own[0]
    return picked


def draw(policy: DecisionTransformer, lives: Lives, shown: Sequence[Shown], path: Path) -> Path:
    """Draw a column for each decision: the chunk, the attention map, the agent."""
    figure = style.canvas(2.3 * max(2, len(shown)), 6.9)
    if shown:
        panels = figure.subplots(3, len(shown), squeeze=False, height_ratios=[1.0, 0.9, 1.0])
        for column, one in enumerate(shown):
            draw_decision(panels[:, column], policy, lives, one, first=column == 0)
    title = f"What {lives.method} looks at on {lives.trials.suite.name}"
    note = (
        "top: the retrieved chunk, darker where the present decision looks; middle: attention of "
        "each input step to each step of the chunk, mean over layers and heads, weak attention "
        "left out; bottom: the agent's own trial; circle: start, diamond: hidden goal"
    )
    return style.save(figure, path, title, note)


def draw_decision(
    panels: NDArray[Any], policy: DecisionTransformer, lives: Lives, one: Shown, first: bool
) -> None:
    """Draw one decision from top to bottom."""
    moment, suite = one.moment, drawable(lives.trials)
    weights = attention_to_steps(policy, moment.recent, moment.chunk)[0].cpu().numpy()  # [L, S]
    real = moment.chunk.mask[0].numpy()  # [S]
    task, trial, step = (int(f[0]) for f in (moment.task, moment.trial, moment.step))
    view = suite.view(task, moment.chunk.states[0, :1].numpy(), np.zeros(0))
    earned = float(moment.chunk_return[0])
    draw_chunk(panels[0], view, chunk_way(lives, moment), weights[-1, real])
    panels[0].set_title(f"a {one.kind} chunk, return {earned:g}", loc="left", fontsize=8.5)
    draw_map(panels[1], weights[:, real], first)
    episode = lives.episodes[lives.trials.tasks.index(task)][trial]
    own = cells(suite, episode)[: step + 2]
    draw_room(panels[2], view, f"task {task}, trial {trial + 1}, step {step + 1}")
    draw_way(panels[2], own[: step + 1], style.colour_of("ra-dt+"))
    if len(own) > step + 1:
        draw_move(panels[2], own[step], own[step + 1])


def chunk_way(lives: Lives, moment: Moments) -> NDArray[np.int64]:
    """Return the cells that the chunk passes, [S, 2]."""
    chunk, real = moment.chunk, moment.chunk.mask[0]
    states, rewards = chunk.states[0, real].numpy(), chunk.rewards[0, real].numpy()
    part = Trajectory(states, chunk.actions[0, real].numpy(), rewards, int(moment.task[0]), 0)
    return cells(drawable(lives.trials), part)


def draw_chunk(
    axes: Axes, view: GridView, way: NDArray[np.int64], weights: NDArray[np.floating[Any]]
) -> None:
    """Draw the way of a chunk, its cells coloured by attention."""
    amount = np.zeros((view.height, view.width))
    np.add.at(amount, (way[:, 0], way[:, 1]), weights)
    draw_room(axes, view, "")
    draw_heat(axes, amount, float(amount.max()))
    draw_way(axes, way, style.PALE, 1.0)


def draw_map(axes: Axes, weights: NDArray[np.floating[Any]], first: bool) -> None:
    """Draw the attention of input steps [L] to the steps of the chunk [S]."""
    top = float(weights.max())
    shown = np.ma.masked_less(weights, FAINTEST * top)
    axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
    axes.set_xlabel("step of the chunk", fontsize=7.5, color=style.INK)
    if first:
        axes.set_ylabel("input step", fontsize=7.5, color=style.INK)
    axes.tick_params(length=2, labelsize=7, labelcolor=style.INK, color=style.FAINT)
    axes.set_yticks(range(0, len(weights), max(1, len(weights) // 5)))
    for side in axes.spines.values():
        side.set_color(style.FAINT)


def draw_move(axes: Axes, start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
    """Draw the next move as an arrow; a move that leads nowhere as a ring."""
    if (start == end).all():
        axes.plot(start[1], start[0], "o", markersize=11, markerfacecolor="none", color=style.INK)
        return
    arrow = {"arrowstyle": "->", "color": style.INK, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(end[1], end[0]), xytext=(start[1], start[0]), arrowprops=arrow, zorder=6)
