"""`nearest` and `random`: what can be had without learning, in any space.

`nearest` stores its trials and acts as the most similar stored state did, in the best trial that
holds a similar one; where that trial was in the same state several times, as it did when most was
still to come. It is the baseline that an agent with retrieval is held against. Until trials differ
in their return, and where no better trial holds a similar state, it acts at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.heuristic import CERTAIN, RandomActor, register
from radt.methods.trials import RunningTrials
from radt.spaces import StateSpace
from radt.trajectory import Trajectory, returns_to_go

RADIUS = 0.5  # root mean square of normalised differences up to which states are similar
PIXELS = 8  # rows and columns that images are averaged to before they are compared


@dataclass(frozen=True)
class Trial:
    """What is kept of a finished trial."""

    points: NDArray[np.floating]  # [T, D] its states
    actions: NDArray[np.generic]  # [T, *action_shape]
    to_go: NDArray[np.floating]  # [T] returns-to-go
    total_return: float


@dataclass(frozen=True)
class Steps:
    """The steps of all trials that are better than the worst, the best trial first."""

    points: NDArray[np.floating]  # [N, D] normalised
    actions: NDArray[np.generic]  # [N, *action_shape]
    to_go: NDArray[np.floating]  # [N] returns-to-go
    trial: NDArray[np.int64]  # [N] from 0 on
    scale: NDArray[np.floating]  # [D]
    squares: NDArray[np.floating]  # [N] |point|^2

    def similar(self, point: NDArray[np.floating], radius: float) -> int | None:
        """Find the most similar step of the first trial that holds a similar one.

        Of equally similar ones it is that with the highest return-to-go, of such the latest.
        """
        point = point / self.scale
        squared = (
            self.squares - 2 * (self.points @ point) + point @ point
        )  # [N], exact for integers
        near = squared <= len(point) * radius**2
        first = int(np.argmax(near))
        if not near[first]:
            return None
        start, stop = np.searchsorted(self.trial, self.trial[first] + np.arange(2)).tolist()
        apart = distance(self.points[start:stop], point)  # [T]
        to_go = np.where(apart <= apart.min(), self.to_go[start:stop], -np.inf)
        return int(stop) - 1 - int(np.argmax(to_go[::-1]))


class NearestActor(RandomActor):
    """Copies the most similar state of the best trial that holds a similar one."""

    def forget(self, slots: NDArray[np.int64]) -> None:
        if not hasattr(self, "stored"):
            self.stored: dict[int, list[Trial]] = {}
            self.better: dict[int, Steps | None] = {}
        for slot in slots.tolist():
            self.stored[slot], self.better[slot] = [], None

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep finished trials, the best first and of equals the latest first."""
        for trial in finished:
            points = as_points(trial.states, self.spaces.state)
            stored = self.stored[trial.task]
            to_go = returns_to_go(trial.rewards)
            stored.insert(0, Trial(points, trial.actions, to_go, trial.total_return))
            stored.sort(key=lambda kept: -kept.total_return)
            self.better[trial.task] = better_than_worst(
                stored, normalise=self.spaces.state.kind != "discrete"
            )

    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        """Copy where there is something to copy, else act at random, [B, action_size]."""
        decided = super().decide(trials, slots)
        copying = [row for row, slot in enumerate(slots.tolist()) if self.better[slot] is not None]
        if not copying:
            return decided
        now = slots[copying]
        points = as_points(trials.states[now, trials.step[now]], self.spaces.state)  # [B, D]
        radius = 0.0 if self.spaces.state.kind == "discrete" else RADIUS
        for row, slot, point in zip(copying, now.tolist(), points, strict=True):
            steps = self.better[slot]
            found = None if steps is None else steps.similar(point, radius)
            if steps is None or found is None:
                continue
            if self.spaces.action.kind == "discrete":
                decided[row, int(steps.actions[found])] = CERTAIN
            else:
                decided[row] = torch.from_numpy(np.asarray(steps.actions[found]))
        return decided


def as_points(states: NDArray[np.generic], space: StateSpace) -> NDArray[np.floating]:
    """Write states as rows of numbers to compare, images coarsely: [T, *state_shape] -> [T, D]."""
    if space.kind != "image":
        return states.reshape(len(states), -1).astype(np.float64)
    size = (min(PIXELS, space.shape[1]), min(PIXELS, space.shape[2]))
    images = torch.from_numpy(states).float()
    coarse = torch.nn.functional.adaptive_avg_pool2d(images, size)
    return np.asarray(coarse.flatten(1).numpy())


def better_than_worst(stored: Sequence[Trial], normalise: bool) -> Steps | None:
    """Join the trials, best first, that earned more than the last one; None: there are none."""
    better = [trial for trial in stored if trial.total_return > stored[-1].total_return]
    if not better:
        return None
    scale = state_scale([trial.points for trial in stored])
    if not normalise:
        scale = np.ones_like(scale)
    points = np.concatenate([trial.points for trial in better]) / scale
    return Steps(
        points=points,
        actions=np.concatenate([trial.actions for trial in better]),
        to_go=np.concatenate([trial.to_go for trial in better]),
        trial=np.repeat(np.arange(len(better)), [len(trial.points) for trial in better]),
        scale=scale,
        squares=np.einsum("nd,nd->n", points, points),
    )


def state_scale(points: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
    """Return the standard deviation of each number of a state, 1 where it never changes."""
    deviation = np.concatenate(points).std(axis=0)
    return np.asarray(np.where(deviation > 0, deviation, np.ones_like(deviation)))


def distance(points: NDArray[np.floating], point: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the root mean square of differences to each of some points, [N, D] -> [N]."""
    apart = points - point
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", apart, apart) / points.shape[1]))


register("random", RandomActor)
register("nearest", NearestActor)
