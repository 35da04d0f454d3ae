"""One small actor-critic per task, all of them computed at once, and PPO's loss on minibatches.

The networks are those of stable-baselines3's MlpPolicy: separate for policy and value, two hidden
tanh layers of 64, orthogonal weights. Gradients are written by hand over buffers that are allocated
once. A constant last input makes the bias one more row of each weight matrix. The head is stored
transposed, because products with five columns are several times slower than with five rows.

Grid states repeat: of the 64 samples of a minibatch often only a dozen are distinct, and the acting
policy was a fixed table while they were recorded. Samples with the same state and action share
their probability ratio, so the clipped objective depends on them only through two sums, of their
positive and of their negative advantages; the value loss needs the visits and the sum of returns
of each state. So the networks run once per distinct state, and the gradient is exactly that of all
samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from radt.collect.rollout import Floats, Integers

POLICY, VALUE = 0, 1  # the two networks of a task
HIDDEN = 64
_MINUS_ONE = torch.tensor(-1.0)


@dataclass(frozen=True)
class _Buffers:
    """Room for one forward and backward pass over D states per task."""

    states: Tensor  # [2 * tasks, D, inputs + 1]
    first: Tensor  # [2 * tasks, D, HIDDEN + 1], the last column is 1
    second: Tensor  # [2 * tasks, D, HIDDEN + 1], the last column is 1
    outputs: Tensor  # [2 * tasks, actions, D]
    sums: Tensor  # [2 * tasks, D, HIDDEN]
    errors: Tensor  # [2 * tasks, D, HIDDEN]


class Parameters:
    """The weights of two networks per task in one flat tensor, and their gradients in another."""

    def __init__(self, tasks: int, shapes: Sequence[tuple[int, int]], dtype: torch.dtype) -> None:
        """Make room for one [2 * tasks, rows, columns] block per layer."""
        self.tasks, self._shapes = tasks, shapes
        size = 2 * tasks * sum(rows * columns for rows, columns in shapes)
        self.values = torch.zeros(size, dtype=dtype)
        self.gradients = torch.zeros(size, dtype=dtype)
        self.blocks = self._by_layer(self.values)
        self.gradient_blocks = self._by_layer(self.gradients)

    def _by_layer(self, flat: Tensor) -> list[Tensor]:
        nets = 2 * self.tasks
        blocks = flat.split([nets * rows * columns for rows, columns in self._shapes])
        return [block.view(nets, *shape) for block, shape in zip(blocks, self._shapes, strict=True)]

    def clip_gradients(self, max_norm: float) -> None:
        """Shorten each task's gradient to `max_norm`, as clip_grad_norm_ does for one network."""
        blocks = [block.view(self.tasks, -1) for block in self.gradient_blocks]
        norms = torch.stack([torch.linalg.vector_norm(block, dim=1) for block in blocks])
        norm = torch.linalg.vector_norm(norms, dim=0)  # [tasks]
        scale = (max_norm / (norm + 1e-6)).clamp_(max=1.0).unsqueeze(1)
        for block in blocks:
            block.mul_(scale)


