"""What an agent looks at in the chunk that it retrieved, and what it makes of it.

The paper shows two attention maps and reads off them that the end of the chunk and the present
state draw attention, that a good chunk is imitated and that a bad one is avoided. Here these are
shares over all tasks; the maps are those of one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radt.analyses import attention_picture, imitation
from radt.analyses.finding import Finding, mean_by, over_tasks, plain
from radt.analyses.imitation import follow, respond
from radt.analyses.moments import MomentKeeper, Moments, on_the_way, retrieving
from radt.analyses.relive import Lives, drawable, relive
from radt.experiments.evaluate import Trials
from radt.experiments.run import RunError
from radt.methods import Method
from radt.model.looking import attention_to_steps
from radt.model.policy import DecisionTransformer
from radt.track import Tracker

EARLY, OFTEN, SELDOM = 20, 2, 7  # which decisions are looked at: more at the start of a trial
LAST = 0.1  # of a chunk is its end
STEPS = (1, 5, 10)  # of a trial, as in the paper: those whose maps are drawn
TARGETS = ("own_state", "rewarded", "end")


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
    lives = relive(method, trials, tracker, keeper)
    if not keeper.kept:
        raise RunError(
            f"nothing was retrieved in {trials.count} trials, so there is no attention to look at; "
            "give more of them with --trials"
        )
    searching = on_the_way(keeper.kept)
    shares = attend(policy, searching)
    responses = respond_to_both(policy, lives, searching)
    shown = attention_picture.choose(lives, keeper.kept, steps)
    attention_picture.draw(policy, lives, shown, path)
    numbers = {
        "method": method.name,
        "attention": {name: share.to_json() for name, share in shares.items()},
        "chunks": {kind: response.to_json() for kind, response in responses.items()},
        "good_from_share_of_optimum": imitation.GOOD,
        "shown": [moment.to_json() for moment in shown],
    }
    words = [imitation.in_words(kind, response) for kind, response in responses.items()]
    return Finding("attention", " ".join([*words, in_words(shares)]).strip(), numbers, trials, path)


def looked_at(horizon: int) -> list[int]:
    """Choose the steps of a trial at which decisions are looked at."""
    return [*range(0, min(EARLY, horizon), OFTEN), *range(EARLY, horizon, SELDOM)]


def respond_to_both(
    policy: DecisionTransformer, lives: Lives, kept: Sequence[Moments]
) -> dict[str, imitation.Response]:
    """Say what is done with good and with bad chunks."""
    following = follow(policy, kept)
    best = dict(zip(lives.trials.tasks, lives.returns.max(axis=1).tolist(), strict=True))
    return {
        "good": respond(following, imitation.is_good(lives.trials, best)),
        "bad": respond(following, imitation.is_bad(lives.trials)),
    }


@dataclass(frozen=True)
class Share:
    """How much attention some steps of the chunks get, and how many of the steps they are."""

    attention: float
    steps: float
    lift: dict[str, float] | None  # of attention over an even one, with 95 % over tasks

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"attention": self.attention, "steps": self.steps, "lift": self.lift}


def attend(policy: DecisionTransformer, kept: Sequence[Moments]) -> dict[str, Share]:
    """Average the attention of decisions to the own state, to rewards and to the chunk's end."""
    if not kept:
        return {}
    task = np.concatenate([moments.task for moments in kept])
    rows = torch.cat([_attention(policy, moments) for moments in kept]).numpy()  # [N, 3, 2]
    found = {}
    for place, name in enumerate(TARGETS):
        given, even = rows[:, place, 0], rows[:, place, 1]
        present = even > 0
        lift = over_tasks(mean_by(task[present], given[present] / even[present]))
        weight, steps = (
            mean_by(task[present], given[present]),
            mean_by(task[present], even[present]),
        )
        if lift is not None:
            found[name] = Share(float(np.mean(weight)), float(np.mean(steps)), plain(lift))
    return found


def _attention(policy: DecisionTransformer, moments: Moments) -> Tensor:
    """Return attention to, and share of, each kind of steps: [B, 3, 2]."""
    chunk = moments.chunk
    weights = decision_attention(policy, moments)  # [B, S]
    length = chunk.mask.sum(dim=1, keepdim=True)  # [B, 1]
    place = chunk.mask.cumsum(dim=1)  # [B, S] from 1
    at_end = chunk.mask & (place > length - (LAST * length).ceil())
    kinds = (moments.same_state, chunk.mask & (chunk.rewards > 0), at_end)
    shares = [
        torch.stack([(weights * kind).sum(dim=1), kind.sum(dim=1) / length[:, 0]], dim=1)
        for kind in kinds
    ]
    return torch.stack(shares, dim=1)


def decision_attention(policy: DecisionTransformer, moments: Moments) -> Tensor:
    """Return how much the present decision looks at each step of its chunk, [B, S]."""
    weights = attention_to_steps(policy, moments.recent, moments.chunk).cpu()  # [B, L, S]
    return weights[torch.arange(len(moments)), moments.last]


def in_words(shares: dict[str, Share]) -> str:
    """Say what draws attention."""
    names = {
        "own_state": "the present state",
        "rewarded": "rewarded steps",
        "end": "its last tenth",
    }
    parts = [
        f"{names[name]} {share.attention:.0%} ({share.steps:.0%} of the steps)"
        for name, share in shares.items()
    ]
    return f"Of the attention to a chunk, a decision gives {', '.join(parts)}." if parts else ""
