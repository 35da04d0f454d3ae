"""The source `ppo-lstm`: PPO with recurrent networks on every task of a group at once.

Hyper-parameters and networks are those of sb3-contrib's RecurrentPPO with its MlpLstmPolicy, as the
paper used them for MazeRunner; `presets` has a lighter way. An agent may learn from several
environments of its task at once; their episodes are stored as one history, in the order in which
they end. Rewards are stored as the environment gives them: the value that stands for the future
of an episode that was cut off is known to the learner only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from radt.collect.groups import Selection, record_learning
from radt.collect.learner import CUT, ENVIRONMENT, INITIAL, ROLLOUT, LearnerState, stream
from radt.collect.loss import output_gradients
from radt.collect.lstm import Memory
from radt.collect.minibatch import Experience, of_samples
from radt.collect.networks import Adam
from radt.collect.ppo import require_discrete_actions
from radt.collect.recurrent import RecurrentActorCritics
from radt.collect.recurrent_actor import Lived, RecurrentActor, network_view
from radt.collect.rollout import Rollout
from radt.collect.sequences import Sequences, cut_sequences
from radt.collect.source import SOURCES, Forecast, Recorded, Request, SourceEntry
from radt.envs.suite import TaskSuite

SECONDS_PER_WEIGHT_SAMPLE = 2e-10  # of a sample in one epoch, by weights of an LSTM, on two cores


@dataclass(frozen=True)
class RecurrentConfig:
    """How learning histories are made; the defaults are sb3-contrib's."""

    seed: int = 0
    tasks: int = 100  # that are kept: the first ones that were learned
    candidates: int = 300  # the first training tasks of the suite, which are tried until then
    keep_above: float | None = 0.25  # mean return of the last 50 episodes; null: keep them all
    transitions: int = 100_000  # of each task; what the last rollout has beyond them is dropped
    envs_per_task: int = 1  # that an agent acts in at once
    units: int = 256  # of the policy's LSTM, and of the value's
    n_steps: int = 128  # of each environment
    batch_size: int = 128  # samples: whole rollouts of environments, cut once
    n_epochs: int = 10
    learning_rate: float = 3e-4
    adam_epsilon: float = 1e-5
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    tasks_per_group: int = 4  # computed as one batch; part of the result up to rounding
    rollouts_per_part: int = 40  # the most that a killed run has to do again

    def __post_init__(self) -> None:
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
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, not {self.seed}")
        counts = ("tasks", "candidates", "transitions", "units", "n_epochs", "tasks_per_group")
        for name in (*counts, "rollouts_per_part"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def rollouts(self) -> int:
        """How many rollouts hold the transitions."""
        return -(-self.transitions // (self.n_steps * self.envs_per_task))

    @property
    def selection(self) -> Selection:
        """Which tasks are kept."""
        return Selection(self.tasks, -np.inf if self.keep_above is None else self.keep_above)


class RecurrentLearner:
    """The learning agents of one group of tasks and the environments they act in."""

    def __init__(self, suite: TaskSuite, tasks: Sequence[int], config: RecurrentConfig) -> None:
        self.tasks, self.config = tuple(tasks), config
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
        self.acting = RecurrentActor(self.networks, suite, tasks, seeds)
        self.rollouts = 0  # how many are done

    def advance(self) -> Rollout:
        """Act for one rollout and, unless it is the last one, learn from it."""
        config = self.config
        shape = (config.n_steps, config.envs_per_task)
        streams = [stream(config.seed, task, ROLLOUT, self.rollouts) for task in self.tasks]
        lived = self.acting.live(np.stack([own.random(shape) for own in streams], axis=1))
        self.rollouts += 1
        if self.rollouts < config.rollouts:
            self._learn(lived)
        return lived.rollout

    def _learn(self, lived: Lived) -> None:
        config = self.config
        experience = lived.experience(config.gamma, config.gae_lambda)
        shape = (config.n_steps, config.envs_per_task)
        places = stream(config.seed, 0, CUT, self.rollouts)  # the same for all tasks
        for _ in range(config.n_epochs):
            place = int(places.integers(np.prod(shape)))
            for batch in cut_sequences(*shape, config.batch_size, place):
                self.update(lived, experience, batch)

    def update(self, lived: Lived, experience: Experience, batch: Sequences) -> None:
        """Take one step along the gradient of a minibatch of every task."""
        rows = torch.from_numpy(batch.rows)
        inputs, keep = (part.index_select(1, rows) for part in (lived.inputs, lived.keep))
        memories = {number: lived.memory_at(start) for number, start in batch.starts.items()}
        outputs = self.networks.forward(inputs, keep, memories)
        samples = of_samples(batch.rows, experience, self.actions)
        gradients = output_gradients(outputs, samples, self.config)
        self.networks.backward(gradients, batch.starts)
        self.networks.parameters.clip_gradients(self.config.max_grad_norm)
        self.optimiser.step()

    def state(self) -> LearnerState:
        """Return what `resume` needs beside the recorded actions."""
        hidden, cells = (part.numpy() for part in self.acting.memory)
        return {**self.optimiser.state(), "hidden": hidden, "cells": cells}

    def resume(self, state: LearnerState, actions: NDArray[np.generic]) -> Rollout:
        """Go on after the recorded actions [steps, slots], which the environments live again."""
        self.optimiser.restore(state)
        remembered = (torch.from_numpy(state[name]).clone() for name in ("hidden", "cells"))
        self.acting.memory = Memory(*remembered)
        self.rollouts = len(actions) // self.config.n_steps
        return self.acting.actor.replay(actions)

    @staticmethod
    def observed(suite: TaskSuite, options: RecurrentConfig, states: NDArray[Any]) -> NDArray[Any]:
        """Return the states, which are stored as they were seen."""
        return states


def check(suite: TaskSuite, options: RecurrentConfig) -> None:
    """Refuse tasks that these networks cannot see or act in."""
    require_discrete_actions(suite)
    network_view(suite.spaces.state)


def record(request: Request) -> Recorded:
    """Let one agent learn each candidate until enough of them have learned their task."""
    options = request.options
    candidates = request.suite.train_tasks[: options.candidates]
    return record_learning(request, RecurrentLearner, candidates, options.selection)


def forecast(suite: TaskSuite, options: RecurrentConfig) -> Forecast:
    """Expect that most candidates are learned."""
    tasks = min(options.tasks, options.candidates, len(suite.train_tasks))
    count = tasks * options.transitions
    weights = 8 * options.units**2  # of two LSTMs, between hidden states and gates
    seconds = count * options.n_epochs * (weights + 30_000) * SECONDS_PER_WEIGHT_SAMPLE
    return Forecast(tasks, count, seconds)


def paper_options(env: str) -> RecurrentConfig:
    """Return the paper's hyper-parameters, which are sb3-contrib's for every environment."""
    return RecurrentConfig()


SOURCES.register("ppo-lstm", SourceEntry(RecurrentConfig, record, forecast, paper_options, check))
