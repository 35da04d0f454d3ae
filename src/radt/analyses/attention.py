"""What an agent looks at in the chunk that it retrieved, and what it makes of it.

The paper shows two attention maps and reads off them that the end of the chunk and the present
state draw attention, that a good chunk is imitated and that a bad one is avoided. Here these are
shares over all tasks; the maps are those of one task. For imitation every decision before the first
reward counts that is made in a state which the chunk shows, too: does the agent do what was done
there? The policy is asked once more without the chunk, so that what it would have done anyway is
known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from radt.agent import Agent
from radt.analyses.shared import (
    Finding,
    RolledOut,
    draw_heat,
    draw_path,
    draw_room,
    drawable,
    mean_by,
    nothing_retrieved,
    over_tasks,
    percent,
    record_trials,
    retrieving,
    sum_by_cell,
)
from radt.envs.suite import success_threshold
from radt.methods import Method
from radt.metrics import Interval
from radt.model.attention_weights import attention_to_steps
from radt.model.policy import DecisionTransformer
from radt.plots import style
from radt.runs.evaluate import Trials
from radt.track import Tracker
from radt.trajectory import Batch, Trajectory

EARLY, OFTEN, SELDOM = 20, 2, 7  # which decisions are looked at: more at the start of a trial
LAST = 0.1  # of a chunk is its end
GOOD = 0.8  # of what is possible on a task: a trial that earned so much is worth imitating
STEPS = (1, 5, 10)  # of a trial, as in the paper: those whose maps are drawn
FAINTEST = 0.1  # of the strongest: weaker attention is not drawn
TARGETS = {
    "own_state": "the present state",
    "rewarded": "rewarded steps",
    "end": "its last tenth",
}

Kind = Callable[[int, float], bool]  # whether a trial of a task that earned so much is of a kind


def analyse_attention(
    method: Method,
    trials: Trials,
    path: Path,
    steps: Sequence[int] = STEPS,
    tracker: Tracker | None = None,
) -> Finding:
    """Measure what draws attention and what is done with a chunk, and draw maps at some steps."""
    policy = retrieving(method).policy
    drawable(trials)  # an error before the work, not after it
    keeper = MomentKeeper({*looked_at(trials.suite.spaces.horizon), *(step - 1 for step in steps)})
    done = record_trials(method, trials, tracker, keeper)
    if not keeper.kept:
        raise nothing_retrieved(trials)
    searching = on_the_way(keeper.kept)
    shares, following = attention_shares(policy, searching), follow(policy, searching)
    best = dict(zip(trials.tasks, done.returns.max(axis=1).tolist(), strict=True))
    kinds = kinds_of(trials, best)
    responses = {name: respond(following, kind) for name, kind in kinds.items()}
    shown = choose_decisions(keeper.kept, steps, kinds)
    draw_attention(policy, done, shown, path)
    numbers = {
        "method": method.name,
        "attention": shares,
        "chunks": {kind: response.to_json() for kind, response in responses.items()},
        "good_from_share_of_optimum": GOOD,
        "shown": [{"kind": kind, **moment.to_json()} for kind, moment in shown],
    }
    words = [say_response(kind, response) for kind, response in responses.items()]
    verdict = " ".join([*words, say_attention(shares)]).strip()
    return Finding("attention", verdict, numbers, trials, path)


def looked_at(horizon: int) -> list[int]:
    """Choose the steps of a trial at which decisions are looked at."""
    return [*range(0, min(EARLY, horizon), OFTEN), *range(EARLY, horizon, SELDOM)]


@dataclass(frozen=True)
class Moments:
    """Decisions of several tasks at once: what the policy saw, had retrieved, and did."""

    recent: Batch  # [B, L] the input, the present state last
    chunk: Batch  # [B, S] what was retrieved
    action: Tensor  # [B] int64: what was done
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
        """The present state, [B, *state_shape]."""
        return self.recent.states[torch.arange(len(self)), self.last]

    @property
    def same_state(self) -> Tensor:
        """Which steps of the chunk stand in the present state, [B, S]."""
        equal = (self.chunk.states == self.state[:, None]).flatten(2).all(dim=2)
        return equal & self.chunk.mask

    def rows(self, chosen: NDArray[np.int64]) -> Moments:
        """Select decisions."""
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
            "action": int(self.action[0]),
        }


def on_the_way(kept: Sequence[Moments]) -> list[Moments]:
    """Select the decisions of trials that have earned nothing yet.

    An agent on the goal stays there, whatever was retrieved, and there are many such decisions.
    """
    unpaid = [(moments, np.flatnonzero(moments.earned == 0)) for moments in kept]
    return [moments.rows(rows) for moments, rows in unpaid if len(rows)]


class MomentKeeper:
    """Keeps the decisions at some steps of every trial, of the slots that have a chunk at hand."""

    def __init__(self, steps: Collection[int]) -> None:
        self.steps = np.array(sorted(steps))
        self.kept: list[Moments] = []
        self._returns = np.zeros(0)  # [slots] of the trials that their chunks are from

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        """Follow what is retrieved, and keep the decisions that are due."""
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
                action=torch.from_numpy(agent.actions[slots]).long(),
                task=np.array(agent.tasks)[slots],
                trial=running.trial[slots].copy(),
                step=running.step[slots].copy(),
                earned=running.earned[slots].copy(),
                chunk_return=self._returns[slots].copy(),
            )
        )


def attention_shares(
    policy: DecisionTransformer, kept: Sequence[Moments]
) -> dict[str, dict[str, Any]]:
    """Average the attention of decisions to the own state, to rewards and to the chunk's end.

    `steps` says what share of a chunk they are, `lift` how much more attention they get than that.
    """
    if not kept:
        return {}
    task = np.concatenate([moments.task for moments in kept])
    rows = torch.cat([_attention(policy, moments) for moments in kept]).numpy()  # [N, 3, 2]
    found = {}
    for place, name in enumerate(TARGETS):
        present = rows[:, place, 1] > 0
        own, (given, even) = task[present], rows[present, place].T
        if present.any():
            found[name] = {
                "attention": float(np.mean(mean_by(own, given))),
                "steps": float(np.mean(mean_by(own, even))),
                "lift": over_tasks(mean_by(own, given / even)),
            }
    return found


def _attention(policy: DecisionTransformer, moments: Moments) -> Tensor:
    """Return the present decisions' attention to, and share of, each kind of steps: [B, 3, 2]."""
    chunk = moments.chunk
    weights = attention_to_steps(policy, moments.recent, chunk).cpu()  # [B, L, S]
    weights = weights[torch.arange(len(moments)), moments.last]  # [B, S]
    length = chunk.mask.sum(dim=1, keepdim=True)  # [B, 1]
    place = chunk.mask.cumsum(dim=1)  # [B, S] from 1
    at_end = chunk.mask & (place > length - (LAST * length).ceil())
    kinds = (moments.same_state, chunk.mask & (chunk.rewards > 0), at_end)
    shares = [
        torch.stack([(weights * kind).sum(dim=1), kind.sum(dim=1) / length[:, 0]], dim=1)
        for kind in kinds
    ]
    return torch.stack(shares, dim=1)


