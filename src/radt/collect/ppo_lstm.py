"""The source `ppo-lstm`: PPO with recurrent networks on every task of a group at once.

Hyper-parameters and networks are those of sb3-contrib's RecurrentPPO with its MlpLstmPolicy, as the
paper used them for MazeRunner; `presets` has a lighter way. An agent may learn from several
environments of its task at once; their episodes are stored as one history, in the order in which
they end. Rewards are stored as the environment gives them: the value that stands for the future
of an episode that was cut off is known to the learner only.

Minibatches are sequences. As in sb3-contrib, the rollouts of a task's environments are lined up,
the line is cut at a random place, its two parts swap, and minibatches are consecutive pieces of it.
What starts inside a rollout goes on from the state that the LSTM had there when it acted. All tasks
share the cut, so that in all lanes of a minibatch the end of one rollout is followed by the
beginning of another at the same step, and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.collect.groups import Learner, LearnerState, record_learning
from radt.collect.lstm import LSTMState, RecurrentActorCritics
from radt.collect.networks import POLICY, VALUE, Adam, Experience, of_samples, output_gradients
from radt.collect.ppo import require_discrete_actions
from radt.collect.rollout import (
    CUT,
    ENVIRONMENT,
    INITIAL,
    ROLLOUT,
    Floats,
    Integers,
    Rollout,
    Runner,
    advantages,
    drawn,
    stream,
)
from radt.collect.source import (
    SOURCES,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
    check_counts,
    check_rates,
)
from radt.envs.suite import TaskSuite
from radt.spaces import StateSpace

SECONDS_PER_WEIGHT_SAMPLE = 2e-10  # of a sample in one epoch, by weights of an LSTM, on two cores
View = Callable[[NDArray[Any]], Tensor]


@dataclass(frozen=True)
class RecurrentConfig:
    """How learning histories are made; the defaults are sb3-contrib's."""

    seed: int = 0  # of the dataset; a run has its own
    tasks: int = 100  # that are kept: the first ones that were learned
    candidates: int = 300  # the first training tasks of the suite, which are tried until then
    keep_above: float | None = 0.25  # mean return of the last 50 episodes; null: keep them all
    transitions: int = 100_000  # of each task; what the last rollout has beyond them is dropped
    envs_per_task: int = 1  # that an agent acts in at once
    units: int = 256  # of the policy's LSTM, and of the value's
    n_steps: int = 128  # of each rollout, in each environment
    batch_size: int = 128  # samples: whole rollouts of environments, cut once
    n_epochs: int = 10  # passes over each rollout
    learning_rate: float = 3e-4  # of Adam
    adam_epsilon: float = 1e-5  # of Adam
    gamma: float = 0.99  # discount
    gae_lambda: float = 0.95  # of generalised advantage estimation
    clip_range: float = 0.2  # of the ratio of new to old action probabilities
    ent_coef: float = 0.0  # weight of the entropy bonus
    vf_coef: float = 0.5  # weight of the value's loss
    max_grad_norm: float = 0.5  # longer gradients are clipped
    tasks_per_group: int = 4  # computed as one batch; part of the result up to rounding
    rollouts_per_part: int = 40  # the most that a killed run has to do again

    def __post_init__(self) -> None:
        counts = ("tasks", "candidates", "transitions", "units", "n_epochs", "tasks_per_group")
        check_counts(self, *counts, "rollouts_per_part", "n_steps", "envs_per_task", "batch_size")
        together = self.n_steps * self.envs_per_task
        if self.batch_size % self.n_steps or together % self.batch_size or self.batch_size < 2:
            raise ValueError(
                f"batch_size={self.batch_size} must hold whole rollouts of n_steps={self.n_steps} "
                f"and divide the {together} samples of envs_per_task={self.envs_per_task} of them"
            )
        if self.transitions % self.envs_per_task:
            raise ValueError(
                f"transitions={self.transitions} cannot be shared equally among "
                f"envs_per_task={self.envs_per_task}"
            )
        check_rates(self)

    @property
    def rollouts(self) -> int:
        """How many rollouts hold the transitions."""
        return -(-self.transitions // (self.n_steps * self.envs_per_task))


@dataclass(frozen=True)
class LaneStart:
    """Where lanes start to follow a rollout."""

    step: int  # of the rollout
    envs: Integers  # [lanes]


@dataclass(frozen=True)
class Sequences:
    """A minibatch: as many steps as a rollout has, of some lanes."""

    rows: Integers  # [steps * lanes] step * envs + env of each sample in the rollout
    starts: dict[int, LaneStart]  # by the step of the minibatch


def cut_sequences(steps: int, envs: int, batch_size: int, place: int) -> Iterator[Sequences]:
    """Yield one epoch of a rollout [steps, envs] whose line is cut at `place`."""
    first_env, cut = divmod(place, steps)
    lanes = batch_size // steps
    for first in range(first_env, first_env + envs, lanes):
        ends = np.arange(first, first + lanes) % envs
        starts = {0: LaneStart(cut, ends)}
        if cut:
            starts[steps - cut] = LaneStart(0, (ends + 1) % envs)
        parts = [
            np.arange(start.step, steps if number == 0 else cut)[:, None] * envs + start.envs
            for number, start in starts.items()
        ]
        yield Sequences(np.concatenate(parts).ravel(), starts)


@dataclass(frozen=True)
class RecurrentRollout:
    """A rollout, and what the networks saw, said and carried on in it."""

    rollout: Rollout
    inputs: Tensor  # [tasks, steps * envs, inputs]
    keep: Tensor  # [tasks, steps * envs], 0 at the first step of an episode
    carry: LSTMState  # [steps + 1, nets, envs, units] before each step, and after the last
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

    def carry_at(self, start: LaneStart) -> LSTMState:
        """Return what was remembered before a step of some environments, [nets, lanes, units]."""
        envs = torch.from_numpy(start.envs)
        return LSTMState(*(part[start.step][:, envs] for part in self.carry))


class RecurrentRunner:
    """Recurrent networks at work in several environments of each task."""

    def __init__(
        self,
        networks: RecurrentActorCritics,
        suite: Any,
        tasks: Sequence[int],
        seeds: Sequence[Sequence[int]],
    ) -> None:
        """Begin an episode per task and seed, [tasks][envs]."""
        self.networks, self.envs = networks, len(seeds[0])
        slots = [task for task in tasks for _ in range(self.envs)]
        self.runner = Runner(suite.make_vec(slots), [seed for own in seeds for seed in own])
        self.carry = networks.blank(self.envs)
        self._view = network_view(suite.spaces.state)

    def rollout(self, uniforms: Floats) -> RecurrentRollout:
        """Act for a rollout with the random numbers [steps, tasks, envs]."""
        steps, tasks, envs = uniforms.shape
        networks, runner = self.networks, self.runner
        carry = LSTMState(*(part.new_empty(steps + 1, *part.shape) for part in self.carry))
        for kept, now in zip(carry, self.carry, strict=True):
            kept[0] = now
        inputs = torch.empty(steps, tasks, envs, networks.inputs)
        keep = torch.empty(steps, tasks, envs)
        values, probabilities = np.empty((2, *uniforms.shape))

        def choose(step: int) -> Integers:
            inputs[step], keep[step] = self._look()
            before = LSTMState(*(part[step] for part in carry))
            outputs, after = networks.act(inputs[step], keep[step], before)
            for part, now in zip(carry, after, strict=True):
                part[step + 1] = now
            outputs = outputs.double()
            policies = outputs[:, POLICY].softmax(dim=1).mT.numpy()  # [tasks, envs, actions]
            actions = drawn(policies.cumsum(axis=-1)[..., :-1], uniforms[step])  # [tasks, envs]
            taken = np.take_along_axis(policies, actions[..., None], axis=-1)
            values[step], probabilities[step] = outputs[:, VALUE, 0].numpy(), taken[..., 0]
            return actions.ravel()

        rollout = runner.act(steps, choose)
        self.carry = LSTMState(*(part[-1].clone() for part in carry))
        here = self._value(*self._look(), self.carry)
        after = np.concatenate([values[1:], here[None]])
        cut, found = self._values_of_cut(rollout, carry)
        after.reshape(steps, -1)[cut] = found
        seen, kept = (part.transpose(0, 1).flatten(1, 2) for part in (inputs, keep))
        return RecurrentRollout(rollout, seen, kept, carry, probabilities, values, after)

    def _look(self) -> tuple[Tensor, Tensor]:
        """Return what is seen now, [tasks, envs, inputs], and 0 where an episode begins."""
        tasks, envs = self.networks.tasks, self.envs
        keep = torch.from_numpy(~self.runner.begun).float()
        return self._view(self.runner.states).view(tasks, envs, -1), keep.view(tasks, envs)

    def _values_of_cut(
        self, rollout: Rollout, carry: LSTMState
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
        for mine, recorded in zip(before, carry, strict=True):
            of_both = recorded.unflatten(1, (-1, 2))[step + 1, task, :, env]  # [N, 2, units]
            mine.unflatten(0, (-1, 2))[task, :, lane] = of_both
        return (step, slot), self._value(states, torch.ones(states.shape[:2]), before)[task, lane]

    def _value(self, states: Tensor, keep: Tensor, carry: LSTMState) -> Floats:
        outputs, _ = self.networks.act(states, keep, carry)
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


class RecurrentLearner(Learner):
    """Two LSTMs per task, each in several environments.

    Of a suite only `spaces` and `make_vec` are used.
    """

    def __init__(self, suite: Any, tasks: Sequence[int], config: RecurrentConfig) -> None:
        super().__init__(suite, tasks, config)
        self.actions = suite.spaces.action.size
        self.networks = RecurrentActorCritics(
            [stream(config.seed, task, INITIAL) for task in tasks],
            inputs=int(np.prod(suite.spaces.state.shape)),
            units=config.units,
            actions=self.actions,
            shape=(config.n_steps, config.batch_size // config.n_steps),
            most=config.n_steps * config.envs_per_task,
        )
        self.optimiser = Adam(self.networks.parameters, config.learning_rate, config.adam_epsilon)
        streams = [stream(config.seed, task, ENVIRONMENT) for task in tasks]
        seeds = [own.integers(2**31, size=config.envs_per_task).tolist() for own in streams]
        self.acting = RecurrentRunner(self.networks, suite, tasks, seeds)
        self.runner = self.acting.runner

    def advance(self) -> Rollout:
        config = self.config
        shape = (config.n_steps, config.envs_per_task)
        streams = [stream(config.seed, task, ROLLOUT, self.rollouts) for task in self.tasks]
        recorded = self.acting.rollout(np.stack([own.random(shape) for own in streams], axis=1))
        self.rollouts += 1
        if self.rollouts < config.rollouts:
            self._learn(recorded)
        return recorded.rollout

    def _learn(self, recorded: RecurrentRollout) -> None:
        config = self.config
        experience = recorded.experience(config.gamma, config.gae_lambda)
        shape = (config.n_steps, config.envs_per_task)
        places = stream(config.seed, 0, CUT, self.rollouts)  # the same for all tasks
        for _ in range(config.n_epochs):
            place = int(places.integers(np.prod(shape)))
            for batch in cut_sequences(*shape, config.batch_size, place):
                self.update(recorded, experience, batch)

    def update(self, recorded: RecurrentRollout, experience: Experience, batch: Sequences) -> None:
        """Take one step along the gradient of a minibatch of every task."""
        rows = torch.from_numpy(batch.rows)
        inputs, keep = (part.index_select(1, rows) for part in (recorded.inputs, recorded.keep))
        carries = {number: recorded.carry_at(start) for number, start in batch.starts.items()}
        outputs = self.networks.forward(inputs, keep, carries)
        samples = of_samples(batch.rows, experience, self.actions)
        gradients = output_gradients(outputs, samples, self.config)
        self.networks.backward(gradients, batch.starts)
        self.networks.parameters.clip_gradients(self.config.max_grad_norm)
        self.optimiser.step()

    def state(self) -> LearnerState:
        hidden, cells = (part.numpy() for part in self.acting.carry)
        return {**super().state(), "hidden": hidden, "cells": cells}

    def resume(self, state: LearnerState, actions: NDArray[np.generic]) -> Rollout:
        carried = (torch.from_numpy(state[name]).clone() for name in ("hidden", "cells"))
        self.acting.carry = LSTMState(*carried)
        return super().resume(state, actions)


def check_ppo_lstm(suite: TaskSuite, options: RecurrentConfig) -> None:
    """Refuse tasks that these networks cannot see or act in."""
    require_discrete_actions(suite)
    network_view(suite.spaces.state)


def record_ppo_lstm(request: Request) -> Recorded:
    """Let one agent learn each candidate until enough of them have learned their task."""
    options = request.options
    candidates = request.suite.train_tasks[: options.candidates]
    above = -np.inf if options.keep_above is None else options.keep_above
    return record_learning(request, RecurrentLearner, candidates, options.tasks, above)


def forecast_ppo_lstm(suite: TaskSuite, options: RecurrentConfig) -> Forecast:
    """Expect that most candidates are learned."""
    tasks = min(options.tasks, options.candidates, len(suite.train_tasks))
    count = tasks * options.transitions
    weights = 8 * options.units**2  # of two LSTMs, between hidden states and gates
    seconds = count * options.n_epochs * (weights + 30_000) * SECONDS_PER_WEIGHT_SAMPLE
    return Forecast(tasks, count, seconds)


SOURCES.register(
    "ppo-lstm",
    SourceEntry(
        RecurrentConfig,
        record_ppo_lstm,
        forecast_ppo_lstm,
        check=check_ppo_lstm,
    ),
)
