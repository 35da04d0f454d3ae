"""The plug point of action heads: how many numbers predict an action, and what they mean.

| head       | actions    | a decision holds                     | loss                    |
|------------|------------|--------------------------------------|-------------------------|
| (softmax)  | discrete   | a logit of each action               | cross-entropy           |
| `mse`      | continuous | the action itself, by tanh           | squared error           |
| `gaussian` | continuous | mean and log-std of each dimension   | negative log-likelihood |
| `bins`     | continuous | a logit of each bin of each dimension | cross-entropy          |

`mse` is the paper's. It says one action and nothing of others, so no action rule changes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from radt.action_rules import ActionRule
from radt.errors import RunError
from radt.model.losses import action_loss, counted_dimensions
from radt.spaces import ActionSpace

HeadName = Literal["mse", "gaussian", "bins"]
Valid = Tensor | None  # [B, A] bool: dimensions that mean something; None: all
Uniform = NDArray[np.float64]  # [B, 1] or [B, A] numbers in [0, 1)
Slots = NDArray[np.bool_]  # [B]
LEAST_LOG_STD = -3.0  # a standard deviation of 0.05, a fortieth of the range
BINS = 11  # an odd number, so that 0 is a centre


class ActionHead:
    """What the last layer of a policy predicts of an action: here a number, or one a dimension."""

    sampled = True  # whether an action rule has a choice

    def __init__(self, actions: ActionSpace) -> None:
        self.size = actions.size  # numbers per decision

    def read(self, outputs: Tensor) -> Tensor:
        """Turn outputs of the last layer into what they mean, [..., size] -> [..., size]."""
        return outputs

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Valid = None
    ) -> Tensor:
        """Average the loss of the valid dimensions of marked steps [B, L]."""
        return action_loss(predicted, actions, steps, valid)

    def choose(
        self, decided: Tensor, rule: ActionRule, uniform: Uniform, exploring: Slots
    ) -> NDArray[Any]:
        """Choose actions from decisions [B, size] as a rule says."""
        raise NotImplementedError


class SoftmaxHead(ActionHead):
    """Discrete actions: a logit each."""

    def choose(
        self, decided: Tensor, rule: ActionRule, uniform: Uniform, exploring: Slots
    ) -> NDArray[np.int64]:
        return rule.choose(decided, uniform[:, 0], exploring)


class MeanHead(ActionHead):
    """Continuous actions as the paper predicts them: one action in [-1, 1]."""

    sampled = False

    def read(self, outputs: Tensor) -> Tensor:
        return torch.tanh(outputs)

    def choose(
        self, decided: Tensor, rule: ActionRule, uniform: Uniform, exploring: Slots
    ) -> NDArray[np.float32]:
        return np.asarray(decided.cpu().numpy())


class GaussianHead(ActionHead):
    """Mean and log-std of each dimension, side by side: a policy that can be sampled.

    The mean is squashed by tanh as the paper's actions are; samples are clipped to [-1, 1]. The
    log-std has a floor, so that actions which the data repeat exactly do not make the likelihood
    grow without end; a soft one, because behind a hard one no gradient would lead back.
    """

    def __init__(self, actions: ActionSpace) -> None:
        self.size = 2 * actions.size

    def read(self, outputs: Tensor) -> Tensor:
        mean, log_std = outputs.chunk(2, dim=-1)
        above = LEAST_LOG_STD + softplus(log_std - LEAST_LOG_STD)
        return torch.cat([torch.tanh(mean), above], dim=-1)

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Valid = None
    ) -> Tensor:
        actions = actions.to(predicted.device)
        counted = counted_dimensions(actions, steps, valid)  # [B, L, A]
        mean, log_std = (part[counted] for part in predicted.chunk(2, dim=-1))  # [N]
        apart = (actions[counted] - mean) * torch.exp(-log_std)
        return (apart.square() / 2 + log_std).mean() + math.log(2 * math.pi) / 2

    def choose(
        self, decided: Tensor, rule: ActionRule, uniform: Uniform, exploring: Slots
    ) -> NDArray[np.float32]:
        """Sample with standard deviations times the temperature; of a nucleus, its middle part."""
        mean, log_std = decided.double().cpu().chunk(2, dim=-1)  # [B, A]
        temperature = rule.temperatures(exploring)[:, None] * (rule.keep_best != 1)  # [B, 1]
        spread = log_std.exp().numpy() * temperature
        actions = mean.numpy() + spread * standard_normal(uniform, rule.nucleus or 1.0)
        return np.clip(actions, -1.0, 1.0).astype(np.float32)


def standard_normal(uniform: Uniform, share: float = 1.0) -> NDArray[np.float64]:
    """Turn numbers in [0, 1) into normal ones, or into those of the likeliest share."""
    inner = 0.5 + share * (uniform - 0.5)
    least = np.finfo(np.float64).eps  # 0 would be minus infinity
    return np.asarray(torch.special.ndtri(torch.from_numpy(np.clip(inner, least, 1 - least))))


class BinsHead(ActionHead):
    """A logit of each bin, dimension by dimension: several modes, at the price of a grid.

    The bins' centres are spread evenly from -1 to 1, ends included. Dimensions are drawn
    independently of each other.
    """

    def __init__(self, actions: ActionSpace, bins: int = BINS) -> None:
        self.bins, self.size = bins, actions.size * bins

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Valid = None
    ) -> Tensor:
        actions = actions.to(predicted.device)
        counted = counted_dimensions(actions, steps, valid)  # [B, L, A]
        logits = predicted.unflatten(-1, (-1, self.bins))[counted]  # [N, bins]
        return cross_entropy(logits, self.nearest(actions[counted]))

    def choose(
        self, decided: Tensor, rule: ActionRule, uniform: Uniform, exploring: Slots
    ) -> NDArray[np.float32]:
        """Draw a bin of each dimension as the rule draws discrete actions; act at its centre."""
        logits = decided.unflatten(-1, (-1, self.bins)).flatten(0, 1)  # [B * A, bins]
        every = np.repeat(exploring, uniform.shape[1])  # [B * A]
        drawn = rule.choose(logits, uniform.reshape(-1), every)
        return np.linspace(-1, 1, self.bins, dtype=np.float32)[drawn].reshape(uniform.shape)

    def nearest(self, actions: Tensor) -> Tensor:
        """Return the bins of actions in [-1, 1]; those beyond belong to the outermost."""
        return ((actions.clamp(-1, 1) + 1) / 2 * (self.bins - 1)).round().long()


CONTINUOUS: Mapping[HeadName, Callable[[ActionSpace], ActionHead]] = {
    "mse": MeanHead,
    "gaussian": GaussianHead,
    "bins": BinsHead,
}


def action_head(actions: ActionSpace, name: HeadName = "mse") -> ActionHead:
    """Build the head of a name; discrete actions have one of their own, which the default means."""
    if actions.kind == "continuous":
        return CONTINUOUS[name](actions)
    if name != "mse":
        raise RunError(
            f"model.action_head={name} is for continuous actions, and these are discrete: leave it "
            "out, a softmax predicts them"
        )
    return SoftmaxHead(actions)
