"""Minibatches gathered per distinct state, and PPO's loss, differentiated by hand.

Grid states repeat: of the 64 samples of a minibatch often only a dozen are distinct, and the acting
policy was a fixed table while they were recorded. Samples with the same state and action share
their probability ratio, so the clipped objective depends on them only through two sums, of their
positive and of their negative advantages; the value loss needs the visits and the sum of returns
of each state. So the networks run once per distinct state, and the gradient is exactly that of all
samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from radt.collect.networks import POLICY, VALUE
from radt.collect.rollout import Floats, Integers


@dataclass(frozen=True)
class Experience:
    """One rollout of every task, as the learner sees it."""

    states: Integers  # [tasks, steps] state indices
    actions: Integers  # [tasks, steps]
    probabilities: Floats  # [tasks, steps] of the actions under the acting policy
    advantages: Floats  # [tasks, steps]
    returns: Floats  # [tasks, steps] the value network's targets

    def shuffled(self, order: Integers, batch_size: int) -> Experience:
        """Cut into [tasks, batches, batch_size] by each task's permutation, [tasks, steps]."""
        tasks, steps = order.shape
        flat = (order + np.arange(tasks)[:, None] * steps).reshape(tasks, -1, batch_size)
        return Experience(*(getattr(self, field.name).ravel()[flat] for field in fields(self)))


@dataclass(frozen=True)
class Minibatch:
    """One minibatch of every task: sums over samples for D states each, padded with weight 0."""

    states: Tensor  # [tasks, D] state indices, or those of samples in a rollout
    visits: Tensor  # [tasks, D] share of the samples
    returns: Tensor  # [tasks, D] sum of returns / samples
    probabilities: Tensor  # [tasks, actions, D] under the acting policy, 1 where never taken
    gains: Tensor  # [tasks, actions, D] sum of positive normalised advantages / samples
    losses: Tensor  # [tasks, actions, D] sum of negative normalised advantages / samples


@dataclass(frozen=True)
class _Layout:
    """Where each sample is summed when all minibatches of an epoch lie one after the other."""

    widths: Integers  # [batches] D of each minibatch
    rows: Integers  # [tasks, batches, batch_size] position in [tasks, D] blocks
    pairs: Integers  # [tasks, batches, batch_size] position in [tasks, actions, D] blocks


def minibatches(
    experience: Experience,
    order: Integers,
    batch_size: int,
    actions: int,
    state_count: int,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Minibatch]:
    """Yield one epoch in the order of each task's permutation, [tasks, steps]."""
    samples = experience.shuffled(order, batch_size)
    layout = _lay_out(samples, actions, state_count)
    tasks = len(order)
    count = tasks * int(layout.widths.sum())
    share = normalise(samples.advantages).ravel() / batch_size
    gains = np.maximum(share, 0)
    rows, pairs = layout.rows.ravel(), layout.pairs.ravel()
    states = np.zeros(count, np.int64)
    states[rows] = samples.states.ravel()
    probabilities = np.ones(count * actions)
    probabilities[pairs] = samples.probabilities.ravel()
    per_state = (
        np.bincount(rows, minlength=count) / batch_size,
        np.bincount(rows, samples.returns.ravel(), count) / batch_size,
    )
    per_pair = (
        probabilities,
        np.bincount(pairs, gains, count * actions),
        np.bincount(pairs, share - gains, count * actions),
    )
    by_state = [torch.from_numpy(states), *(torch.from_numpy(x).to(dtype) for x in per_state)]
    by_pair = [torch.from_numpy(x).to(dtype) for x in per_pair]
    start = 0
    for width in layout.widths.tolist():
        stop = start + tasks * width
        yield Minibatch(
            *(sums[start:stop].view(tasks, width) for sums in by_state),
            *(
                sums[start * actions : stop * actions].view(tasks, actions, width)
                for sums in by_pair
            ),
        )
        start = stop


def of_samples(
    rows: Integers, experience: Experience, actions: int, dtype: torch.dtype = torch.float32
) -> Minibatch:
    """Make a minibatch of the samples `rows` [D] of every task, where no state repeats."""
    taken = torch.from_numpy(experience.actions[:, rows]).unsqueeze(1)  # [tasks, 1, D]
    share = torch.from_numpy(normalise(experience.advantages[:, rows]) / len(rows)).to(dtype)
    returns = torch.from_numpy(experience.returns[:, rows] / len(rows)).to(dtype)
    chosen = torch.from_numpy(experience.probabilities[:, rows]).to(dtype)
    empty = torch.zeros(len(taken), actions, len(rows), dtype=dtype)
    return Minibatch(
        states=torch.from_numpy(rows).expand(len(taken), -1),
        visits=torch.full_like(returns, 1 / len(rows)),
        returns=returns,
        probabilities=torch.ones_like(empty).scatter_(1, taken, chosen.unsqueeze(1)),
        gains=empty.scatter(1, taken, share.clamp(min=0).unsqueeze(1)),
        losses=empty.scatter(1, taken, share.clamp(max=0).unsqueeze(1)),
    )


def normalise(advantages: Floats) -> Floats:
    """Centre and scale each minibatch's advantages, the last axis."""
    centred: Floats = advantages - advantages.mean(axis=-1, keepdims=True)
    variance = np.square(centred).sum(axis=-1, keepdims=True) / (advantages.shape[-1] - 1)
    centred /= np.sqrt(variance) + 1e-8
    return centred


def _lay_out(samples: Experience, actions: int, state_count: int) -> _Layout:
    tasks = len(samples.states)
    slots, widths = distinct_slots(samples.states, state_count)
    starts = tasks * (np.cumsum(widths) - widths)  # [batches]
    task = np.arange(tasks)[:, None, None]
    rows = (starts + task[..., 0] * widths)[..., None] + slots
    pairs = (
        (actions * starts)[:, None] + slots + (task * actions + samples.actions) * widths[:, None]
    )
    return _Layout(widths, rows, pairs)


def distinct_slots(states: Integers, state_count: int) -> tuple[Integers, Integers]:
    """Number the distinct states of each task's minibatch and count them per minibatch."""
    tasks, batches, _ = states.shape
    keys = states + np.arange(tasks * batches).reshape(tasks, batches, 1) * state_count
    present = np.zeros((tasks, batches, state_count), np.bool_)
    present.ravel()[keys] = True
    slot_of = np.cumsum(present, axis=-1, dtype=np.int16)  # from 1
    widths = slot_of[..., -1].max(axis=0).astype(np.int64)  # the most of any task
    return slot_of.ravel()[keys].astype(np.int64) - 1, widths


def output_gradients(outputs: Tensor, batch: Minibatch, config: Any) -> Tensor:
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
