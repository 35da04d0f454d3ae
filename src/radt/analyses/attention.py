"""What an agent looks at in the chunk that it retrieved, and what it makes of it.

The paper shows two attention maps and reads off them that the end of the chunk and the present
state draw attention, that a good chunk is imitated and that a bad one is avoided. Here these are
shares over all tasks; the maps are those of one task. For imitation every decision before the first
reward counts that is made in a state which the chunk shows, too: does the agent do what was done
there? The policy is asked once more without the chunk, so that what it would have done anyway is
known. Where actions are continuous, the nearest state of the chunk counts, and how alike actions
are: 1 if they are equal, 0 if they are opposite in every dimension. Where no success is declared,
all decisions count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from radt.action_rules import ActionRule
from radt.analyses.attention_maps import (
    Kind,
    MomentKeeper,
    Moments,
    choose_decisions,
    draw_attention,
)
from radt.analyses.shared import (
    Finding,
    mean_by,
    nothing_retrieved,
    over_tasks,
    percent,
    record_trials,
    retrieving,
)
from radt.envs.suite import success_threshold
from radt.methods import Method
from radt.metrics import Interval
from radt.model.attention_weights import attention_to_steps
from radt.model.policy import DecisionTransformer
from radt.runs.roll_out import Trials
from radt.track import Tracker

EARLY, OFTEN, SELDOM = 20, 2, 7  # which decisions are looked at: more at the start of a trial
LAST = 0.1  # of a chunk is its end
GOOD = 0.8  # of what is possible on a task: a trial that earned so much is worth imitating
STEPS = (1, 5, 10)  # of a trial, as in the paper: those whose maps are drawn
TARGETS = {
    "own_state": "the present state, or the nearest one,",
    "rewarded": "rewarded steps",
    "end": "its last tenth",
}

REPEATED = (
    "where it shows the present state, its action is taken in {} of {decisions:,} decisions before "
    "the first reward, and the policy gives it {} instead of {}"
)
ALIKE = (
    "in {decisions:,} decisions the action taken is {} alike to that of its nearest state, and the "
    "policy's best one {} instead of {}"
)


def analyse_attention(
    method: Method,
    trials: Trials,
    path: Path,
    steps: Sequence[int] = STEPS,
    tracker: Tracker | None = None,
) -> Finding:
    """Measure what draws attention and what is done with a chunk, and draw maps at some steps."""
    policy, suite = retrieving(method).policy, trials.suite
    horizon = suite.spaces.horizon
    looked = (*range(0, min(EARLY, horizon), OFTEN), *range(EARLY, horizon, SELDOM))
    keeper = MomentKeeper({*looked, *(step - 1 for step in steps)})
    done = record_trials(method, trials, tracker, keeper)
    if not keeper.kept:
        raise nothing_retrieved(trials)
    sparse = success_threshold(suite, trials.tasks) is not None
    counted = on_the_way(keeper.kept) if sparse else keeper.kept
    shares, following = attention_shares(policy, counted), follow(policy, counted)
    kinds = kinds_of(trials, dict(zip(trials.tasks, done.returns, strict=True)))
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
    how = ALIKE if suite.spaces.action.kind == "continuous" else REPEATED
    words = [say_response(kind, response, how) for kind, response in responses.items()]
    verdict = " ".join([*words, say_attention(shares)]).strip()
    return Finding("attention", verdict, numbers, trials, path)


def on_the_way(kept: Sequence[Moments]) -> list[Moments]:
    """Select the decisions of trials that have earned nothing yet.

    An agent on the goal stays there, whatever was retrieved, and there are many such decisions.
    """
    unpaid = [(moments, np.flatnonzero(moments.earned == 0)) for moments in kept]
    return [moments.rows(rows) for moments, rows in unpaid if len(rows)]


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
    the probability that the policy gives to them with the chunk and without it: [N, 5]. Of
    continuous actions it is how alike they are, of the action taken and of the policy's best.
    """
    return np.concatenate([np.zeros((0, 5)), *(_follow(policy, moments) for moments in kept)])


