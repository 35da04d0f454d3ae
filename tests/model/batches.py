"""Random batches for any spaces, and ways to change a part of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from radt.model.policy import DecisionTransformer, ModelConfig
from radt.spaces import TaskSpaces
from radt.trajectory import Batch
from tests.toys import TOYS

SPACES = {suite.spaces.state.kind: suite.spaces for suite in TOYS}


def random_batch(
    spaces: TaskSpaces, rng: np.random.Generator, rows: int, length: int, lengths: Tensor | None
) -> Batch:
    """Draw steps that lie anywhere in their episodes; `lengths` [B] says which are real."""
    shape = (rows, length)
    start = rng.integers(0, spaces.horizon - length + 1, (rows, 1))
    mask = torch.ones(shape, dtype=torch.bool)
    if lengths is not None:
        mask = torch.arange(length) < lengths[:, None]
    return Batch(
        states=random_states(spaces, rng, shape),
        actions=random_actions(spaces, rng, shape),
        rewards=torch.from_numpy(rng.normal(size=shape).astype(np.float32)),
        returns_to_go=torch.from_numpy(rng.uniform(0, 9, shape).astype(np.float32)),
        timesteps=torch.from_numpy(start + np.arange(length)),
        mask=mask,
    )


def random_states(spaces: TaskSpaces, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Draw states of any kind."""
    full = (*shape, *spaces.state.shape)
    if spaces.state.kind == "discrete":
        return torch.from_numpy(rng.integers(0, spaces.state.bins, full))
    if spaces.state.kind == "image":
        return torch.from_numpy(rng.integers(0, 256, full).astype(np.uint8))
    return torch.from_numpy(rng.normal(size=full).astype(np.float32))


def random_actions(spaces: TaskSpaces, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Draw actions of any kind."""
    if spaces.action.kind == "discrete":
        return torch.from_numpy(rng.integers(0, spaces.action.size, shape))
    full = (*shape, spaces.action.size)
    return torch.from_numpy(rng.uniform(-1, 1, full).astype(np.float32))


def mixed(keep: Tensor, one: Batch, other: Batch) -> Batch:
    """Take the steps marked in `keep` [B, L] from one batch and the rest from the other."""
    fields = {}
    for name in ("states", "actions", "rewards", "returns_to_go", "timesteps"):
        left, right = getattr(one, name), getattr(other, name)
        spread = keep.reshape(keep.shape + (1,) * (left.ndim - 2))
        fields[name] = torch.where(spread, left, right)
    return replace(one, **fields)


def small_model(
    spaces: TaskSpaces, retrieves: bool = False, **options: object
) -> DecisionTransformer:
    """Build a model of 2 layers whose weights are large enough that every leak would show."""
    given = {"layers": 2, "width": 16, "heads": 2, **options}
    model = DecisionTransformer(spaces, ModelConfig(**given), seed=0, retrieves=retrieves)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model.eval()
