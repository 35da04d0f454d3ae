"""A count-based exploration bonus: what was tried without success becomes less likely.

Until a task is solved, the agent counts how often it took each action in each state, over all
trials of the task, and lowers the logits of what it did often (`count_bonus`). A reward on the way,
such as a key, starts counts of their own: what was tried before it says nothing about what comes
after. Where rewards have led before there is a path to follow, so only beyond the most rewards that
any trial had does the agent explore. Where that path no longer pays, it backs off from it for some
trials, which have counts of their own.

On a known path an agent may miss the goal by a step and wait there. `revisit_penalty` lowers the
logits of what was done in the present state since the trial's last reward.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces

STAGES = 4  # rewards of a trial so far that are told apart: none, one, two, more
Place = tuple[int, bytes]  # rewards so far, plus STAGES while backing off, and a state's numbers


class ExplorationBonus:
    """Counts of state-action pairs per slot; they need states that recur, as places do."""

    def __init__(
        self, spaces: TaskSpaces, slots: int, count_bonus: float, revisit_penalty: float = 0.0
    ) -> None:
        countable = spaces.state.kind in ("discrete", "vector") and spaces.action.kind == "discrete"
        weights = (count_bonus, revisit_penalty) if countable else (0.0, 0.0)
        self.count_bonus, self.revisit_penalty = weights
        self.actions = spaces.action.size
        self.counts: list[dict[Place, NDArray[np.int64]]] = [{} for _ in range(slots)]  # of [A]

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Start new tasks in some slots."""
        for slot in slots.tolist():
            self.counts[slot] = {}

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
        rows = zip(kept["tried_at"].tolist(), kept["tried_in"], kept["tried"], strict=True)
        for (slot, stage), state, times in rows:
            self.counts[slot][stage, state.numpy().tobytes()] = times.numpy().copy()

    def adjust(self, logits: Tensor, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Count each slot's latest step and lower the logits [B, A] of what it has tried here."""
        exploring = trials.exploring(slots)  # [B]
        if self.revisit_penalty:
            again = np.stack([actions_here(trials, slot, self.actions) for slot in slots.tolist()])
            penalty = self.revisit_penalty * np.log1p(again) * ~exploring[:, None]
            logits = logits - torch.from_numpy(penalty).to(logits)
        if not self.count_bonus:
            return logits
        times = np.zeros((len(slots), self.actions))
        for row, slot in enumerate(slots.tolist()):
            step, stage = int(trials.step[slot]), int(trials.rewards_so_far[slot])
            backing_off = bool(trials.back_off[slot] > 0)
            if step:
                paid = int(trials.rewards[slot, step - 1] > 0)
                tried = self._at(slot, stage - paid, backing_off, trials.states[slot, step - 1])
                tried[trials.actions[slot, step - 1]] += 1
            times[row] = self._at(slot, stage, backing_off, trials.states[slot, step])
        penalty = self.count_bonus * np.log1p(times) * exploring[:, None]
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
