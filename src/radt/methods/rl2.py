"""RL2 (Duan et al. 2016): a recurrent policy that learned to learn by acting in many tasks.

It reads no recorded histories. One policy, that of the data source `ppo-lstm`, acts in all training
tasks at once and learns by PPO. Its episodes are sequences of trials of one task, and beside a
state it is told the last action, the last reward and whether a trial begins. So what its LSTM
carries from trial to trial is all that it remembers of a task; weights stay as they are while it
acts in unseen ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.collect.lstm import RecurrentActorCritics
from radt.collect.networks import POLICY
from radt.collect.ppo_lstm import RecurrentConfig, RecurrentLearner
from radt.collect.source import check_counts
from radt.data.reader import Dataset
from radt.envs.suite import TaskSuite
from radt.methods.method import (
    METHODS,
    ContextSize,
    Memoryless,
    Method,
    MethodEntry,
    Progress,
    unembedded,
)
from radt.methods.trials import RunningTrials
from radt.spaces import StateSpace, TaskSpaces
from radt.trajectory import Trajectory

Inputs = NDArray[np.float32]


@dataclass(frozen=True)
class RL2Options:
    """How the policy learns; names and further values are those of `ppo-lstm`."""

    trials: int = 5  # in a sequence of training; while acting there may be more
    n_steps: int = 200  # of each sequence in a rollout: as far back gradients flow
    sequences: int = 16  # in a minibatch
    units: int = 64  # of the policy's LSTM, and of the value's
    n_epochs: int = 4  # passes over each rollout
    learning_rate: float = 1e-3  # of Adam
    ent_coef: float = 0.01  # weight of the entropy bonus
    reward_scale: float = 0.1  # what the learner counts for a reward of 1

    def __post_init__(self) -> None:
        check_counts(self, "trials", "n_steps", "sequences", "n_epochs")
        self.config(self.sequences, updates=1, seed=0)  # which refuses what else cannot be
        if self.reward_scale <= 0:
            raise ValueError(f"reward_scale must be above 0, not {self.reward_scale}")

    def config(self, slots: int, updates: int, seed: int) -> RecurrentConfig:
        """Say how one agent learns in so many slots."""
        rollouts = -(-updates // (self.n_epochs * slots // self.sequences))
        return RecurrentConfig(
            seed=seed,
            transitions=(rollouts + 1) * self.n_steps * slots,  # nothing is learned from the last
            envs_per_task=slots,
            units=self.units,
            n_steps=self.n_steps,
            batch_size=self.sequences * self.n_steps,
            n_epochs=self.n_epochs,
            learning_rate=self.learning_rate,
            ent_coef=self.ent_coef,
        )


def told(spaces: TaskSpaces, actions: NDArray[Any], rewards: NDArray[Any]) -> Inputs:
    """Write down what was done and what it brought, [N, actions + 1]."""
    done = np.eye(spaces.action.size, dtype=np.float32)[actions.astype(np.int64)]
    return np.concatenate([done, rewards[:, None].astype(np.float32)], axis=1)


def inputs_of(
    spaces: TaskSpaces, states: NDArray[Any], before: Inputs, begins: NDArray[np.bool_]
) -> Inputs:
    """Put a state beside what led there, [N, inputs]; coordinates of grids are one-hot."""
    columns = states.reshape(len(states), -1)
    if spaces.state.kind == "discrete":
        bins = zip(columns.T, spaces.state.bins, strict=True)
        columns = np.concatenate([np.eye(most)[column] for column, most in bins], axis=1)
    return np.concatenate([columns, before, begins[:, None]], axis=1, dtype=np.float32)


def input_size(spaces: TaskSpaces) -> int:
    """Return how many numbers a policy is given at each step."""
    state = sum(spaces.state.bins) or int(np.prod(spaces.state.shape))
    return state + spaces.action.size + 2


class TrialSequences(gym.vector.VectorEnv[Any, Any, Any]):
    """Tasks side by side, one slot each, whose episodes are sequences of trials."""

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], spaces: TaskSpaces, how: RL2Options
    ) -> None:
        self.env, self.spaces, self.how = env, spaces, how
        self.metadata, self.single_action_space = env.metadata, env.single_action_space
        self.trial = np.zeros(env.num_envs, np.int64)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Inputs, dict[str, Any]]:
        """Begin a sequence in every slot, or in those of `options["reset_mask"]`."""
        slots = len(self.trial)
        anew = np.ones(slots, np.bool_) if options is None else options["reset_mask"]
        if options is None:
            self._rng = np.random.default_rng(seed)
            self._seen = np.zeros((slots, input_size(self.spaces)), np.float32)
        drawn = self._rng.integers(2**31, size=slots).tolist()  # a seed makes the task a new one
        seeds: Any = [own if new else None for own, new in zip(drawn, anew, strict=True)]
        states, _ = self.env.reset(seed=seeds, options=options)
        nothing = np.zeros((slots, self.spaces.action.size + 1), np.float32)
        self.trial[anew] = 0
        self._seen[anew] = inputs_of(self.spaces, states, nothing, anew)[anew]
        return self._seen, {}

    def step(self, actions: NDArray[Any]) -> Any:
        """Act in every slot; the last trial of a sequence is where it is cut off."""
        states, rewards, terminated, truncated, _ = self.env.step(actions)
        over = terminated | truncated
        if over.any():
            states, _ = self.env.reset(options={"reset_mask": over})
        self.trial += over
        before = told(self.spaces, actions, rewards)
        self._seen = inputs_of(self.spaces, states, before, over)
        cut = over & (self.trial == self.how.trials)
        return self._seen, self.how.reward_scale * rewards, np.zeros_like(cut), cut, {}


@dataclass(frozen=True)
class SequenceSuite:
    """What `RecurrentLearner` needs to know: one task, whose environments are all the tasks."""

    suite: TaskSuite
    tasks: Sequence[int]
    how: RL2Options

    @property
    def spaces(self) -> TaskSpaces:
        """States are what the policy is given."""
        state = StateSpace("vector", (input_size(self.suite.spaces),))
        return replace(self.suite.spaces, state=state)

    def make_vec(self, slots: Sequence[int]) -> TrialSequences:
        """Build the tasks in turn, until there are as many as `slots`."""
        tasks = [self.tasks[slot % len(self.tasks)] for slot in range(len(slots))]
        return TrialSequences(self.suite.make_vec(tasks), self.suite.spaces, self.how)


def networks_for(
    spaces: TaskSpaces, options: RL2Options, slots: int, seed: int = 0
) -> RecurrentActorCritics:
    """Build one actor and its critic, to act in some slots."""
    return RecurrentActorCritics(
        [np.random.default_rng(seed)],
        inputs=input_size(spaces),
        units=options.units,
        actions=spaces.action.size,
        shape=(1, 1),  # of sequences to learn from: its learner has others
        most=slots,
    )


class RecurrentPolicy(nn.Module):
    """The weights of an actor and its critic, to be saved and loaded."""

    def __init__(self, spaces: TaskSpaces, options: RL2Options, seed: int) -> None:
        super().__init__()
        drawn = networks_for(spaces, options, 1, seed).parameters.values
        self.weights = nn.Parameter(drawn, requires_grad=False)  # [weights of both]


class RL2:
    """The method that acts in the training tasks itself."""

    name = "rl2"

    def __init__(self, spaces: TaskSpaces, options: RL2Options, seed: int) -> None:
        if spaces.action.kind != "discrete" or spaces.state.kind == "image":
            raise ValueError("rl2 reads numbers, no images, and chooses among discrete actions")
        self.spaces, self.options = spaces, options
        self.policy = RecurrentPolicy(spaces, options, seed)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}

    @property
    def context(self) -> ContextSize:
        """One step: the rest is in the state of the LSTM."""
        return ContextSize(1)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Nothing to prepare."""
        return {}

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        raise TypeError(f"{self.name} learns online; train it with `radt train`")

    def loss(self, examples: Any) -> Tensor:
        raise TypeError(f"{self.name} learns online; train it with `radt train`")

    def actor(self, slots: int) -> RL2Actor:
        return RL2Actor(self, slots)


