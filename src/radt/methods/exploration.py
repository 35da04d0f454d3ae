"""Exploration by counts, around any method: what was tried without success becomes less likely.

Until a task is solved, the agent counts how often it took each action in each state, over all
trials of the task, and lowers the logits of what it did often (`count_bonus`). A reward on the way,
such as a key, starts counts of their own: what was tried before it says nothing about what comes
after. Where rewards have led before there is a path to follow, so only beyond the most rewards that
any trial had does the agent explore. A path that did not pay again, such as one to a key that is
kept, is avoided for one trial, then for two, four, and so on; these trials have their own counts.

On a known path an agent may miss the goal by a step and wait there. `revisit_penalty` lowers the
logits of what was done in the present state since the trial's last reward.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.memory.memory import Memory
from radt.methods.method import Actor, Method, SavesState, UsesSharedMemory
from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces

STAGES = 4  # rewards of a trial so far that are told apart: none, one, two, more
LONGEST = 5  # a known path is tried again after 2 ** this trials at the latest
Place = tuple[int, bytes]  # rewards so far, plus STAGES while backing off, and a state's numbers


@dataclass(frozen=True)
class KnownPath:
    """What the finished trials of a task say about its path."""

    most_rewards: int  # of any trial
    avoided: int  # trials for which the path is avoided from now on


def known_path(rewards: Sequence[int]) -> KnownPath:
    """Learn from how many rewards each finished trial had."""
    most = avoided = failures = 0
    if not any(rewards):
        return KnownPath(most, avoided)
    for count in rewards:
        most = max(most, count)
        if count == most:
            avoided = failures = 0
        elif avoided:
            avoided -= 1
        else:
            avoided = 1 << min(failures, LONGEST)
            failures += 1  # in a row
    return KnownPath(most, avoided)


def exploring(trials: RunningTrials, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which slots explore, [B]: unsolved tasks where no trial had more rewards than this."""

    def explores(slot: int) -> bool:
        if trials.solved[slot]:
            return False
        path = known_path(trials.rewards_of_trials[slot])
        return bool(trials.rewards_so_far[slot] >= path.most_rewards or path.avoided)

    return np.array([explores(slot) for slot in slots], bool)


def packed(rewards: Sequence[Sequence[int]]) -> Tensor:
    """Put the rewards of each slot's trials into one array, [slots, trials], with -1 behind."""
    longest = max(map(len, rewards), default=0)
    rows = [[*row, *[-1] * (longest - len(row))] for row in rewards]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rewards), longest)


def unpacked(saved: Tensor) -> list[list[int]]:
    """Read what `packed` wrote."""
    return [[count for count in row if count >= 0] for row in saved.tolist()]


@dataclass(frozen=True)
class ExplorationConfig:
    """How much counts weigh; without weight a method acts as it is."""

    count_bonus: float = 0.0  # avoid what was tried until a task is solved
    revisit_penalty: float = 0.0  # avoid what was done in this state since the trial's last reward


