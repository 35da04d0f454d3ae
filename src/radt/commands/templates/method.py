"""A method: behaviour cloning of each task's best episodes, from the present state alone.

To make it yours, change what is numbered. What a method may do besides stands in the protocol
`radt.methods.Method`; `radt.methods.dt.DT`, which this one extends, is the shortest whole one.
"""

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

NAME = "template"  # what `radt run --method` calls it


@dataclass(frozen=True, kw_only=True)
class CloneOptions(WindowOptions):
    """1. Options, set as options.width; all methods have those of their windows."""

    context_len: ClassVar[int] = 1  # steps that a decision reads
    width: int = 32  # of the layer
    top_fraction: float = 0.4  # clone this share of each task's episodes, by return


class ClonePolicy(nn.Module):
    """2. The network: from steps to actions."""

    def __init__(self, spaces: TaskSpaces, width: int) -> None:
        super().__init__()
        self.state = state_encoder(spaces.state, width)  # whatever kind of state it is
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
    """3. What it learns from (`prepare`, `draw`), how (`loss`) and how it acts (`actor`): as DT."""

    name = NAME

    def __init__(self, spaces: TaskSpaces, options: CloneOptions, seed: int) -> None:
        self.spaces, self.options = spaces, options
        with torch.random.fork_rng(devices=[]):  # the same weights from the same seed
            torch.manual_seed(seed)
            self.policy = ClonePolicy(spaces, options.width)
        self.networks: dict[str, nn.Module] = {"policy": self.policy}  # what is trained and saved


def build(spaces: TaskSpaces, options: CloneOptions, seed: int, embedder: Any) -> Clone:
    """Build the method as radt asks for it."""
    return Clone(spaces, options, seed)


METHODS.register(NAME, MethodEntry(CloneOptions, build))
