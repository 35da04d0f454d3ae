"""Does embedding step by step find what embedding the window finds, in real trials?

Up to step C both are the same. Behind it a hidden state that was kept still knows what has left the
window, so only those decisions are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from radt.agent import Agent, Target
from radt.bench.clock import Clock, WatchedEmbedder
from radt.envs.suite import TaskSuite
from radt.experiments.controls import altered
from radt.experiments.run import RunError
from radt.icl import in_context_learning
from radt.loading import Loaded
from radt.methods.method import Actor, Method
from radt.methods.trials import RunningTrials
from radt.trajectory import Trajectory


@dataclass(frozen=True)
class Agreement:
    """How alike both embeddings are over decisions behind step C with something to retrieve."""

    decisions: int
    same_chunk: float  # share whose chosen chunks are the same
    same_action: float  # share whose greedy actions are the same
    cosine: float  # mean over decisions


def variant(method: Method, retrieve_every: int, incremental: bool, window_step: int = 1) -> Method:
    """Copy a method with a memory, its embedder watched, to ask and move as often as is said."""
    changed: Any = altered(method, {"retrieve_every": retrieve_every}, {"window_step": window_step})
    changed.embedder = WatchedEmbedder(changed.embedder, Clock(), incremental)
    return cast(Method, changed)


class Shadowed:
    """An actor at its usual work, and another that decides the same without being listened to."""

    def __init__(self, actor: Actor, shadow: Actor, context_len: int) -> None:
        self.actor, self.shadow, self.context_len = actor, shadow, context_len
        self.alike: list[Tensor] = []  # of [n, 3]: same chunk, same action, cosine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.actor, name)

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Pass on that a task starts."""
        self.actor.forget(slots)
        self.shadow.forget(slots)

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Pass on that trials start."""
        self.actor.begin_trials(slots)
        self.shadow.begin_trials(slots)

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Pass on finished trials."""
        self.actor.remember(finished)
        self.shadow.remember(finished)

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Let both decide, note how alike they are, and pass on what the actor decides."""
        both = self.actor, self.shadow
        ours, theirs = (actor.decide(trials, slots) for actor in both)
        late = torch.from_numpy(trials.step[slots] >= self.context_len)
        if self.actor.retrieval is not None and self.shadow.retrieval is not None:
            chosen = [actor.retrieval.chosen for actor in both if actor.retrieval is not None]
            vectors = [cast(Any, actor.memory).embedder.vectors for actor in both]
            columns = [
                (chosen[0] == chosen[1]).all(1),
                ours.argmax(1) == theirs.argmax(1),
                cosine_similarity(*vectors),
            ]
            found = late & (chosen[1] >= 0).any(1)
            self.alike.append(torch.stack([column.double() for column in columns], dim=1)[found])
        return ours


def measure_agreement(
    loaded: Loaded, suite: TaskSuite, tasks: Sequence[int], trials: int, seed: int = 0
) -> Agreement:
    """Live through trials with a query at every step, embedded step by step, and compare."""
    method, shadow = (variant(loaded.method, 1, incremental) for incremental in (True, False))
    env = suite.make_vec(tasks)
    mode = env.metadata["autoreset_mode"]
    target = Target(*loaded.card.target)
    agent = Agent(method, target, loaded.rule, seed, len(tasks), mode, tasks)
    context_len = cast(Any, method).options.memory.context_len
    both = Shadowed(agent.actor, shadow.actor(len(tasks)), context_len)
    agent.actor = cast(Actor, both)
    in_context_learning(agent, env, trials, seed)
    env.close()
    alike = torch.cat([torch.zeros(0, 3), *both.alike])  # [decisions, 3]
    if not len(alike):
        raise RunError(f"in {trials} trials nothing was retrieved behind step C; give more")
    return Agreement(len(alike), *alike.mean(0).tolist())