def layer_shapes(inputs: int, actions: int) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of the three layers.

    The value network has as many outputs as the policy so that both fit one batch; those after the
    first get no gradient and stay 0.
    """
    return (inputs + 1, HIDDEN), (HIDDEN + 1, HIDDEN), (actions, HIDDEN + 1)


class ActorCritics:
    """The policy and value networks of many tasks, and their gradients."""

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        inputs: int,
        actions: int,
        max_states: int,
        dtype: torch.dtype = torch.float32,
        parameters: Parameters | None = None,
    ) -> None:
        """Draw the weights; they are the last layers of `parameters` where those are given."""
        self.tasks, self.inputs, self.actions = len(generators), inputs, actions
        shapes = layer_shapes(inputs, actions)
        self.parameters = parameters or Parameters(self.tasks, shapes, dtype)
        self.weights = self.parameters.blocks[-len(shapes) :]
        self.weight_gradients = self.parameters.gradient_blocks[-len(shapes) :]
        width = inputs + 1 + 2 * (HIDDEN + 1) + actions + 2 * HIDDEN  # buffered for each state
        self._storage = torch.zeros(2 * self.tasks * max_states * width, dtype=dtype)
        self._buffers: dict[int, _Buffers] = {}
        for task, generator in enumerate(generators):
            self._initialise(task, generator)

    def _initialise(self, task: int, generator: np.random.Generator) -> None:
        """Draw orthogonal weights with gains sqrt(2), sqrt(2) and 0.01 (policy) or 1 (value)."""
        for network, outputs, gain in ((POLICY, self.actions, 0.01), (VALUE, 1, 1.0)):
            first, second, head = (block[2 * task + network] for block in self.weights)
            first[:-1] = orthogonal(generator, self.inputs, HIDDEN, math.sqrt(2))
            second[:-1] = orthogonal(generator, HIDDEN, HIDDEN, math.sqrt(2))
            head[:outputs, :-1] = orthogonal(generator, HIDDEN, outputs, gain).mT

    def _buffers_for(self, states: int) -> _Buffers:
        """Return the views for one number of states; all numbers share one storage."""
        if states not in self._buffers:
            nets, wide = 2 * self.tasks, HIDDEN + 1
            shapes = [(states, self.inputs + 1), (states, wide), (states, wide)]
            shapes += [(self.actions, states), (states, HIDDEN), (states, HIDDEN)]
            sizes = [nets * rows * columns for rows, columns in shapes]
            pieces = self._storage[: sum(sizes)].split(sizes)
            views = [piece.view(nets, *shape) for piece, shape in zip(pieces, shapes, strict=True)]
            self._buffers[states] = _Buffers(*views)
        return self._buffers[states]

    def forward(self, states: Tensor) -> Tensor:
        """Map states to logits and, in the value network's first row, values.

        Args:
            states: [tasks, D, inputs + 1], or [2 * tasks, D, inputs + 1] where the two networks
                of a task see different ones; the last input is 1.

        Returns:
            [tasks, 2, actions, D]; it is overwritten by the next call.
        """
        tasks, (count, width) = self.tasks, states.shape[-2:]
        work = self._buffers_for(count)
        work.states.view(tasks, 2, count, width).copy_(states.reshape(tasks, -1, count, width))
        _tanh_layer(work.states, self.weights[0], work.sums, work.first)
        _tanh_layer(work.first, self.weights[1], work.sums, work.second)
        torch.bmm(self.weights[2], work.second.mT, out=work.outputs)
        return work.outputs.view(tasks, 2, self.actions, count)

    def backward(self, output_gradients: Tensor) -> None:
        """Fill the gradients from the loss's gradients with respect to the last outputs."""
        count = output_gradients.shape[-1]  # [tasks, 2, actions, D]
        work = self._buffers_for(count)
        top = output_gradients.view(2 * self.tasks, self.actions, count)
        first, second, head = self.weight_gradients
        torch.bmm(top, work.second, out=head)
        torch.bmm(top.mT, self.weights[2][..., :HIDDEN], out=work.errors)
        _tanh_backward(work.errors, work.second)
        torch.bmm(work.first.mT, work.errors, out=second)
        torch.bmm(work.errors, self.weights[1][:, :HIDDEN].mT, out=work.sums)
        _tanh_backward(work.sums, work.first)
        torch.bmm(work.states.mT, work.sums, out=first)

    def input_gradients(self, out: Tensor) -> None:
        """Fill `out` [2 * tasks, D, inputs] with gradients of inputs, known after `backward`."""
        errors = self._buffers_for(out.shape[1]).sums
        torch.bmm(errors, self.weights[0][:, : self.inputs].mT, out=out)


