"""Acting: the environments of many tasks, step by step, and the histories that come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from radt.data import History
from radt.spaces import StateSpace

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Observe = Callable[[NDArray[Any]], NDArray[Any]]

LATE_EPISODES = 50
INITIAL, ENVIRONMENT, ROLLOUT, CUT = range(4)  # what a random stream is for


def stream(seed: int, task: int, purpose: int, number: int = 0) -> np.random.Generator:
    """Return the random numbers of a task for a purpose; nothing has to be stored to go on."""
    return np.random.default_rng((seed, task, purpose, number))


@dataclass(frozen=True)
class Rollout:
    """What happened in `steps` steps of every environment, time first."""

    states: NDArray[Any]  # [steps, slots, ...] as a runner notes them: numbers, or observations
    actions: NDArray[Any]  # [steps, slots, *action_shape]
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


class Runner:
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
        self.infos: dict[str, Any] = {}  # of the latest step

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
        """Take the steps whose actions `choose` names, looking at this runner."""
        shape, seen, space = (steps, len(self.states)), self.states, self.env.single_action_space
        states, after = (np.empty((steps, *seen.shape), seen.dtype) for _ in range(2))
        actions = np.empty((*shape, *(space.shape or ())), space.dtype)
        rewards = np.empty(shape, np.float32)
        terminated, truncated = (np.empty(shape, np.bool_) for _ in range(2))
        for step in range(steps):
            states[step] = self.states
            actions[step] = choose(step)
            after[step], rewards[step], terminated[step], truncated[step] = self.step(actions[step])
        return Rollout(states, actions, rewards, terminated, truncated, after)

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Act once in each slot, and begin anew where an episode is over.

        Returns where the actions led, the rewards, and which episodes terminated or were cut off.
        """
        observed, rewards, ended, cut, self.infos = self.env.step(actions)
        after = self.states = np.array(self._observe(observed))  # an own copy: a reset may follow
        self.begun = ended | cut
        if self.begun.any():
            observed, _ = self.env.reset(options={"reset_mask": self.begun})
            self.states = np.array(self._observe(observed))
        return after, rewards, ended, cut


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


def one_history(
    task: int,
    states: NDArray[Any],
    actions: NDArray[Any],
    rewards: NDArray[np.float32],
    ends: NDArray[np.bool_],
    levels: NDArray[np.int32] | None = None,
) -> History:
    """Lay the episodes of a task's environments, [steps, envs, ...], one after the other.

    They stand in the order in which they end, and those that end together in the order of their
    environments. What is unfinished at the end comes last and belongs to no episode.
    """
    order = by_end(ends)

    def laid(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(-1, *values.shape[2:])[order]

    last = np.flatnonzero(laid(ends))
    lengths = np.diff(last, prepend=-1).astype(np.int32)
    own = None if levels is None else laid(levels)[last]
    return History(task, laid(states), laid(actions), laid(rewards), lengths, own)


def by_end(ends: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sort the steps of all environments [steps, envs] by when their episode ends."""
    time, env = np.indices(ends.shape)
    closing = np.where(ends, time, len(ends))  # [steps, envs]
    closing = np.minimum.accumulate(closing[::-1])[::-1]  # the end of the episode that runs
    return np.asarray(np.lexsort((time.ravel(), env.ravel(), closing.ravel())))


def episode_returns(history: History) -> NDArray[np.float64]:
    """Sum the rewards of each complete episode."""
    stops = np.cumsum(history.lengths)  # [E]
    totals = np.concatenate([[0.0], np.cumsum(history.rewards, dtype=np.float64)])
    return np.asarray(totals[stops] - totals[stops - history.lengths])


def late_return(
    returns: NDArray[np.floating[Any]], lengths: NDArray[np.integer[Any]], transitions: int
) -> float | None:
    """Average the last 50 of the episodes that end within the first `transitions` steps."""
    within = np.asarray(returns)[np.cumsum(lengths) <= transitions]
    return float(within[-LATE_EPISODES:].mean()) if len(within) else None