def say_attention(shares: dict[str, dict[str, Any]]) -> str:
    """Say what draws attention."""
    parts = [
        f"{TARGETS[name]} {share['attention']:.0%} ({share['steps']:.0%} of the steps)"
        for name, share in shares.items()
    ]
    return f"Of the attention to a chunk, a decision gives {', '.join(parts)}." if parts else ""


@torch.no_grad()
def follow(policy: DecisionTransformer, kept: Sequence[Moments]) -> NDArray[np.float64]:
    """Compare each decision with what the chunk did in the same state, where it shows that.

    Returns the task, the chunk's return, the share of the chunk's actions here that it repeats, and
    the probability that the policy gives to them with the chunk and without it: [N, 5].
    """
    return np.concatenate([np.zeros((0, 5)), *(_follow(policy, moments) for moments in kept)])


def _follow(policy: DecisionTransformer, moments: Moments) -> NDArray[np.float64]:
    actions = one_hot(moments.chunk.actions, policy.spaces.action.size)  # [B, S, A]
    votes = (actions * moments.same_state[..., None]).sum(dim=1).double()  # [B, A]
    shown: NDArray[np.bool_] = (votes.sum(dim=1) > 0).numpy()
    done = votes / votes.sum(dim=1, keepdim=True).clamp_min(1.0)  # [B, A] what the chunk did here
    probabilities = [
        (policy.decide(moments.recent, chunk).double().softmax(dim=1).cpu() * done).sum(dim=1)
        for chunk in (moments.chunk, None)
    ]
    agrees = done[torch.arange(len(moments)), moments.action]
    columns = (moments.task, moments.chunk_return, agrees, *probabilities)
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)[shown]


