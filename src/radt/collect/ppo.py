"""The source `ppo`: PPO on every task of a group at once, one network per task.

Hyper-parameters and networks are stable-baselines3's (PPO with MlpPolicy, one environment), as the
paper used them. While a rollout lasts, policies are tables over the states. All randomness of a
task comes from streams keyed by (seed, task, rollout).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.collect.groups import Learner, record_learning
from radt.collect.networks import (
    POLICY,
    VALUE,
    ActorCritics,
    Adam,
    Experience,
    minibatches,
    output_gradients,
)
from radt.collect.rollout import (
    ENVIRONMENT,
    INITIAL,
    ROLLOUT,
    Floats,
    Rollout,
    Runner,
    StateIndex,
    advantages,
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
from radt.envs.suite import TaskSuite, privileged_suite

ObservationScale = Literal["raw", "unit"]
SECONDS_PER_SAMPLE = 7.6e-7  # of one epoch, on two CPU cores: 8M transitions in a minute


@dataclass(frozen=True)
class CollectConfig:
    """How learning histories are made; the defaults are the paper's for Dark-Room 10x10."""

    seed: int = 0  # of the dataset; a run has its own
    transitions: int = 100_000  # of each task; what the last rollout has beyond them is dropped
    n_steps: int = 2048  # of each rollout
    batch_size: int = 64  # samples of a minibatch
    n_epochs: int = 10  # passes over each rollout
    learning_rate: float = 3e-4  # of Adam
    adam_epsilon: float = 1e-5  # of Adam
    gamma: float = 0.99  # discount
    gae_lambda: float = 0.95  # of generalised advantage estimation
    clip_range: float = 0.2  # of the ratio of new to old action probabilities
    ent_coef: float = 0.01  # weight of the entropy bonus
    vf_coef: float = 0.5  # weight of the value's loss
    max_grad_norm: float = 0.5  # longer gradients are clipped
    observation_scale: ObservationScale = "unit"  # grid coordinates from -1 to 1, or as they are
    tasks_per_group: int = 40  # computed as one batch; part of the result up to rounding
    rollouts_per_part: int = 7  # the most that a killed run has to do again
    privileged: bool = False  # the learner sees what the suite hides; it is not stored

    def __post_init__(self) -> None:
        if self.batch_size < 2 or self.n_steps % self.batch_size:
            raise ValueError(
                f"n_steps={self.n_steps} must be a multiple of batch_size={self.batch_size}, "
                "and a batch needs two samples"
            )
        check_counts(self, "transitions", "n_epochs", "tasks_per_group", "rollouts_per_part")
        check_rates(self)

    @property
    def rollouts(self) -> int:
        """How many rollouts hold the transitions."""
        return -(-self.transitions // self.n_steps)

    @property
    def envs_per_task(self) -> int:
        """How many environments an agent learns from: one, as the paper's."""
        return 1


def acting_suite(suite: TaskSuite, config: CollectConfig) -> TaskSuite:
    """Return the suite that the learner acts in, with the states that it sees."""
    return privileged_suite(suite) if config.privileged else suite


class GroupLearner(Learner):
    """One network per task, whose policies are tables while a rollout lasts."""

    def __init__(self, suite: TaskSuite, tasks: Sequence[int], config: CollectConfig) -> None:
        super().__init__(suite, tasks, config)
        suite = acting_suite(suite, config)
        self.index = StateIndex(suite.spaces.state)
        self.actions = suite.spaces.action.size
        seeds = [int(stream(config.seed, task, ENVIRONMENT).integers(2**31)) for task in tasks]
        self.runner = Runner(suite.make_vec(self.tasks), seeds, self.index.of)
        self._inputs = network_inputs(self.index, config.observation_scale)
        self.networks = ActorCritics(
            [stream(config.seed, task, INITIAL) for task in tasks],
            inputs=len(self.index.bins),
            actions=self.actions,
            max_states=config.batch_size,
        )
        self.optimiser = Adam(self.networks.parameters, config.learning_rate, config.adam_epsilon)

    def advance(self) -> Rollout:
        config = self.config
        streams = [stream(config.seed, task, ROLLOUT, self.rollouts) for task in self.tasks]
        probabilities, values = self.tables()
        uniforms = np.stack([stream.random(config.n_steps) for stream in streams], axis=1)
        rollout = self.runner.rollout(probabilities, uniforms)
        self.rollouts += 1
        if self.rollouts < config.rollouts:
            self._learn(self._experience(rollout, probabilities, values), streams)
        return rollout

    def tables(self) -> tuple[Floats, Floats]:
        """Compute the policies [tasks, states, actions] and values [tasks, states] everywhere."""
        tasks, width = len(self.tasks), self.config.batch_size
        outputs = torch.cat(
            [
                self.networks.forward(states.expand(tasks, -1, -1)).clone()
                for states in self._inputs.split(width)
            ],
            dim=-1,
        ).double()  # [tasks, 2, actions, states]
        policies = outputs[:, POLICY].softmax(dim=1).mT.contiguous()
        return policies.numpy(), outputs[:, VALUE, 0].numpy()

    def _experience(self, rollout: Rollout, policies: Floats, values: Floats) -> Experience:
        task = np.arange(len(self.tasks))
        now, after = values[task, rollout.states], values[task, rollout.next_states]
        decay = self.config.gamma, self.config.gae_lambda
        estimates, targets = advantages(rollout, now, after, *decay)  # [steps, tasks]
        chosen = policies[task, rollout.states, rollout.actions]
        return Experience(
            states=np.ascontiguousarray(rollout.states.T),
            actions=np.ascontiguousarray(rollout.actions.T),
            probabilities=np.ascontiguousarray(chosen.T),
            advantages=np.ascontiguousarray(estimates.T),
            returns=np.ascontiguousarray(targets.T),
        )

    def _learn(self, experience: Experience, streams: list[np.random.Generator]) -> None:
        config = self.config
        for _ in range(config.n_epochs):
            order = np.stack([stream.permutation(config.n_steps) for stream in streams])
            for batch in minibatches(
                experience, order, config.batch_size, self.actions, self.index.count
            ):
                outputs = self.networks.forward(self._inputs[batch.states])
                self.networks.backward(output_gradients(outputs, batch, config))
                self.networks.parameters.clip_gradients(config.max_grad_norm)
                self.optimiser.step()

    @staticmethod
    def observed(suite: TaskSuite, options: CollectConfig, states: NDArray[Any]) -> NDArray[Any]:
        """Turn numbers of states [N, 1] into coordinates, without the privileged ones."""
        seen = StateIndex(acting_suite(suite, options).spaces.state).coordinates
        return np.asarray(seen[states.ravel(), : len(suite.spaces.state.bins)])


def network_inputs(index: StateIndex, scale: ObservationScale) -> Tensor:
    """Tabulate what the networks see of each state, and a last 1: [states, coordinates + 1]."""
    coordinates = torch.from_numpy(index.coordinates.astype(np.float32))
    if scale == "unit":
        half = (torch.tensor(index.bins) - 1).clamp(min=1) / 2
        coordinates = coordinates / half - 1
    return torch.cat([coordinates, torch.ones(index.count, 1)], dim=1)


def check_ppo(suite: TaskSuite, options: CollectConfig) -> None:
    """Refuse tasks that a table cannot hold, and a privileged observation where there is none."""
    require_discrete_actions(suite)
    StateIndex(acting_suite(suite, options).spaces.state)


def require_discrete_actions(suite: TaskSuite) -> None:
    """Refuse tasks whose actions cannot be counted."""
    if suite.spaces.action.kind != "discrete":
        raise ValueError(f"PPO here chooses among discrete actions; {suite.name!r} has others")


def record_ppo(request: Request) -> Recorded:
    """Let one agent learn each training task."""
    tasks = request.suite.train_tasks
    return record_learning(request, GroupLearner, tasks, len(tasks))


def forecast_ppo(suite: TaskSuite, options: CollectConfig) -> Forecast:
    """Expect all training tasks."""
    count = len(suite.train_tasks) * options.transitions
    seconds = count * options.n_epochs * SECONDS_PER_SAMPLE
    return Forecast(len(suite.train_tasks), count, seconds)


SOURCES.register("ppo", SourceEntry(CollectConfig, record_ppo, forecast_ppo, check=check_ppo))
