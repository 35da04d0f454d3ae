"""Decisions with a chunk at hand: kept while trials are rolled out again, and drawn as maps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.analyses.shared import (
    FLOOR,
    GOAL,
    WALL,
    RolledOut,
    draw_heat,
    draw_mark,
    draw_path,
    draw_room,
    retrieving,
    sum_by_cell,
)
from radt.envs.render import Sketch
from radt.envs.suite import DrawnSuite, sketch_of
from radt.model.attention_weights import attention_to_steps
from radt.model.policy import DecisionTransformer
from radt.plots import style
from radt.trajectory import Batch, Trajectory

FAINTEST = 0.1  # of the strongest: weaker attention is not drawn
ARROW = 0.12  # the length of a move, in parts of what is seen of a plane
OWN = style.colour_of("ra-dt+")  # the agent's own trial

Kind = Callable[[int, float], bool]  # whether a trial of a task that earned so much is of a kind


@dataclass(frozen=True)
class Moments:
    """Decisions of several tasks at once: what the policy saw, had retrieved, and did."""

    recent: Batch  # [B, L] the input, the present state last
    chunk: Batch  # [B, S] what was retrieved
    action: Tensor  # [B] int64 or [B, A] float: what was done
    task: NDArray[np.int64]  # [B]
    trial: NDArray[np.int64]  # [B] from 0
    step: NDArray[np.int64]  # [B] from 0
    earned: NDArray[np.float64]  # [B] in this trial so far
    chunk_return: NDArray[np.float64]  # [B] of the trial that the chunk is from

    def __len__(self) -> int:
        return len(self.task)

    @property
    def last(self) -> Tensor:
        """The place of the present step in the input, [B]."""
        return self.recent.mask.sum(1) - 1

    @property
    def state(self) -> Tensor:
        return self.recent.states[torch.arange(len(self)), self.last]

    @property
    def same_state(self) -> Tensor:
        """Which steps of the chunk stand in the present state, [B, S].

        Where actions are continuous no state comes again: there it is the nearest one.
        """
        apart = (self.chunk.states - self.state[:, None]).flatten(2).double().norm(dim=2)  # [B, S]
        apart = apart.masked_fill(~self.chunk.mask, torch.inf)
        wanted = apart.amin(dim=1, keepdim=True) if self.continuous else torch.zeros(1)
        return torch.eq(apart, wanted)

    @property
    def continuous(self) -> bool:
        """Whether actions are vectors."""
        return self.action.ndim > 1

    def rows(self, chosen: NDArray[np.int64]) -> Moments:
        index = torch.from_numpy(chosen)
        names = ("task", "trial", "step", "earned", "chunk_return")
        return Moments(
            self.recent.rows(index).trimmed(),
            self.chunk.rows(index),
            self.action[index],
            *(getattr(self, name)[chosen] for name in names),
        )

    def to_json(self) -> dict[str, Any]:
        """Say which decision the first one is."""
        return {
            "task": int(self.task[0]),
            "trial": int(self.trial[0]) + 1,
            "step": int(self.step[0]) + 1,
            "chunk_return": float(self.chunk_return[0]),
            "action": self.action[0].tolist(),
        }


class MomentKeeper:
    """Keeps the decisions at some steps of every trial, of the slots that have a chunk at hand."""

    def __init__(self, steps: Collection[int]) -> None:
        self.steps = np.array(sorted(steps))
        self.kept: list[Moments] = []
        self._returns = np.zeros(0)  # [slots] of the trials that their chunks are from

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        reading: Batch | None = getattr(agent.actor, "reading", None)  # [slots, S]
        if reading is None or agent.memory is None:
            return
        if not len(self._returns):
            self._returns = np.zeros(agent.slots)
        if agent.retrieval is not None and len(agent.memory.entries):
            chosen = agent.retrieval.chosen  # [B, k]
            returns = agent.memory.entries.total_return[chosen.clamp_min(0)]
            best = returns.masked_fill(chosen < 0, -torch.inf).amax(dim=1)
            self._returns[agent.query_slots] = best.numpy()
        has_chunk = reading.mask.any(dim=1).numpy()
        due = agent.is_acting & has_chunk & np.isin(agent.trials.step, self.steps)
        if due.any():
            self._keep(agent, reading, np.flatnonzero(due))

    def _keep(self, agent: Agent, held: Batch, slots: NDArray[np.int64]) -> None:
        running, options = agent.trials, retrieving(agent.method).options
        self.kept.append(
            Moments(
                recent=running.recent(slots, options.memory.context_len, options.window_step),
                chunk=held.rows(torch.from_numpy(slots)),
                action=torch.from_numpy(agent.actions[slots]),
                task=np.array(agent.tasks)[slots],
                trial=running.trial[slots].copy(),
                step=running.step[slots].copy(),
                earned=running.earned[slots].copy(),
                chunk_return=self._returns[slots].copy(),
            )
        )


def choose_decisions(
    kept: Sequence[Moments], steps: Sequence[int], kinds: dict[str, Kind]
) -> list[tuple[str, Moments]]:
    """Choose the decisions at some steps of a trial with a good chunk, and of one with a bad one.

    Both are of one task if there is a task that has both; of several the one in the middle.
    """
    wanted = [step - 1 for step in steps]
    by_trial: dict[tuple[int, int], list[Moments]] = {}
    for moments in kept:
        for at in np.flatnonzero(np.isin(moments.step, wanted))[:, None]:
            row = moments.rows(at)
            by_trial.setdefault((int(row.task[0]), int(row.trial[0])), []).append(row)
    found = {
        kind: [
            trial
            for trial, same in by_trial.items()
            if len(same) == len(wanted)
            and all(test(trial[0], float(row.chunk_return[0])) for row in same)
        ]
        for kind, test in kinds.items()
    }
    picked = _same_task(found)
    return [(kind, row) for kind, trial in picked.items() for row in by_trial[trial]]


def _same_task(found: dict[str, list[tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Pick one trial (task, trial) of each kind, of the same task where that is possible."""
    common = set.intersection(*({task for task, _ in trials} for trials in found.values()))
    picked = {}
    for kind, trials in found.items():
        mine = [trial for trial in trials if not common or trial[0] in common]
        if mine:
            tasks = sorted({task for task, _ in mine})
            own = sorted(trial for trial in mine if trial[0] == tasks[len(tasks) // 2])
            picked[kind] = own[-1] if kind == "good" else own[0]
    return picked


def draw_attention(
    policy: DecisionTransformer, done: RolledOut, shown: Sequence[tuple[str, Moments]], path: Path
) -> Path:
    """Draw a column for each decision: the chunk, the attention map, the agent."""
    figure = style.canvas(2.3 * max(2, len(shown)), 6.9)
    if shown:
        panels = figure.subplots(3, len(shown), squeeze=False, height_ratios=[1.0, 0.9, 1.0])
        panels[1, 0].set_ylabel("input step", fontsize=7.5, color=style.INK)
        for column, (kind, moment) in enumerate(shown):
            draw_decision(panels[:, column], policy, done, kind, moment)
    title = f"What {done.method} looks at on {done.trials.suite.name}"
    note = (
        "top: the retrieved chunk, darker where the present decision looks; middle: attention of "
        "each input step to each step of the chunk, mean over layers and heads, weak attention "
        "left out; bottom: the agent's own trial; circle: start, diamond or disc: goal"
    )
    return style.save(figure, path, title, note)


def draw_decision(
    panels: NDArray[Any], policy: DecisionTransformer, done: RolledOut, kind: str, moment: Moments
) -> None:
    """Draw one decision from top to bottom."""
    real = moment.chunk.mask[0]  # [S]
    weights = attention_to_steps(policy, moment.recent, moment.chunk)[0][:, real].cpu().numpy()
    task, trial, step = (int(f[0]) for f in (moment.task, moment.trial, moment.step))
    states, actions, rewards = (
        f[0, real].numpy()
        for f in (moment.chunk.states, moment.chunk.actions, moment.chunk.rewards)
    )
    chunk = Trajectory(states, actions, rewards, task, 0)
    own = done.episodes[done.trials.tasks.index(task)][trial]
    titles = (
        f"a {kind} chunk, return {float(moment.chunk_return[0]):.4g}",
        f"task {task}, trial {trial + 1}, step {step + 1}",
    )
    draw_map(panels[1], weights)  # [L, S]
    draw = draw_on_grid if isinstance(done.trials.suite, DrawnSuite) else draw_on_plane
    draw(panels[[0, 2]], done, Shown(chunk, own, weights[-1], step))
    for axes, title in zip(panels[[0, 2]], titles, strict=True):
        axes.set_title(title, loc="left", fontsize=8.5, color=style.INK)


@dataclass(frozen=True)
class Shown:
    """A decision that is drawn."""

    chunk: Trajectory  # [S]
    own: Trajectory  # the trial that it is made in
    weights: NDArray[Any]  # [S] its attention to the chunk
    step: int


def draw_on_grid(panels: NDArray[Any], done: RolledOut, shown: Shown) -> None:
    """Draw the chunk, darker where the decision looks, and below it the own trial so far."""
    chunk, step = shown.chunk, shown.step
    view = done.suite.view(chunk.task, chunk.states[:1], np.zeros(0))
    path, cells = done.cells(chunk), done.cells(shown.own)[: step + 2]  # [S, 2], [step + 2, 2]
    for axes in panels:
        draw_room(axes, view, "")
    draw_heat(panels[0], sum_by_cell(path, view, shown.weights))
    draw_path(panels[0], path, style.PALE, 1.0)
    draw_path(panels[1], cells[: step + 1], OWN)
    if len(cells) > step + 1:
        draw_move(panels[1], cells[step], cells[step + 1])


def draw_on_plane(panels: NDArray[Any], done: RolledOut, shown: Shown) -> None:
    """Draw the same for robots; what is not sketched stays empty."""
    there, here = (sketch_of(done.trials.suite, e.task, e.states) for e in (shown.chunk, shown.own))
    for axes, sketch in zip(panels, (there, here), strict=True):
        draw_ground(axes, sketch)
    if there is None or here is None:
        return
    x, y = there.path.T  # [S] each
    shades, step = shown.weights / max(float(shown.weights.max()), 1e-9), shown.step
    panels[0].scatter(x, y, s=9, c=shades, cmap="Blues", vmin=-0.2, zorder=4)
    path = here.path[: step + 2, ::-1]  # (y, x)
    draw_mark(panels[1], (path[0, 0], path[0, 1]), "o", style.PALE, hollow=True)
    draw_path(panels[1], path[: step + 1], OWN)
    if len(path) > step + 1:
        move = path[step + 1] - path[step]
        arrow = ARROW * here.size * move / max(float(np.linalg.norm(move)), 1e-9)
        draw_move(panels[1], path[step], path[step] + arrow)
        panels[1].update_datalim([(path[step] + arrow)[::-1]])


def draw_ground(axes: Axes, sketch: Sketch | None) -> None:
    """Draw where goals are; what a camera that follows a robot saw is as wide as it is."""
    axes.set(xticks=[], yticks=[], facecolor=FLOOR)
    axes.set_aspect("equal", adjustable="datalim")
    for side in axes.spines.values():
        side.set(color=WALL, linewidth=0.8)
    if sketch is None:
        return
    if sketch.floor is None:
        (x, y), half = sketch.centre[0], sketch.size / 2
        axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), adjustable="box")
    for body, radius, kind in zip(sketch.bodies[0], sketch.radii, sketch.kinds, strict=True):
        if kind == "goal":
            axes.add_patch(Circle(body[:2], radius, color=GOAL, linewidth=0))


def draw_map(axes: Axes, weights: NDArray[np.floating[Any]]) -> None:
    """Draw the attention of input steps [L] to the steps of the chunk [S]."""
    top = float(weights.max())
    shown = np.ma.masked_less(weights, FAINTEST * top)
    axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
    axes.set_xlabel("step of the chunk", fontsize=7.5, color=style.INK)
    axes.tick_params(length=2, labelsize=7, labelcolor=style.INK, color=style.FAINT)
    axes.set_yticks(range(0, len(weights), max(1, len(weights) // 5)))
    for side in axes.spines.values():
        side.set_color(style.FAINT)


def draw_move(axes: Axes, start: NDArray[Any], end: NDArray[Any]) -> None:
    """Draw the next move as an arrow; a move that leads nowhere as a ring."""
    if (start == end).all():
        axes.plot(start[1], start[0], "o", markersize=11, markerfacecolor="none", color=style.INK)
        return
    arrow = {"arrowstyle": "->", "color": style.INK, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(end[1], end[0]), xytext=(start[1], start[0]), arrowprops=arrow, zorder=6)
