"""A Gaussian over each dimension of a continuous action: a policy that can be sampled.

The mean is squashed by tanh as the paper's actions are; samples are clipped to [-1, 1]. The log of
the standard deviation has a floor, so that actions which the data repeat exactly do not make the
likelihood grow without end; a soft one, because behind a hard one no gradient would lead back.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from radt.action_rules import ActionRule
from radt.model.losses import counted_dimensions
from radt.spaces import ActionSpace

LEAST_LOG_STD = -3.0  # a standard deviation of 0.05, a fortieth of the range


class GaussianHead:
    """Mean and log-std of each dimension, side by side."""

    sampled = True

    def __init__(self, actions: ActionSpace) -> None:
        self.size = 2 * actions.size

    def read(self, outputs: Tensor) -> Tensor:
        """Squash means into [-1, 1] and keep log-stds above their floor."""
        mean, log_std = outputs.chunk(2, dim=-1)
        above = LEAST_LOG_STD + softplus(log_std - LEAST_LOG_STD)
        return torch.cat([torch.tanh(mean), above], dim=-1)

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
    ) -> Tensor:
        """Average the negative log-likelihood of the valid dimensions of marked steps."""
        actions = actions.to(predicted.device)
        counted = counted_dimensions(actions, steps, valid)  # [B, L, A]
        mean, log_std = (part[counted] for part in predicted.chunk(2, dim=-1))  # [N]
        apart = (actions[counted] - mean) * torch.exp(-log_std)
        return (apart.square() / 2 + log_std).mean() + math.log(2 * math.pi) / 2

    def choose(
        self,
        decided: Tensor,
        rule: ActionRule,
        uniform: NDArray[np.float64],
        exploring: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Sample with standard deviations times the temperature; of a nucleus, its middle part."""
        mean, log_std = decided.double().cpu().chunk(2, dim=-1)  # [B, A]
        temperature = rule.temperatures(exploring)[:, None] * (rule.keep_best != 1)  # [B, 1]
        spread = log_std.exp().numpy() * temperature
        actions = mean.numpy() + spread * standard_normal(uniform, rule.nucleus or 1.0)
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


def standard_normal(uniform: NDArray[np.float64], share: float = 1.0) -> NDArray[np.float64]:
    """Turn numbers in [0, 1) into normal ones, or into those of the likeliest share."""
    inner = 0.5 + share * (uniform - 0.5)
    least = np.finfo(np.float64).eps  # 0 would be minus infinity
    return np.asarray(torch.special.ndtri(torch.from_numpy(np.clip(inner, least, 1 - least))))