def _follow(policy: DecisionTransformer, moments: Moments) -> NDArray[np.float64]:
    decided = [policy.decide(moments.recent, chunk) for chunk in (moments.chunk, None)]
    repeat = _alike if moments.continuous else _repeat
    shown: NDArray[np.bool_] = moments.same_state.any(dim=1).numpy()
    columns = (moments.task, moments.chunk_return, *repeat(policy, moments, decided))
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)[shown]


def _repeat(
    policy: DecisionTransformer, moments: Moments, decided: Sequence[Tensor]
) -> list[Tensor]:
    """Return how much of the chunk's actions here was taken, and is likely, [B] each."""
    actions = one_hot(moments.chunk.actions, policy.spaces.action.size)  # [B, S, A]
    votes = (actions * moments.same_state[..., None]).sum(dim=1).double()  # [B, A]
    done = votes / votes.sum(dim=1, keepdim=True).clamp_min(1.0)  # [B, A] what the chunk did here
    chances = [(logits.double().softmax(dim=1).cpu() * done).sum(dim=1) for logits in decided]
    return [done[torch.arange(len(moments)), moments.action], *chances]


def _alike(
    policy: DecisionTransformer, moments: Moments, decided: Sequence[Tensor]
) -> list[Tensor]:
    """Return how alike to the chunk's action here are the one taken and the best ones, [B] each."""
    here = moments.same_state.int().argmax(dim=1)  # [B]
    done = moments.chunk.actions[torch.arange(len(moments)), here]  # [B, A]
    padded = policy.spaces.padding(moments.task)  # [B, A]
    counts = torch.ones_like(done) if padded is None else torch.from_numpy(~padded).to(done)
    rule, any_number = ActionRule(temperature=0.0), np.full(done.shape, 0.5)
    none = np.zeros(len(done), np.bool_)
    best = [policy.action_head.choose(each, rule, any_number, none) for each in decided]
    apart = [(action - done).abs() / 2 for action in (moments.action, *map(torch.as_tensor, best))]
    return [1 - (each * counts).sum(dim=1) / counts.sum(dim=1) for each in apart]


def kinds_of(trials: Trials, returns: Mapping[int, NDArray[np.float64]]) -> dict[str, Kind]:
    """Say what a good trial is, most of the best return, and a bad one, which found no goal.

    Where the best return is not known, it is the best that was rolled out. Where no success is
    declared, trials count from the worst one that was rolled out, and a bad one is near to that.
    """
    success = success_threshold(trials.suite, trials.tasks)

    def bounds(task: int) -> tuple[float, float]:
        """Return up to where a trial is bad, and from where on it is good."""
        rolled, possible = returns.get(task, np.zeros(1)), trials.suite.optimal_return(task)
        best = float(rolled.max()) if possible is None else possible
        if success is not None:
            return success, GOOD * best
        worst = float(rolled.min())
        return worst + (1 - GOOD) * (best - worst), worst + GOOD * (best - worst)

    def good(task: int, earned: float) -> bool:
        bad_to, good_from = bounds(task)
        return earned > bad_to and earned >= good_from

    return {"good": good, "bad": lambda task, earned: earned <= bounds(task)[0]}


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
        return {"word": self.word, **asdict(self)}


def respond(following: NDArray[np.float64], kind: Kind) -> Response:
    """Average over the decisions [N, 5] whose chunk is of one kind; each task counts once."""
    of_kind = [kind(int(task), float(earned)) for task, earned in following[:, :2]]
    task, _, agrees, with_chunk, without = following[np.array(of_kind, dtype=bool)].T
    columns = (agrees, with_chunk, without, with_chunk - without)
    return Response(len(task), *(over_tasks(mean_by(task, column)) for column in columns))


def say_response(kind: str, response: Response, how: str = REPEATED) -> str:
    """Say in a sentence what is done with chunks of one kind."""
    if response.change is None:
        return f"A {kind} chunk was never at hand in a state that it shows."
    found = (response.agrees, response.with_chunk, response.without_chunk)
    shares = [percent(share, digits=1 if how == ALIKE else 0) for share in found]
    said = how.format(*shares, decisions=response.decisions)
    return f"A {kind} chunk is {response.word}: {said} without the chunk."
