"""Methods whose input is episodes of one task: an earlier one, or several, then the current one.

Algorithm Distillation (`ad`): in the data the current episode comes K episodes after the earlier
one, so its actions are those of a policy that has improved. To predict them, the model has to
improve on what it reads; while acting, the earlier episode is the last finished trial.

The variant `dt-2ep` is the Decision Transformer with two episodes, as the paper runs it on
grid-worlds: the same input with K = 1 and returns-to-go, achieved ones for the earlier episode, the
target for the current one.

With a recurrent backbone all earlier trials of the task are one sequence: its state goes on from
trial to trial, and with it what was read then, a return that was aimed at included. In training a
sequence may then have more than two episodes, each K after the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.collect.source import check_counts
from radt.data.reader import Dataset, Episodes
from radt.methods.decision_cache import CarriedState
from radt.methods.dt import DTActor, WindowExamples
from radt.methods.method import METHODS, ContextSize, Memoryless, MethodEntry, Progress, unembedded
from radt.methods.transforms import check_transforms, transforms_of
from radt.methods.trials import RunningTrials, last_real
from radt.methods.windows import WindowOptions, WindowSampler, check_share, whole_episodes
from radt.model.losses import counted_errors, loss_in_parts
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.stepwise import StepwisePolicy
from radt.model.tokens import episodes_ago
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, Trajectory, returns_to_go


@dataclass(frozen=True)
class ADOptions(WindowOptions):
    """What can be chosen about a method whose input is two episodes; windows are of the current."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(return_to_go=False))
    episode_gap: int = 100  # K: episodes from an earlier one to the next one
    earlier_episodes: int = 1  # of a training sequence; a recurrent backbone can read more
    loss_on: Literal["all", "current"] = "all"  # whose actions are targets
    context_dropout: float = 0.1  # share of windows without an earlier episode, as in trial 1
    cache: bool = True  # decide with a key-value cache; a recurrent backbone always has its state

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "episode_gap")
        check_share("context_dropout", self.context_dropout)
        most = math.inf if self.model.recurrent else 1
        if not 1 <= self.earlier_episodes <= most:
            raise ValueError(
                f"earlier_episodes must be 1, not {self.earlier_episodes}; a recurrent backbone, "
                "model.backbone=lstm or mingru, can read more"
            )


