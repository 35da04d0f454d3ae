"""A method: behaviour cloning from the present state alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from radt.methods import METHODS, MethodEntry
from radt.methods.dt import DT
from radt.methods.windows import WindowOptions
from radt.model.encoders import state_encoder
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


@dataclass(frozen=True, kw_only=True)
class CloneOptions(WindowOptions):
    """Options: the width, and those that all methods have for their windows."""

    context_len: ClassVar[int] = 1
    width: int = 32
    top_fraction: float = 0.4  # clone this share of each task's episodes, by return


class ClonePolicy(nn.Module):
    """Two layers from a state to an action."""

    def __init__(self, spaces: TaskSpaces, width: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.state = state_encoder(spaces.state, width)
            self.head = nn.Linear(width, spaces.action.size)
        self.squash = torch.tanh if spaces.action.kind == "continuous" else nn.Identity()

    def forward(self, steps: Batch) -> Tensor:
        """Return action logits, or actions in [-1, 1], of every step: [B, L, action_size]."""
        states = steps.states.to(self.head.weight.device)
        return self.squash(self.head(self.state(states).relu()))

    def decide(self, recent: Batch) -> Tensor:
        """Return those of the latest step: [B, action_size]."""
        return self(recent)[:, -1]


class Clone(DT):
    """Learns as DT does, with windows of one step and another policy."""

    name = "clone"

    def __init__(self, spaces: TaskSpaces, options: CloneOptions, seed: int) -> None:
        self.spaces, self.options = spaces, options
        self.policy = ClonePolicy(spaces, options.width, seed)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}


def build(spaces: TaskSpaces, options: CloneOptions, seed: int, embedder: Any) -> Clone:
    """Build the method as radt asks for it."""
    return Clone(spaces, options, seed)


CLONE = METHODS.register("clone", MethodEntry(CloneOptions, build))
