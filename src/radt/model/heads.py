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

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.action_rules import ActionRule
from radt.errors import RunError
from radt.model.bins_head import BinsHead
from radt.model.gaussian_head import GaussianHead
from radt.model.losses import action_loss
from radt.spaces import ActionSpace

HeadName = Literal["mse", "gaussian", "bins"]


class ActionHead(Protocol):
    """What the last layer of a policy predicts of an action."""

    size: int  # numbers per decision
    sampled: bool  # whether an action rule has a choice

    def read(self, outputs: Tensor) -> Tensor:
        """Turn outputs of the last layer into what they mean, [..., size] -> [..., size]."""

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
    ) -> Tensor:
        """Average the loss of marked steps [B, L], of valid dimensions [B, A]; None: of all."""

    def choose(
        self,
        decided: Tensor,
        rule: ActionRule,
        uniform: NDArray[np.float64],
        exploring: NDArray[np.bool_],
    ) -> NDArray[Any]:
        """Choose actions from decisions [B, size] with numbers in [0, 1), [B, 1] or [B, A]."""


class SoftmaxHead:
    """Discrete actions: a logit each."""

    sampled = True

    def __init__(self, actions: ActionSpace) -> None:
        self.size = actions.size

    def read(self, outputs: Tensor) -> Tensor:
        return outputs

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
    ) -> Tensor:
        return action_loss(predicted, actions, steps, valid)

    def choose(
        self,
        decided: Tensor,
        rule: ActionRule,
        uniform: NDArray[np.float64],
        exploring: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        return rule.choose(decided, uniform[:, 0], exploring)


class MeanHead:
    """Continuous actions as the paper predicts them: one action in [-1, 1]."""

    sampled = False

    def __init__(self, actions: ActionSpace) -> None:
        self.size = actions.size

    def read(self, outputs: Tensor) -> Tensor:
        return torch.tanh(outputs)

    def loss(
        self, predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
    ) -> Tensor:
        return action_loss(predicted, actions, steps, valid)

    def choose(
        self,
        decided: Tensor,
        rule: ActionRule,
        uniform: NDArray[np.float64],
        exploring: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        return np.asarray(decided.cpu().numpy())


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
