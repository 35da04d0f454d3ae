"""Acting: the environments of many tasks, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from radt.collect.minibatch import Floats, Integers
from radt.spaces import StateSpace

Observe = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Rollout:
    """What happened in `steps` steps of every environment, time first."""

    states: NDArray[Any]  # [steps, slots, ...] as an actor notes them: numbers, or observations
    actions: Integers  # [steps, slots]
    rewards: NDArray[np.float32]  # [steps, slots] as the environment gives them
    terminated: NDArray[np.bool_]  # [steps, slots]
    truncated: NDArray[np.bool_]  # [steps, slots]
    next_states: NDArray[Any]  # [steps, slots, ...], where an episode ends that before the reset

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Where an episode is over, [steps, slots]."""
        return self.terminated | self.truncated


class StateIndex:
    """Number the states of a discrete space, and turn the numbers into network inputs."""

    def __init__(self, space: StateSpace) -> None:
        if space.kind != "discrete":
            raise ValueError(
                f"this data source keeps tables over states and needs discrete ones, not "
                f"{space.kind!r} states of shape {space.shape}; choose source=ppo-lstm"
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
    """Environments in the middle of their episodes, one slot each."""

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        seeds: Sequence[int],
        observe: Observe = lambda observations: observations,
    ) -> None:
        """Begin an episode in each slot; `observe` says how states are noted."""
        if env.metadata.get("autoreset_mode") is AutoresetMode.SAME_STEP:
            raise ValueError(
                "the collector resets ended slots itself to see their last state; build the "
                "vector environment in the autoreset mode NEXT_STEP or DISABLED"
            )
        self.env, self._observe = env, observe
        per_slot: Any = list(seeds)  # which Gymnasium takes, though its hints say one number
        self.states = observe(env.reset(seed=per_slot)[0])  # [slots, ...]
        self.begun = np.ones(len(self.states), np.bool_)  # [slots] that stand at a first state

    def rollout(self, probabilities: Floats, uniforms: Floats) -> Rollout:
        """Act by the tables [tasks, states, actions] with the random numbers [steps, tasks]."""
        tasks, states, actions = probabilities.shape
        thresholds = probabilities.cumsum(axis=-1)[..., :-1].reshape(-1, actions - 1).copy()
        first_row = np.arange(tasks) * states

        def choose(step: int) -> Integers:
            return drawn(thresholds.take(first_row + self.states, axis=0), uniforms[step])

        return self.act(len(uniforms), choose)

    def replay(self, actions: NDArray[np.generic]) -> Rollout:
        """Take recorded actions [steps, slots] again, to be where they led."""
        return self.act(len(actions), lambda step: actions[step])

    def act(self, steps: int, choose: Callable[[int], NDArray[Any]]) -> Rollout:
        """Take the steps whose actions `choose` names, looking at this actor."""
        shape, seen = (steps, len(self.states)), self.states
        states, after = (np.empty((steps, *seen.shape), seen.dtype) for _ in range(2))
        actions, rewards = np.empty(shape, np.int64), np.empty(shape, np.float32)
        terminated, truncated = (np.empty(shape, np.bool_) for _ in range(2))
        for step in range(steps):
            states[step] = self.states
            actions[step] = choose(step)
            observed, rewards[step], ended, cut, _ = self.env.step(actions[step])
            terminated[step], truncated[step] = ended, cut
            after[step] = self.states = self._observe(observed)
            self.begun = ended | cut
            if self.begun.any():
                observed, _ = self.env.reset(options={"reset_mask": self.begun})
                self.states = self._observe(observed)
        return Rollout(states, actions, rewards, terminated, truncated, after)


def drawn(thresholds: Floats, uniforms: Floats) -> Integers:
    """Draw actions by cumulative probabilities [..., actions - 1] and uniform numbers [...]."""
    passed: Integers = (thresholds <= uniforms[..., None]).sum(axis=-1)
    return passed


def advantages(
    rollout: Rollout, now: Floats, after: Floats, discount: float, trace_decay: float
) -> tuple[Floats, Floats]:
    """Estimate advantages by GAE, and the value targets, from values before and after each step.

    The value after an episode's end counts where it was cut off, not where it terminated.
    """
    errors = rollout.rewards + discount * after * ~rollout.terminated - now  # [steps, slots]
    carry = discount * trace_decay * ~rollout.ends
    running = np.zeros(errors.shape[1])
    for step in range(len(errors) - 1, -1, -1):
        running = errors[step] = errors[step] + carry[step] * running
    return errors, errors + now
