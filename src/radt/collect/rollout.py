"""Acting: many tasks step by step, with policies that are tables while a rollout lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from radt.collect.minibatch import Floats, Integers
from radt.spaces import StateSpace


@dataclass(frozen=True)
class Rollout:
    """What happened in `steps` steps of every task, time first."""

    states: Integers  # [steps, tasks] state indices
    actions: Integers  # [steps, tasks]
    rewards: NDArray[np.float32]  # [steps, tasks] as the environment gives them
    terminated: NDArray[np.bool_]  # [steps, tasks]
    truncated: NDArray[np.bool_]  # [steps, tasks]
    next_states: Integers  # [steps, tasks], where an episode ends that before the reset


class StateIndex:
    """Number the states of a discrete space, and turn the numbers into network inputs."""

    def __init__(self, space: StateSpace) -> None:
        if space.kind != "discrete":
            raise ValueError(
                f"this data source keeps tables over states and needs discrete ones, not "
                f"{space.kind!r} states of shape {space.shape}"
            )
        self.shape, self.bins = space.shape, space.bins
        self.count = int(np.prod(space.bins))
        self.coordinates = np.stack(np.unravel_index(np.arange(self.count), space.bins), axis=1)
        self.coordinates = self.coordinates.astype(space.dtype)  # [count, coordinates]
        self._strides = np.cumprod((1, *space.bins[:0:-1]))[::-1].copy()  # [coordinates]

    def of(self, observations: NDArray[Any]) -> Integers:
        """Number the observations of many tasks, [tasks, *shape]."""
        index: Integers = observations.reshape(len(observations), -1) @ self._strides
        return index


class Actor:
    """The environments of a group of tasks, in the middle of their episodes."""

    def __init__(
        self, env: VectorEnv[Any, Any, Any], index: StateIndex, seeds: Sequence[int]
    ) -> None:
        if env.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP:
            raise ValueError(
                "the collector resets ended slots itself to see their last state; build the "
                "vector environment in the autoreset mode NEXT_STEP or DISABLED"
            )
        self.env, self.index = env, index
        per_slot: Any = list(seeds)  # which Gymnasium takes, though its hints say one number
        self.states = index.of(env.reset(seed=per_slot)[0])  # [tasks]

    def rollout(self, probabilities: Floats, uniforms: Floats) -> Rollout:
        """Act by the tables [tasks, states, actions] with the random numbers [steps, tasks]."""
        tasks, states, actions = probabilities.shape
        thresholds = probabilities.cumsum(axis=-1)[..., :-1].reshape(-1, actions - 1).copy()
        first_row = np.arange(tasks) * states

        def choose(step: int) -> Integers:
            passed = thresholds.take(first_row + self.states, axis=0) <= uniforms[step][:, None]
            chosen: Integers = passed.sum(axis=1)
            return chosen

        return self._act(len(uniforms), choose)

    def replay(self, actions: NDArray[np.generic]) -> Rollout:
        """Take recorded actions [steps, tasks] again, to be where they led."""
        return self._act(len(actions), lambda step: actions[step])

    def _act(self, steps: int, choose: Callable[[int], NDArray[Any]]) -> Rollout:
        tasks = len(self.states)
        states, actions, after = (np.empty((steps, tasks), np.int64) for _ in range(3))
        rewards = np.empty((steps, tasks), np.float32)
        terminated, truncated = (np.empty((steps, tasks), np.bool_) for _ in range(2))
        for step in range(steps):
            states[step] = self.states
            actions[step] = choose(step)
            observed, rewards[step], ended, cut, _ = self.env.step(actions[step])
            terminated[step], truncated[step] = ended, cut
            after[step] = self.states = self.index.of(observed)
            over = ended | cut
            if over.any():
                observed, _ = self.env.reset(options={"reset_mask": over})
                self.states = self.index.of(observed)
        return Rollout(states, actions, rewards, terminated, truncated, after)


def advantages(
    rollout: Rollout, values: Floats, discount: float, trace_decay: float
) -> tuple[Floats, Floats]:
    """Estimate advantages by GAE, and the value targets, from values [tasks, states].

    The value after an episode's end counts where it was cut off, not where it terminated.
    """
    task = np.arange(values.shape[0])
    now, after = values[task, rollout.states], values[task, rollout.next_states]  # [steps, tasks]
    errors = rollout.rewards + discount * after * ~rollout.terminated - now
    carry = discount * trace_decay * ~(rollout.terminated | rollout.truncated)
    running = np.zeros(len(task))
    for step in range(len(errors) - 1, -1, -1):
        running = errors[step] = errors[step] + carry[step] * running
    return errors, errors + now