class RL2Actor(Memoryless):
    """Carries the LSTM's state from trial to trial, until the task is over."""

    def __init__(self, method: RL2, slots: int) -> None:
        self.spaces = method.spaces
        self.networks = networks_for(method.spaces, method.options, slots)
        self.networks.parameters.values.copy_(method.policy.weights)
        self.carry = self.networks.blank(slots)
        self._before = np.zeros((slots, self.spaces.action.size + 1), np.float32)

    def forget(self, slots: NDArray[np.int64]) -> None:
        for part in self.carry:
            part[:, slots] = 0
        self._before[slots] = 0

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep how a trial ended: the next one begins with it."""
        for trial in finished:
            self._before[trial.task] = told(self.spaces, trial.actions[-1:], trial.rewards[-1:])[0]

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        step = trials.step[slots]
        last, begins = np.maximum(step - 1, 0), step == 0
        before = told(self.spaces, trials.actions[slots, last], trials.rewards[slots, last])
        before = np.where(begins[:, None], self._before[slots], before)
        seen = inputs_of(self.spaces, trials.states[slots, step], before, begins)
        carry = type(self.carry)(*(part[:, slots] for part in self.carry))
        inputs = torch.from_numpy(seen).unsqueeze(0)  # [1, B, inputs]
        outputs, after = self.networks.act(inputs, torch.ones(1, len(slots)), carry)
        for part, now in zip(self.carry, after, strict=True):
            part[:, slots] = now
        return outputs[0, POLICY].mT.clone()


def learn_online(
    method: Method, suite: TaskSuite, tasks: Sequence[int], updates: int, seed: int
) -> Iterator[tuple[int, dict[str, float]]]:
    """Learn in some tasks; after each rollout, tell the updates that are done and how it went."""
    assert isinstance(method, RL2)  # as it is registered
    options = method.options
    slots = -(-len(tasks) // options.sequences) * options.sequences
    config = options.config(slots, updates, seed)
    learner = RecurrentLearner(SequenceSuite(suite, tasks, options), (0,), config)
    for rollout in range(1, config.rollouts):
        rewards = learner.advance().rewards / options.reward_scale
        method.policy.weights.copy_(learner.networks.parameters.values)
        done = rollout * options.n_epochs * slots // options.sequences
        steps = rollout * options.n_steps * slots
        yield done, {"transitions": steps, "reward_per_step": float(rewards.mean())}


METHODS.register("rl2", MethodEntry(RL2Options, unembedded(RL2), learn_online=learn_online))
