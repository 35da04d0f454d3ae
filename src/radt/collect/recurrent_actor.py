"""Acting with recurrent networks, and what their learner has to know of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.collect.lstm import Memory
from radt.collect.minibatch import Experience, Floats, Integers
from radt.collect.networks import POLICY, VALUE
from radt.collect.recurrent import RecurrentActorCritics
from radt.collect.rollout import Actor, Rollout, advantages, drawn
from radt.collect.sequences import Start
from radt.envs.suite import TaskSuite
from radt.spaces import StateSpace

View = Callable[[NDArray[Any]], Tensor]


@dataclass(frozen=True)
class Lived:
    """A rollout, and what the networks saw, thought and remembered in it."""

    rollout: Rollout
    inputs: Tensor  # [tasks, steps * envs, inputs]
    keep: Tensor  # [tasks, steps * envs], 0 at the first step of an episode
    memory: Memory  # [steps + 1, nets, envs, units] before each step, and after the last
    probabilities: Floats  # [steps, tasks, envs] of the actions that were taken
    values: Floats  # [steps, tasks, envs]
    values_after: Floats  # [steps, tasks, envs] of where a step led, also where it was cut off

    def experience(self, discount: float, trace_decay: float) -> Experience:
        """Return the samples, [tasks, steps * envs]."""
        rollout, (steps, tasks, envs) = self.rollout, self.values.shape
        now, after = (part.reshape(steps, -1) for part in (self.values, self.values_after))
        estimates, targets = advantages(rollout, now, after, discount, trace_decay)
        numbers = np.repeat(np.arange(steps * envs).reshape(steps, 1, envs), tasks, axis=1)
        columns: tuple[NDArray[Any], ...] = (numbers, rollout.actions, self.probabilities)
        by_slot = [column.reshape(steps, tasks, envs) for column in (*columns, estimates, targets)]
        by_task: list[NDArray[Any]] = [part.swapaxes(0, 1).reshape(tasks, -1) for part in by_slot]
        return Experience(*by_task)

    def memory_at(self, start: Start) -> Memory:
        """Return what was remembered before a step of some environments, [nets, lanes, units]."""
        envs = torch.from_numpy(start.envs)
        return Memory(*(part[start.step][:, envs] for part in self.memory))


class RecurrentActor:
    """Recurrent networks at work in several environments of each task."""

    def __init__(
        self,
        networks: RecurrentActorCritics,
        suite: TaskSuite,
        tasks: Sequence[int],
        seeds: Sequence[Sequence[int]],
    ) -> None:
        """Begin an episode per task and seed, [tasks][envs]."""
        self.networks, self.envs = networks, len(seeds[0])
        slots = [task for task in tasks for _ in range(self.envs)]
        self.actor = Actor(suite.make_vec(slots), [seed for own in seeds for seed in own])
        self.memory = networks.blank(self.envs)
        self._view = network_view(suite.spaces.state)

    def live(self, uniforms: Floats) -> Lived:
        """Act for a rollout with the random numbers [steps, tasks, envs]."""
        steps, tasks, envs = uniforms.shape
        networks, actor = self.networks, self.actor
        memory = Memory(*(part.new_empty(steps + 1, *part.shape) for part in self.memory))
        for kept, now in zip(memory, self.memory, strict=True):
            kept[0] = now
        inputs = torch.empty(steps, tasks, envs, networks.inputs)
        keep = torch.empty(steps, tasks, envs)
        values, probabilities = np.empty((2, *uniforms.shape))

        def choose(step: int) -> Integers:
            inputs[step], keep[step] = self._look()
            before = Memory(*(part[step] for part in memory))
            outputs, after = networks.act(inputs[step], keep[step], before)
            for part, now in zip(memory, after, strict=True):
                part[step + 1] = now
            outputs = outputs.double()
            policies = outputs[:, POLICY].softmax(dim=1).mT.numpy()  # [tasks, envs, actions]
            actions = drawn(policies.cumsum(axis=-1)[..., :-1], uniforms[step])  # [tasks, envs]
            taken = np.take_along_axis(policies, actions[..., None], axis=-1)
            values[step], probabilities[step] = outputs[:, VALUE, 0].numpy(), taken[..., 0]
            return actions.ravel()

        rollout = actor.act(steps, choose)
        self.memory = Memory(*(part[-1].clone() for part in memory))
        after = np.concatenate([values[1:], self._values_here()[None]])
        cut, found = self._values_of_cut(rollout, memory)
        after.reshape(steps, -1)[cut] = found
        seen, kept = (part.transpose(0, 1).flatten(1, 2) for part in (inputs, keep))
        return Lived(rollout, seen, kept, memory, probabilities, values, after)

    def _look(self) -> tuple[Tensor, Tensor]:
        """Return what is seen now, [tasks, envs, inputs], and 0 where an episode begins."""
        tasks, envs = self.networks.tasks, self.envs
        keep = torch.from_numpy(~self.actor.begun).float()
        return self._view(self.actor.states).view(tasks, envs, -1), keep.view(tasks, envs)

    def _values_here(self) -> Floats:
        """Value the present states, [tasks, envs]."""
        return self._value(*self._look(), self.memory)

    def _values_of_cut(
        self, rollout: Rollout, memory: Memory
    ) -> tuple[tuple[Integers, Integers], Floats]:
        """Value the last states of episodes that were cut off, in the steps and slots returned."""
        step, slot = np.nonzero(rollout.truncated)
        order = np.argsort(slot // self.envs, kind="stable")
        step, slot = step[order], slot[order]
        if not len(step):
            return (step, slot), np.empty(0)
        task, env = np.divmod(slot, self.envs)
        lane = np.arange(len(task)) - np.searchsorted(task, task)  # counted in each task
        states = torch.zeros(self.networks.tasks, lane.max() + 1, self.networks.inputs)
        states[task, lane] = self._view(rollout.next_states[step, slot])
        before = self.networks.blank(states.shape[1])
        for mine, lived in zip(before, memory, strict=True):
            of_both = lived.unflatten(1, (-1, 2))[step + 1, task, :, env]  # [N, 2, units]
            mine.unflatten(0, (-1, 2))[task, :, lane] = of_both
        return (step, slot), self._value(states, torch.ones(states.shape[:2]), before)[task, lane]

    def _value(self, states: Tensor, keep: Tensor, memory: Memory) -> Floats:
        outputs, _ = self.networks.act(states, keep, memory)
        return outputs[:, VALUE, 0].double().numpy()


def network_view(space: StateSpace) -> View:
    """Say how networks see states: grid coordinates from -1 to 1, other numbers as they are."""
    if space.kind == "image":
        raise ValueError(f"recurrent PPO here sees numbers, not images of shape {space.shape}")
    half = torch.tensor(space.bins).sub(1).clamp(min=1) / 2  # none unless discrete

    def view(states: NDArray[Any]) -> Tensor:
        flat = torch.from_numpy(states.reshape(len(states), -1)).float()  # [N, inputs]
        return flat / half - 1 if space.kind == "discrete" else flat

    return view
