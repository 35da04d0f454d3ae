"""A categorical distribution over bins of each dimension: several modes, at the price of a grid.

The bins' centres are spread evenly from -1 to 1, ends included. Dimensions are drawn independently
of each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from radt.action_rules import ActionRule
from radt.model.losses import counted_dimensions
from radt.spaces import ActionSpace

BINS = 11  # an odd number, so that 0 is a centre


class BinsHead:
    """A logit of each bin, dimension by dimension."""

    sampled = True

    def __init__(self, actions: ActionSpace, bins: int = BINS) -> None:
        self.bins, self.size = bins, actions.size * bins

    def read(self, outputs: Tensor) -> Tensor:
        return outputs

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
    ) -> Tensor:
        """Average the cross-entropy with the nearest bins of valid dimensions of marked steps."""
        actions = actions.to(predicted.device)
        counted = counted_dimensions(actions, steps, valid)  # [B, L, A]
        logits = predicted.unflatten(-1, (-1, self.bins))[counted]  # [N, bins]
        return cross_entropy(logits, self.nearest(actions[counted]))

    def choose(
        self,
        decided: Tensor,
        rule: ActionRule,
        uniform: NDArray[np.float64],
        exploring: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Draw a bin of each dimension as the rule draws discrete actions; act at its centre."""
        logits = decided.unflatten(-1, (-1, self.bins)).flatten(0, 1)  # [B * A, bins]
        every = np.repeat(exploring, uniform.shape[1])  # [B * A]
        drawn = rule.choose(logits, uniform.reshape(-1), every)
        return np.linspace(-1, 1, self.bins, dtype=np.float32)[drawn].reshape(uniform.shape)

    def nearest(self, actions: Tensor) -> Tensor:
        """Return the bins of actions in [-1, 1]; those beyond belong to the outermost."""
        return ((actions.clamp(-1, 1) + 1) / 2 * (self.bins - 1)).round().long()
