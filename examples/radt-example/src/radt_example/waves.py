"""A state encoder: sines and cosines of each coordinate, so that near cells are similar."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from radt.model.encoders import ENCODERS
from radt.spaces import StateSpace

FREQUENCIES = 4


class Waves(nn.Module):
    """A linear layer on sines and cosines of discrete coordinates."""

    def __init__(self, space: StateSpace, width: int) -> None:
        super().__init__()
        if space.kind != "discrete":
            raise ValueError(f"waves read discrete states, not {space.kind!r} ones")
        bins = torch.tensor(space.bins).reshape(space.shape)
        self.register_buffer("turn", math.pi / bins, persistent=False)  # [*state_shape]
        self.axes = len(space.shape)
        self.linear = nn.Linear(2 * FREQUENCIES * len(space.bins), width)

    def forward(self, states: Tensor) -> Tensor:
        """Encode states [..., *state_shape] as [..., width]."""
        angles = (states + 0.5) * self.turn
        angles = angles[..., None] * torch.arange(1, FREQUENCIES + 1, device=states.device)
        waves = torch.cat([angles.sin(), angles.cos()], dim=-1)  # [..., *state_shape, 2 F]
        return self.linear(waves.flatten(-1 - self.axes))


ENCODERS.register("waves", Waves)
