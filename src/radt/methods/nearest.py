"""`nearest` and `random`: what can be had without learning, in any space.

`nearest` stores its trials and acts as the most similar stored state did, in the best trial that
holds a similar one. It is the baseline that an agent with retrieval is held against. Until trials
differ in their return, and where no better trial holds a similar state, it acts at random.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.heuristic import CERTAIN, RandomActor, register
from radt.methods.trials import RunningTrials
from radt.trajectory import Trajectory

RADIUS = 0.5  # root mean square of normalised differences up to which states are similar


class NearestActor(RandomActor):
    """Copies the most similar state of the best trial that holds a similar one."""

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Know of no trial."""
        if not hasattr(self, "stored"):
            self.stored: dict[int, list[Trajectory]] = {}
        for slot in slots.tolist():
            self.stored[slot] = []

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep finished trials, the best first and of equals the latest first."""
        for trial in finished:
            self.stored[trial.task].insert(0, trial)
            self.stored[trial.task].sort(key=lambda kept: -kept.total_return)

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Copy where there is something to copy, else act at random, [B, action_size]."""
        decided = super().decide(trials, slots)
        for row, slot in enumerate(slots.tolist()):
            action = self._copied(slot, trials.states[slot, trials.step[slot]])
            if action is None:
                continue
            if self.spaces.action.kind == "discrete":
                decided[row, int(action)] = CERTAIN
            else:
                decided[row] = torch.from_numpy(np.asarray(action))
        return decided

    def _copied(self, slot: int, state: NDArray[np.generic]) -> NDArray[np.generic] | None:
        """Return what the best trial did in a state like this one; None: no trial tells."""
        stored = self.stored[slot]
        better = [trial for trial in stored if trial.total_return > stored[-1].total_return]
        if not better:
            return None
        scale = state_scale([trial.states for trial in stored])
        for trial in better:
            apart = distance(trial.states, state, scale)  # [T]
            nearest = len(apart) - 1 - int(np.argmin(apart[::-1]))  # of equals the last
            if apart[nearest] <= (0 if self.spaces.state.kind == "discrete" else RADIUS):
                return np.asarray(trial.actions[nearest])
        return None


def state_scale(states: Sequence[NDArray[np.generic]]) -> NDArray[np.float64]:
    """Return the standard deviation of each number of a state, 1 where it never changes."""
    deviation = np.concatenate(states).astype(np.float64).std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def distance(
    states: NDArray[np.generic], state: NDArray[np.generic], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the root mean square of normalised differences to each of some states, [T]."""
    apart = (states.astype(np.float64) - state.astype(np.float64)) / scale  # [T, *state_shape]
    return np.asarray(np.sqrt(np.square(apart).reshape(len(apart), -1).mean(axis=1)))


register("random", RandomActor)
register("nearest", NearestActor)
