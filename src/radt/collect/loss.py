"""PPO's loss, differentiated by hand with respect to what the networks say."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from radt.collect.minibatch import Minibatch
from radt.collect.networks import POLICY, VALUE


class LossOptions(Protocol):
    """What PPO's loss can be told."""

    @property
    def clip_range(self) -> float:
        """How far the policy may move before a sample stops to count."""
        ...

    @property
    def ent_coef(self) -> float:
        """The weight of the entropy."""
        ...

    @property
    def vf_coef(self) -> float:
        """The weight of the value loss."""
        ...


def output_gradients(outputs: Tensor, batch: Minibatch, config: LossOptions) -> Tensor:
    """Differentiate PPO's loss with respect to logits and values, [tasks, 2, actions, D].

    The loss is -min(ratio * A, clip(ratio) * A) - ent_coef * entropy + vf_coef * (V - return)^2,
    averaged over the samples. A positive advantage pulls until the ratio passes 1 + clip_range,
    a negative one pushes until it passes 1 - clip_range.
    """
    log_policy = outputs[:, POLICY].log_softmax(dim=1)  # [tasks, actions, D]
    policy = log_policy.exp()
    ratio = policy / batch.probabilities
    slope = torch.where(ratio <= 1 + config.clip_range, batch.gains, 0)
    slope += torch.where(ratio >= 1 - config.clip_range, batch.losses, 0)
    slope *= -ratio
    slope.addcmul_(policy * log_policy, batch.visits.unsqueeze(1), value=config.ent_coef)
    gradients = torch.zeros_like(outputs)
    gradients[:, POLICY] = slope - policy * slope.sum(dim=1, keepdim=True)
    error = outputs[:, VALUE, 0] * batch.visits - batch.returns
    gradients[:, VALUE, 0] = 2 * config.vf_coef * error
    return gradients
