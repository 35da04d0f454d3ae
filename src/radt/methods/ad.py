"""Algorithm Distillation: predicts the actions of an episode after a look at an earlier one.

In the data the current episode was lived K episodes after the one before it in the input, so its
actions are those of a policy that has improved. To predict them, the model has to improve on what
it reads; at work it reads its own last trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from torch import Tensor, nn

from radt.data.reader import Dataset
from radt.memory.embed import Embedder
from radt.methods.dt import valid_dimensions
from radt.methods.episode_pairs import (
    EpisodePairActor,
    episode_before,
    joined,
    whole_episodes,
)
from radt.methods.method import METHODS, ContextSize, MethodEntry, Progress
from radt.methods.renaming import check_renamed, rename_batches
from radt.methods.windows import WindowOptions, WindowSampler, check_share
from radt.model.policy import (
    DecisionTransformer,
    ModelConfig,
    action_loss,
    counted_errors,
    loss_in_parts,
)
from radt.model.tokens import episodes_ago
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


@dataclass(frozen=True)
class EpisodePairOptions(WindowOptions):
    """What can be chosen about a method whose input is two episodes; windows are of the current."""

    model: ModelConfig = field(default_factory=ModelConfig)
    skip: int = 1  # K: how many episodes before the current one the earlier one lies
    loss_on: Literal["all", "current"] = "all"  # whose actions are targets
    context_dropout: float = 0.1  # share of windows without an earlier episode, as in trial 1
    cache: bool = True  # decide with a key-value cache

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.skip < 1:
            raise ValueError(f"skip must be at least 1 episode, not {self.skip}")
        check_share("context_dropout", self.context_dropout)


@dataclass(frozen=True)
class ADOptions(EpisodePairOptions):
    """What can be chosen about Algorithm Distillation."""

    model: ModelConfig = field(default_factory=lambda: ModelConfig(return_to_go=False))
    skip: int = 100  # K

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.return_to_go:
            raise ValueError(
                "Algorithm Distillation reads no return-to-go: set model.return_to_go to false, "
                "or use dt-2ep"
            )


@dataclass(frozen=True)
class ADExamples:
    """Earlier and current episodes, one behind the other."""

    recent: Batch  # [B, L <= 2T]
    targets: Tensor  # [B, L] bool: whose actions are predicted
    valid: Tensor | None  # [B, action_size] bool: dimensions that mean something


class AD:
    """A Decision Transformer over two episodes."""

    def __init__(
        self, spaces: TaskSpaces, options: EpisodePairOptions, seed: int, name: str = "ad"
    ) -> None:
        self.spaces, self.options, self.name = spaces, options, name
        check_renamed(options.renamed, spaces)
        self.policy = DecisionTransformer(spaces, options.model, seed, episodes=2)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}

    @property
    def context(self) -> ContextSize:
        """Two whole episodes."""
        return ContextSize(2 * self.spaces.horizon)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Choose the current episodes; earlier ones come from the whole history."""
        self.sampler = WindowSampler(dataset, self.spaces.horizon, self.options)
        return {"episodes": len(self.sampler.episodes)}

    def draw(self, size: int, rng: np.random.Generator) -> ADExamples:
        """Draw current episodes up to some step, and put the one K before in front of each."""
        dataset, windows = self.sampler.dataset, self.sampler.draw(size, rng)
        before = episode_before(dataset.episodes, windows.episode, self.options.skip)
        before[rng.random(size) < self.options.context_dropout] = -1
        both = joined(whole_episodes(dataset, before), self.sampler.read(windows))
        (recent,) = rename_batches([both], self.spaces.state, self.options.renamed, rng)
        targets = recent.mask
        if self.options.loss_on == "current":
            targets = targets & (episodes_ago(recent) == 0)
        tasks = dataset.episodes.task[windows.episode]
        return ADExamples(recent, targets, valid_dimensions(self.spaces, tasks))

    def loss(self, examples: ADExamples) -> Tensor:
        """Return how badly the target actions are predicted."""
        targets, valid = examples.targets, examples.valid

        def of(rows: Tensor) -> Tensor:
            recent = examples.recent.rows(rows).trimmed()
            wanted = targets[rows, : recent.mask.shape[1]]
            some = None if valid is None else valid[rows]
            return action_loss(self.policy(recent), recent.actions, wanted, some)

        length, counted = examples.recent.mask.sum(1), counted_errors(targets, valid)
        return loss_in_parts(of, length, counted, self.policy.device)

    def actor(self, slots: int) -> EpisodePairActor:
        """Put the method to work: the earlier episode is the last finished trial."""
        return EpisodePairActor(self.policy, slots, self.options.cache)


def build(spaces: TaskSpaces, options: ADOptions, seed: int, embedder: Embedder | None) -> AD:
    """Build the method as the registry asks for it."""
    return AD(spaces, options, seed)


METHODS.register("ad", MethodEntry(ADOptions, build))