class Adam:
    """Adam over the flat parameters, with a state that is plain arrays."""

    def __init__(self, parameters: Parameters, learning_rate: float, epsilon: float) -> None:
        self._parameters, self._gradients = parameters.values, parameters.gradients
        self._learning_rate, self._epsilon = learning_rate, epsilon
        self._state = {
            "parameters": parameters.values,
            "mean": torch.zeros_like(parameters.values),
            "square": torch.zeros_like(parameters.values),
            "steps": torch.zeros(()),
        }

    def step(self) -> None:
        adam(  # the function below torch.optim.Adam: which spends more on itself
            [self._parameters],
            [self._gradients],
            [self._state["mean"]],
            [self._state["square"]],
            [],
            [self._state["steps"]],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._learning_rate,
            weight_decay=0.0,
            eps=self._epsilon,
            maximize=False,
        )

    def state(self) -> dict[str, NDArray[np.float32]]:
        return {name: tensor.numpy().copy() for name, tensor in self._state.items()}

    def restore(self, state: Mapping[str, NDArray[np.float32]]) -> None:
        for name, tensor in self._state.items():
            tensor.copy_(torch.from_numpy(state[name]).view(tensor.shape))


def orthogonal(generator: np.random.Generator, inputs: int, outputs: int, gain: float) -> Tensor:
    """Draw a uniformly random [inputs, outputs] matrix with orthogonal rows or columns."""
    long, short = max(inputs, outputs), min(inputs, outputs)
    basis, triangle = np.linalg.qr(generator.standard_normal((long, short)))
    basis *= np.sign(np.diag(triangle))
    return torch.from_numpy(gain * (basis if inputs >= outputs else basis.T))


def _tanh_layer(inputs: Tensor, weights: Tensor, sums: Tensor, outputs: Tensor) -> None:
    """Write tanh(inputs @ weights) and a last column of ones into `outputs`."""
    # tanh(x) = 2 sigmoid(2x) - 1: torch's sigmoid is three times as fast as its tanh
    torch.baddbmm(sums, inputs, weights, beta=0, alpha=2, out=sums)
    torch.add(_MINUS_ONE, torch.sigmoid_(sums), alpha=2, out=outputs[..., :HIDDEN])
    outputs[..., HIDDEN].fill_(1)


def _tanh_backward(errors: Tensor, outputs: Tensor) -> None:
    """Multiply `errors` by the derivative of tanh, 1 - tanh^2, in place."""
    torch.ops.aten.tanh_backward(errors, outputs[..., :HIDDEN], grad_input=errors)


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


def minibatches(
    experience: Experience,
    order: Integers,
    batch_size: int,
    actions: int,
    state_count: int,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Minibatch]:
    """Yield one epoch in the order of each task's permutation, [tasks, steps]."""
    samples, tasks = experience.shuffled(order, batch_size), len(order)
    widths, rows, pairs = places(samples, actions, state_count)
    count = tasks * int(widths.sum())
    share = normalise(samples.advantages).ravel() / batch_size
    gains = np.maximum(share, 0)
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
    for width in widths.tolist():
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


def places(
    samples: Experience, actions: int, state_count: int
) -> tuple[Integers, Integers, Integers]:
    """Say where samples are summed when all minibatches of an epoch lie one after the other.

    Returns D of each minibatch, and of each sample the places in [tasks, D] and in
    [tasks, actions, D] blocks.
    """
    task = np.arange(len(samples.states))[:, None, None]
    slots, widths = distinct_slots(samples.states, state_count)
    starts = len(task) * (np.cumsum(widths) - widths)  # [batches]
    rows = (starts + task[..., 0] * widths)[..., None] + slots
    pairs = (
        (actions * starts)[:, None] + slots + (task * actions + samples.actions) * widths[:, None]
    )
    return widths, rows.ravel(), pairs.ravel()


def distinct_slots(states: Integers, state_count: int) -> tuple[Integers, Integers]:
    """Number the distinct states of each task's minibatch, and return D of each minibatch."""
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