class ExplorationBonus:
    """Counts of state-action pairs per slot; they need states that recur, as places do."""

    def __init__(self, spaces: TaskSpaces, slots: int, config: ExplorationConfig) -> None:
        countable = spaces.state.kind in ("discrete", "vector") and spaces.action.kind == "discrete"
        weights = config if countable else ExplorationConfig()
        self.count_bonus, self.revisit_penalty = weights.count_bonus, weights.revisit_penalty
        self.actions = spaces.action.size
        self.counts: list[dict[Place, NDArray[np.int64]]] = [{} for _ in range(slots)]  # of [A]

    def share(self, tasks: NDArray[np.int64]) -> None:
        """Let slots with one task count together, so that none tries what another has tried."""
        first: dict[int, dict[Place, NDArray[np.int64]]] = {}
        self.counts = [first.setdefault(task, {}) for task in tasks.tolist()]

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start new tasks in some slots."""
        for slot in slots.tolist():
            self.counts[slot].clear()

    def kept(self) -> dict[str, Tensor]:
        """Return what is worth saving."""
        rows = [(slot, *place) for slot, places in enumerate(self.counts) for place in places]
        times = [counted for places in self.counts for counted in places.values()]
        at = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
        states = np.frombuffer(b"".join(row[2] for row in rows), np.uint8)
        return {
            "tried": torch.from_numpy(np.array(times, np.int64).reshape(-1, self.actions)),
            "tried_at": torch.from_numpy(at),  # [N, 2] slot and stage
            "tried_in": torch.from_numpy(states.reshape(len(rows), -1 if rows else 0).copy()),
        }

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Know what was saved and nothing else; an agent that did not count has tried nothing."""
        self.forget(np.arange(len(self.counts)))
        if not self.count_bonus or "tried_at" not in kept:
            return
        at, tried = kept["tried_at"], kept["tried"]
        if tried.dtype != torch.int64 or tried.shape[1:] != (self.actions,) or bool((at < 0).any()):
            raise ValueError(f"{list(tried.shape)} counts of {self.actions} actions")
        rows = zip(at.tolist(), kept["tried_in"], tried, strict=True)
        for (slot, stage), state, times in rows:
            self.counts[slot][stage, state.numpy().tobytes()] = times.numpy().copy()

    def adjust(self, logits: Tensor, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Count each slot's latest step and lower the logits [B, A] of what it has tried here."""
        explores = exploring(trials, slots)  # [B]
        if self.revisit_penalty:
            again = np.stack([actions_here(trials, slot, self.actions) for slot in slots.tolist()])
            penalty = self.revisit_penalty * np.log1p(again) * ~explores[:, None]
            logits = logits - torch.from_numpy(penalty).to(logits)
        if not self.count_bonus:
            return logits
        times = np.zeros((len(slots), self.actions))
        for row, slot in enumerate(slots.tolist()):
            step, stage = int(trials.step[slot]), int(trials.rewards_so_far[slot])
            backing_off = known_path(trials.rewards_of_trials[slot]).avoided > 0
            if step:
                paid = int(trials.rewards[slot, step - 1] > 0)
                tried = self._at(slot, stage - paid, backing_off, trials.states[slot, step - 1])
                tried[trials.actions[slot, step - 1]] += 1
            times[row] = self._at(slot, stage, backing_off, trials.states[slot, step])
        penalty = self.count_bonus * np.log1p(times) * explores[:, None]
        return logits - torch.from_numpy(penalty).to(logits)

    def _at(
        self, slot: int, stage: int, backing_off: bool, state: NDArray[np.generic]
    ) -> NDArray[np.int64]:
        """Return how often each action was tried in a state, [A], to read or to count on."""
        place = (min(stage, STAGES - 1) + STAGES * backing_off, state.tobytes())
        return self.counts[slot].setdefault(place, np.zeros(self.actions, np.int64))


def actions_here(trials: RunningTrials, slot: int, actions: int) -> NDArray[np.int64]:
    """Count what a slot did in its present state since the trial's last reward, [A]."""
    now = int(trials.step[slot])
    paid = np.flatnonzero(trials.rewards[slot, :now] > 0)
    since = slice(int(paid[-1]) + 1 if len(paid) else 0, now)
    same = trials.states[slot, since] == trials.states[slot, now]  # [n, *state_shape]
    here = same.all(axis=tuple(range(1, same.ndim)))
    return np.bincount(trials.actions[slot, since][here], minlength=actions)


class Exploring:
    """A method whose actors count; in all else it is the method itself."""

    def __init__(self, method: Method, config: ExplorationConfig) -> None:
        self.method, self.exploration = method, config
        self.name, self.spaces, self.networks = method.name, method.spaces, method.networks

    def __getattr__(self, name: str) -> Any:
        if name == "method":  # while it is copied
            raise AttributeError(name)
        return getattr(self.method, name)

    def __copy__(self) -> Exploring:
        copied = Exploring(copy.copy(self.method), self.exploration)
        copied.name = self.name
        return copied

    def actor(self, slots: int) -> Actor:
        bonus = ExplorationBonus(self.spaces, slots, self.exploration)
        return counting(self.method.actor(slots), bonus)


def with_exploration(method: Method, config: ExplorationConfig) -> Method:
    """Let a method explore by counts, if they have any weight."""
    return method if config == ExplorationConfig() else cast(Method, Exploring(method, config))


def exploration_of(method: Method) -> tuple[Method, ExplorationConfig]:
    """Return a method without exploration, and what was around it."""
    if isinstance(method, Exploring):
        return method.method, method.exploration
    return method, ExplorationConfig()


def counting(actor: Actor, bonus: ExplorationBonus) -> Actor:
    """Let an actor count what it tries; whatever else it can and shows stays its own."""
    decide, forget = actor.decide, actor.forget
    saves = actor if isinstance(actor, SavesState) else None
    kept, restore = (saves.kept, saves.restore) if saves else (None, None)
    share = actor.share if isinstance(actor, UsesSharedMemory) else None

    def decide_and_count(trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        return bonus.adjust(decide(trials, slots), trials, slots)

    def share_both(memory: Memory, tasks: NDArray[np.int64]) -> None:
        if share:
            share(memory, tasks)
            bonus.share(tasks)

    def forget_counts(slots: NDArray[np.int64]) -> None:
        forget(slots)
        bonus.forget(slots)

    def keep_counts() -> dict[str, Tensor]:
        return (kept() if kept else {}) | bonus.kept()

    def restore_counts(saved: Mapping[str, Tensor]) -> None:
        if restore:
            restore(saved)
        bonus.restore(saved)

    wrapped: Any = actor
    wrapped.decide, wrapped.forget = decide_and_count, forget_counts
    wrapped.kept, wrapped.restore = keep_counts, restore_counts
    if share:
        wrapped.share = share_both
    wrapped.remembers = True
    return actor
