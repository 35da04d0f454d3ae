"""Whether a good chunk is imitated and a bad one avoided, over all tasks.

The paper shows one example of each. Here every decision on the way counts that is made in a state
which the retrieved chunk shows, too: does the agent do what was done there? The same decision is
asked for once more without the chunk, so that what the policy would have done anyway is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from radt.analyses.finding import mean_by, over_tasks, percent, plain
from radt.analyses.moments import Moments
from radt.envs.suite import found_above
from radt.experiments.evaluate import Trials
from radt.metrics import Interval
from radt.model.policy import DecisionTransformer

GOOD = 0.8  # of what is possible on a task: a trial that earned so much is worth imitating


@dataclass(frozen=True)
class Following:
    """Decisions in states that the chunk shows, too, one row each."""

    task: NDArray[np.int64]  # [N]
    chunk_return: NDArray[np.float64]  # [N]
    agrees: NDArray[np.float64]  # [N] share of the chunk's actions in this state that it repeats
    with_chunk: NDArray[np.float64]  # [N] probability that the policy gives to them
    without_chunk: NDArray[np.float64]  # [N] the same, without the chunk

    def __len__(self) -> int:
        return len(self.task)

    def rows(self, chosen: NDArray[np.bool_]) -> Following:
        """Select decisions."""
        return Following(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@torch.no_grad()
def follow(policy: DecisionTransformer, kept: Sequence[Moments]) -> Following:
    """Compare each decision with what the chunk did in the same state."""
    parts = [_follow(policy, moments) for moments in kept]
    names = Following.__dataclass_fields__
    if not parts:
        return Following(np.zeros(0, np.int64), *(np.zeros(0) for _ in range(4)))
    return Following(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _follow(policy: DecisionTransformer, moments: Moments) -> Following:
    actions = one_hot(moments.chunk.actions, policy.spaces.action.size)  # [B, S, A]
    votes = (actions * moments.same_state[..., None]).sum(dim=1).double()  # [B, A]
    shown = votes.sum(dim=1) > 0
    done = votes / votes.sum(dim=1, keepdim=True).clamp_min(1.0)  # [B, A] what the chunk did here
    chances = [
        (policy.decide(moments.recent, chunk).double().softmax(dim=1).cpu() * done).sum(dim=1)
        for chunk in (moments.chunk, None)
    ]
    agrees = done[torch.arange(len(moments)), moments.action]
    columns = (agrees, *chances)
    return Following(
        moments.task[shown.numpy()],
        moments.chunk_return[shown.numpy()],
        *(column[shown].numpy() for column in columns),
    )


def is_good(trials: Trials, best_lived: dict[int, float]) -> Callable[[int, float], bool]:
    """Say what a good trial is: most of the best return, or of the best lived where that is all."""
    above = found_above(trials.suite, trials.tasks)

    def good(task: int, earned: float) -> bool:
        possible = trials.suite.optimal_return(task)
        best = best_lived.get(task, 0.0) if possible is None else possible
        return earned > above and earned >= GOOD * best

    return good


def is_bad(trials: Trials) -> Callable[[int, float], bool]:
    """Say what a bad trial is: one that did not find its goal, or none of several."""
    above = found_above(trials.suite, trials.tasks)
    return lambda _, earned: earned <= above


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
        names = ("agrees", "with_chunk", "without_chunk", "change")
        intervals = {name: plain(getattr(self, name)) for name in names}
        return {"word": self.word, "decisions": self.decisions, **intervals}


def respond(following: Following, kind: Callable[[int, float], bool]) -> Response:
    """Average over the decisions whose chunk is of one kind; each task counts once."""
    facts = zip(following.task.tolist(), following.chunk_return.tolist(), strict=True)
    chosen = following.rows(np.array([kind(task, earned) for task, earned in facts], dtype=bool))
    change = chosen.with_chunk - chosen.without_chunk
    columns = (chosen.agrees, chosen.with_chunk, chosen.without_chunk, change)
    return Response(len(chosen), *(over_tasks(mean_by(chosen.task, c)) for c in columns))


def in_words(kind: str, response: Response) -> str:
    """Say in a sentence what is done with chunks of one kind."""
    if response.change is None:
        return f"A {kind} chunk was never at hand in a state that it shows."
    return (
        f"A {kind} chunk is {response.word}: where it shows the present state, its action is taken "
        f"in {percent(response.agrees)} of {response.decisions:,} decisions before the first "
        f"reward, and the policy gives it {percent(response.with_chunk)} instead of "
        f"{percent(response.without_chunk)} without the chunk."
    )
