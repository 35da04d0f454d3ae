"""The running trials of an agent, one per slot, written step by step."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory


class RunningTrials:
    """What each slot has seen and done since its current trial began."""

    def __init__(self, spaces: TaskSpaces, slots: int) -> None:
        self.spaces, self.slots = spaces, slots
        state, action = spaces.state, spaces.action
        steps = spaces.horizon
        state_type = np.int64 if state.kind == "discrete" else state.dtype
        action_type = np.int64 if action.kind == "discrete" else action.dtype
        self.states = np.zeros((slots, steps, *state.shape), dtype=state_type)
        self.actions = np.zeros((slots, steps, *action.shape), dtype=action_type)
        self.rewards = np.zeros((slots, steps), dtype=np.float32)
        numbers = 1 if action.kind == "discrete" else action.size
        self.noise = np.zeros((slots, steps, numbers))  # in [0, 1): what is random in each decision
        self.target = np.zeros(slots, dtype=np.float32)  # [slots] return aimed at
        self.step = np.zeros(slots, dtype=np.int64)  # [slots] steps finished in this trial
        self.trial = np.zeros(slots, dtype=np.int64)  # [slots] trials finished in this task
        self.earned = np.zeros(slots, dtype=np.float64)  # [slots] return of this trial so far
        self.rewards_so_far = np.zeros(slots, dtype=np.int64)  # [slots] of this trial
        self.rewards_of_trials: list[list[int]] = [[] for _ in range(slots)]  # finished, this task
        self.solved = np.zeros(slots, dtype=bool)  # [slots] some trial earned what solves the task

    def begin_task(self, slots: NDArray[np.int64]) -> None:
        """Start a new task in some slots: nothing is known of it yet."""
        self.trial[slots] = 0
        self.solved[slots] = self.spaces.solved_above is None  # then there is nothing to find
        for slot in slots.tolist():
            self.rewards_of_trials[slot] = []
        self.step[slots] = 0

    def begin_trial(self, slots: NDArray[np.int64], target: NDArray[np.float32]) -> None:
        """Start a new trial in some slots, aiming at a return each."""
        self.step[slots] = 0
        self.rewards_so_far[slots] = 0
        self.earned[slots] = 0
        self.target[slots] = target

    def see(self, slots: NDArray[np.int64], states: NDArray[np.generic]) -> None:
        """Write down the state that each slot is in now."""
        if (self.step[slots] >= self.spaces.horizon).any():
            raise ValueError(
                f"a trial goes on beyond the {self.spaces.horizon} steps that this agent was "
                "trained for; end it with terminated or truncated, and where the environment was "
                "reset in the middle of a trial, call abandon() then"
            )
        self.states[slots, self.step[slots]] = states

    def record(
        self,
        slots: NDArray[np.int64],
        actions: NDArray[np.generic],
        rewards: NDArray[np.float32],
    ) -> None:
        """Write down what was done in the current state and what it brought."""
        step = self.step[slots]
        self.actions[slots, step] = actions
        self.rewards[slots, step] = rewards
        self.earned[slots] += rewards
        self.rewards_so_far[slots] += rewards > 0
        if self.spaces.solved_above is not None:
            self.solved[slots] |= self.earned[slots] > self.spaces.solved_above
        self.step[slots] += 1

    def finish(self, slot: int) -> Trajectory:
        """Return the trial of a slot as a trajectory and count it."""
        span = slice(0, self.step[slot])
        trajectory = Trajectory(
            states=self.states[slot, span].copy(),
            actions=self.actions[slot, span].copy(),
            rewards=self.rewards[slot, span].copy(),
            task=slot,
            episode=int(self.trial[slot]),
        )
        self.trial[slot] += 1
        self.rewards_of_trials[slot].append(int(self.rewards_so_far[slot]))
        return trajectory

    def window_start(
        self, slots: NDArray[np.int64], context_len: int, window_step: int = 1
    ) -> NDArray[np.int64]:
        """Return the step at which each slot's window begins, [B].

        A full window moves on by `window_step` at once, so that it holds the last C steps or up to
        `window_step` - 1 fewer.
        """
        first = np.maximum(self.step[slots] - context_len + 1, 0)
        start: NDArray[np.int64] = -(-first // window_step) * window_step
        return start

    def recent(self, slots: NDArray[np.int64], context_len: int, window_step: int = 1) -> Batch:
        """Return the window of each slot up to the state it is in now, [B, <=C].

        The action and reward of that last step are still unknown and zero.
        """
        now = self.step[slots]  # [B]
        start = self.window_start(slots, context_len, window_step)
        length = int((now - start).max()) + 1
        step = start[:, None] + np.arange(length)  # [B, L]
        mask = step <= now[:, None]
        step = np.minimum(step, now[:, None])
        done = step < now[:, None]
        at = (slots[:, None], step)
        rewards = np.where(done, self.rewards[at], 0)
        return Batch(
            states=torch.from_numpy(self.states[at]),
            actions=torch.from_numpy(_where(done, self.actions[at])),
            rewards=torch.from_numpy(rewards),
            returns_to_go=torch.from_numpy(self._returns_to_go(slots, at)),
            timesteps=torch.from_numpy(step),
            mask=torch.from_numpy(mask),
        )

    def latest(self, slots: NDArray[np.int64], no_action: int) -> Batch:
        """Return the state each slot is in, with the action and reward that led there, [B, 1]."""
        now = self.step[slots]
        before = np.maximum(now - 1, 0)
        first = now == 0
        actions = self.actions[slots, before]
        actions[first] = no_action
        rewards = np.where(first, 0, self.rewards[slots, before]).astype(np.float32)
        to_go = (self.target[slots] - self.earned[slots]).astype(np.float32)
        return Batch(
            states=torch.from_numpy(self.states[slots, now][:, None]),
            actions=torch.from_numpy(actions[:, None]),
            rewards=torch.from_numpy(rewards[:, None]),
            returns_to_go=torch.from_numpy(to_go[:, None]),
            timesteps=torch.from_numpy(now[:, None]),
            mask=torch.ones(len(slots), 1, dtype=torch.bool),
        )

    def _returns_to_go(
        self, slots: NDArray[np.int64], at: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> NDArray[np.float32]:
        """What is left of the target before each step, [B, L]."""
        earned = np.cumsum(self.rewards[slots], axis=1)  # [B, horizon], with stale steps behind
        before = np.where(at[1] > 0, earned[np.arange(len(slots))[:, None], at[1] - 1], 0)
        return (self.target[slots][:, None] - before).astype(np.float32)


def _where(mask: NDArray[np.bool_], values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Zero the values, [B, L] or [B, L, n], wherever the mask [B, L] is False."""
    spread = mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))
    return np.where(spread, values, np.zeros_like(values))


def last_real(batch: Batch, per_step: Tensor) -> Tensor:
    """Pick the value at each row's last real step: [B, L, n] -> [B, n]."""
    last = batch.mask.sum(1) - 1
    return per_step[torch.arange(len(last)), last]