def kinds_of(trials: Trials, best_rolled_out: dict[int, float]) -> dict[str, Kind]:
    """Say what a good trial is, most of the best return, and a bad one, which found no goal.

    Where the best return is not known, it is the best that was rolled out; where no success is
    declared, a trial is bad that earns the least.
    """
    success = success_threshold(trials.suite, trials.tasks)
    above = trials.suite.spaces.lowest_return if success is None else success

    def good(task: int, earned: float) -> bool:
        possible = trials.suite.optimal_return(task)
        best = best_rolled_out.get(task, 0.0) if possible is None else possible
        return earned > above and earned >= GOOD * best

    return {"good": good, "bad": lambda _, earned: earned <= above}


@dataclass(frozen=True)
class Response:
    """How the chunks of one kind are answered, with 95 % over tasks."""

    decisions: int
    agrees: Interval | None
    with_chunk: Interval | None
    without_chunk: Interval | None
    change: Interval | None  # the probability with the chunk minus that without

    @property
    def word(self) -> str:
        """What the policy does with such a chunk."""
        if self.change is None:
            return "never retrieved"
        if self.change.low > 0:
            return "imitated"
        return "avoided" if self.change.high < 0 else "neither imitated nor avoided"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"word": self.word, **asdict(self)}


def respond(following: NDArray[np.float64], kind: Kind) -> Response:
    """Average over the decisions [N, 5] whose chunk is of one kind; each task counts once."""
    of_kind = [kind(int(task), float(earned)) for task, earned in following[:, :2]]
    task, _, agrees, with_chunk, without = following[np.array(of_kind, dtype=bool)].T
    columns = (agrees, with_chunk, without, with_chunk - without)
    return Response(len(task), *(over_tasks(mean_by(task, column)) for column in columns))


def say_response(kind: str, response: Response) -> str:
    """Say in a sentence what is done with chunks of one kind."""
    if response.change is None:
        return f"A {kind} chunk was never at hand in a state that it shows."
    return (
        f"A {kind} chunk is {response.word}: where it shows the present state, its action is taken "
        f"in {percent(response.agrees)} of {response.decisions:,} decisions before the first "
        f"reward, and the policy gives it {percent(response.with_chunk)} instead of "
        f"{percent(response.without_chunk)} without the chunk."
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
        "left out; bottom: the agent's own trial; circle: start, diamond: hidden goal"
    )
    return style.save(figure, path, title, note)


def draw_decision(
    panels: NDArray[Any], policy: DecisionTransformer, done: RolledOut, kind: str, moment: Moments
) -> None:
    """Draw one decision from top to bottom."""
    chunk, real = moment.chunk, moment.chunk.mask[0]  # [S]
    weights = attention_to_steps(policy, moment.recent, chunk)[0][:, real].cpu().numpy()  # [L, S]
    task, trial, step = (int(f[0]) for f in (moment.task, moment.trial, moment.step))
    view = done.suite.view(task, chunk.states[0, :1].numpy(), np.zeros(0))
    states, actions, rewards = (
        f[0, real].numpy() for f in (chunk.states, chunk.actions, chunk.rewards)
    )
    path = done.cells(Trajectory(states, actions, rewards, task, 0))  # [S, 2]
    draw_room(panels[0], view, f"a {kind} chunk, return {float(moment.chunk_return[0]):g}")
    draw_heat(panels[0], sum_by_cell(path, view, weights[-1]))
    draw_path(panels[0], path, style.PALE, 1.0)
    draw_map(panels[1], weights)
    own = done.cells(done.episodes[done.trials.tasks.index(task)][trial])[: step + 2]
    draw_room(panels[2], view, f"task {task}, trial {trial + 1}, step {step + 1}")
    draw_path(panels[2], own[: step + 1], style.colour_of("ra-dt+"))
    if len(own) > step + 1:
        draw_move(panels[2], own[step], own[step + 1])


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


def draw_move(axes: Axes, start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
    """Draw the next move as an arrow; a move that leads nowhere as a ring."""
    if (start == end).all():
        axes.plot(start[1], start[0], "o", markersize=11, markerfacecolor="none", color=style.INK)
        return
    arrow = {"arrowstyle": "->", "color": style.INK, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=(end[1], end[0]), xytext=(start[1], start[0]), arrowprops=arrow, zorder=6)
