"""Decision Transformer: predicts actions from the recent steps of the current episode (Eq. 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from radt.collect.source import check_counts
from radt.data.reader import Dataset
from radt.methods.decision_cache import Window, window_of
from radt.methods.method import (
    METHODS,
    ContextSize,
    Memoryless,
    MethodEntry,
    Progress,
    head_of,
    unembedded,
)
from radt.methods.transforms import check_transforms, transforms_of
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowOptions, WindowSampler
from radt.model.policy import DecisionTransformer, ModelConfig
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


@dataclass(frozen=True)
class DTOptions(WindowOptions):
    """What can be chosen about a Decision Transformer."""

    model: ModelConfig = field(default_factory=ModelConfig)
    context_len: int = 50  # C: steps that a decision reads
    window_step: int = 1  # steps by which a full window moves on at once while acting, at most C

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "context_len", "window_step")


@dataclass(frozen=True)
class WindowExamples:
    """Windows, and which steps are targets."""

    recent: Batch  # [B, L]
    valid: Tensor | None  # [B, action_size] bool: dimensions that mean something
    targets: Tensor | None = None  # [B, L] bool: whose actions are predicted; None: of real steps


class DT:
    """The method without a memory."""

    name = "dt"

    def __init__(self, spaces: TaskSpaces, options: DTOptions, seed: int) -> None:
        self.spaces, self.options = spaces, options
        check_transforms(options, spaces)
        self.policy = DecisionTransformer(spaces, options.model, seed)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}

    @property
    def context(self) -> ContextSize:
        """The last C steps of the running trial, or up to `window_step` - 1 fewer."""
        return ContextSize(self.options.context_len)

    def prepare(self, dataset: Dataset, progress: Progress | None = None) -> Mapping[str, float]:
        """Choose the episodes to learn from."""
        self.sampler = WindowSampler(dataset, self.options.context_len, self.options)
        self.transform = transforms_of(self.options, dataset)
        return {"episodes": len(self.sampler.episodes)}

    def draw(self, size: int, rng: np.random.Generator) -> WindowExamples:
        windows = self.sampler.draw(size, rng)
        examples = WindowExamples(self.sampler.read(windows), self.sampler.valid(windows))
        return self.transform(examples, rng)

    def loss(self, examples: WindowExamples) -> Tensor:
        """Return how badly the actions of all steps are predicted."""
        recent = examples.recent
        if hasattr(self.policy, "loss"):
            return self.policy.loss(recent, recent.mask, examples.valid)
        predicted = self.policy(recent)  # others' policies may only predict
        return head_of(self).loss(predicted, recent.actions, recent.mask, examples.valid)

    def actor(self, slots: int) -> DTActor:
        length, step = self.options.context_len, getattr(self.options, "window_step", 1)
        return DTActor(window_of(self.policy, slots, length, step))  # others' may not say


class DTActor(Memoryless):
    """Acts on up to C last steps of the running trial, or on all of it where its policy recurs."""

    def __init__(self, window: Window) -> None:
        self.window, self.policy = window, window.policy.eval()
        self.remembers = type(self) is not DTActor  # others may know of earlier trials

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        self.window.begin_trials(slots)

    @torch.no_grad()
    def decide(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Tensor:
        return self.window.decide(trials, slots)


METHODS.register("dt", MethodEntry(DTOptions, unembedded(DT)))