class AD:
    """A Decision Transformer over two episodes, or a recurrent one over all."""

    name = "ad"

    def __init__(self, spaces: TaskSpaces, options: ADOptions, seed: int) -> None:
        self.spaces, self.options = spaces, options
        check_transforms(options, spaces)
        told_apart = 1 if options.model.recurrent else 2  # what a state holds grows no older
        self.policy = DecisionTransformer(spaces, options.model, seed, episodes=told_apart)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}

    @property
    def context(self) -> ContextSize:
        """The whole episodes of a sequence."""
        return ContextSize((self.options.earlier_episodes + 1) * self.spaces.horizon)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Choose the current episodes; earlier ones come from the whole history."""
        self.sampler = WindowSampler(dataset, self.spaces.horizon, self.options)
        self.transform = transforms_of(self.options, dataset)
        return {"episodes": len(self.sampler.episodes)}

    def draw(self, size: int, rng: np.random.Generator) -> WindowExamples:
        """Draw current episodes up to some step, and put the one K before in front of each."""
        dataset, windows = self.sampler.dataset, self.sampler.draw(size, rng)
        before = earlier_episode(dataset.episodes, windows.episode, self.options.episode_gap)
        before[rng.random(size) < self.options.context_dropout] = -1
        recent = join_episodes(whole_episodes(dataset, before), self.sampler.read(windows))
        for _ in range(self.options.earlier_episodes - 1):
            before = earlier_episode(dataset.episodes, before, self.options.episode_gap)
            recent = join_episodes(whole_episodes(dataset, before), recent)
        targets = recent.mask
        if self.options.loss_on == "current":
            targets = targets & (episodes_ago(recent) == 0)
        examples = WindowExamples(recent, self.sampler.valid(windows), targets)
        return self.transform(examples, rng)

    def loss(self, examples: WindowExamples) -> Tensor:
        """Return how badly the target actions are predicted."""
        targets, valid = examples.targets, examples.valid
        assert targets is not None  # as they are drawn here

        def of(rows: Tensor) -> Tensor:
            recent = examples.recent.rows(rows).trimmed()
            wanted = targets[rows, : recent.mask.shape[1]]
            some = None if valid is None else valid[rows]
            return self.policy.loss(recent, wanted, some)

        length, counted = examples.recent.mask.sum(1), counted_errors(targets, valid)
        return loss_in_parts(of, length, counted, self.policy.device)

    def actor(self, slots: int) -> EpisodePairActor | SequenceActor:
        """Put the method to work: the earlier episode is the last finished trial."""
        if self.options.model.recurrent:
            return SequenceActor(CarriedState(self.policy, slots))
        return EpisodePairActor(self.policy, slots, self.options.cache)


def earlier_episode(episodes: Episodes, rows: NDArray[np.int64], gap: int) -> NDArray[np.int64]:
    """Return the row of the episode `gap` before each, the task's first if there are fewer.

    A task's first episode has none before it: -1, as a row of -1 has. Where a task has levels, only
    episodes of the same one count.
    """
    order, place, before = episodes.same_level
    earlier = order[place[rows] - np.minimum(gap, before[rows])]
    return np.where((before[rows] > 0) & (rows >= 0), earlier, -1)


def join_episodes(earlier: Batch, current: Batch) -> Batch:
    """Put the real steps of two batches one behind the other, padded at the end."""
    both = [
        torch.cat([getattr(earlier, field.name), getattr(current, field.name)], dim=1)
        for field in fields(Batch)
    ]
    mask = both[-1]  # [B, L]
    longest = int(mask.sum(1).max())
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]  # real steps first
    rows = torch.arange(len(mask))[:, None]
    return Batch(*(values[rows, order] for values in both))


class SequenceActor(DTActor):
    """Acts on all trials of its task, of which a recurrent policy has read each step once."""

    window: CarriedState

    def forget(self, slots: NDArray[np.int64]) -> None:
        self.window.forget(slots)

    def remember(self, finished: Sequence[Trajectory]) -> None:
        self.window.keep(finished)


class EpisodePairActor(Memoryless):
    """Acts on the last finished trial and all of the running one."""

    def __init__(self, policy: DecisionTransformer, slots: int, cache: bool) -> None:
        self.policy, self.spaces = policy.eval(), policy.spaces
        self._finished = no_steps(policy.spaces, slots)  # [slots, T] the last trial of each
        self._stepwise = StepwisePolicy(policy, slots, 2 * self.spaces.horizon) if cache else None

    def forget(self, slots: NDArray[np.int64]) -> None:
        self._finished.mask[slots] = False

    def remember(self, finished: Sequence[Trajectory]) -> None:
        """Keep each slot's latest trial, with the returns it turned out to have."""
        held = self._finished
        for trial in finished:
            slot, steps = trial.task, slice(0, len(trial))
            held.states[slot, steps] = torch.from_numpy(trial.states)
            held.actions[slot, steps] = torch.from_numpy(trial.actions)
            held.rewards[slot, steps] = torch.from_numpy(trial.rewards)
            held.returns_to_go[slot, steps] = torch.from_numpy(returns_to_go(trial.rewards))
            held.mask[slot] = torch.arange(self.spaces.horizon) < len(trial)

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        if self._stepwise is None:
            recent = self._input(trials, slots)
            return last_real(recent, self.policy(recent).cpu())
        return self._stepwise.decide(
            torch.from_numpy(trials.step[slots] == 0),
            torch.from_numpy(slots),
            lambda some: self._input(trials, some.numpy()),
            lambda some: trials.latest(some.numpy(), self.policy.embed.no_action),
        )

    def _input(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Batch:
        """Join the last finished trial and the running one, [B, <=2T]."""
        earlier = self._finished.rows(torch.from_numpy(slots))
        return join_episodes(earlier, trials.recent(slots, self.spaces.horizon))


def no_steps(spaces: TaskSpaces, rows: int) -> Batch:
    """Reserve room for one whole episode per row, none of it real yet, [B, T]."""
    trials = RunningTrials(spaces, rows)  # knows how each field is kept while acting
    time = torch.arange(spaces.horizon).repeat(rows, 1)
    return Batch(
        states=torch.from_numpy(trials.states),
        actions=torch.from_numpy(trials.actions),
        rewards=torch.from_numpy(trials.rewards),
        returns_to_go=torch.zeros(rows, spaces.horizon),
        timesteps=time,
        mask=torch.zeros(rows, spaces.horizon, dtype=torch.bool),
    )


METHODS.register("ad", MethodEntry(ADOptions, unembedded(AD)))
