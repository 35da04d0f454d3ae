"""What a method costs: weights, context, tokens and FLOPs of a decision, targets of an update.

Nothing is taken from a formula of the architecture: a method rolls out one trial with random
states and a memory full of random trials, and what its networks and its search multiply is counted.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from radt.data.reader import Dataset
from radt.methods.method import Actor, Method
from radt.methods.transforms import returns_decide
from radt.methods.trials import RunningTrials
from radt.spaces import TaskSpaces
from radt.trajectory import Trajectory

REMEMBERED = 5  # finished trials behind the one that is counted
DRAWN_BATCHES = 8


@dataclass(frozen=True)
class Cost:
    """What one method costs, per decision of one slot and per update of one batch."""

    parameters: int  # of the method's own networks
    frozen_parameters: int  # of a public model that embeds for it, known by name
    input_steps: int  # the longest input of the policy
    retrieved_steps: int  # what it reads beside that
    tokens_per_decision: int  # the tokens of both
    flops_per_decision: float  # two for each multiply-add, mean over a trial and its remembering
    targets_per_update: float | None  # actions that a batch asks for; None: no data were given


def measure_cost(
    method: Method, dataset: Dataset | None = None, slots: int = 1, batch_size: int = 64
) -> Cost:
    """Measure a method; `dataset` is where batches of `batch_size` are drawn to count targets."""
    context = method.context
    return Cost(
        parameters=count_parameters(method),
        frozen_parameters=getattr(_embedder(method), "frozen_parameters", 0),
        input_steps=context.input_steps,
        retrieved_steps=context.retrieved_steps,
        tokens_per_decision=tokens_per_decision(method),
        flops_per_decision=flops_per_decision(method, slots),
        targets_per_update=None
        if dataset is None
        else targets_per_update(method, dataset, batch_size),
    )


def count_parameters(method: Method) -> int:
    """Count the weights of all networks."""
    return sum(
        weight.numel() for network in method.networks.values() for weight in network.parameters()
    )


def tokens_per_decision(method: Method) -> int:
    """Count the tokens of a full context, what was retrieved included."""
    policy: Any = method.networks.get("policy")
    if policy is None:
        return 0
    tokens = method.context.input_steps * tokens_per_step(policy)
    tokens += getattr(getattr(policy, "embed", None), "always", 0)
    if method.context.retrieved_steps:
        tokens += method.context.retrieved_steps * tokens_per_step(policy)
    return int(tokens)


def tokens_per_step(network: nn.Module) -> int:
    """Return how many tokens a network makes of a step; one, where it does not say."""
    return int(getattr(getattr(network, "embed", None), "per_step", 1))


def flops_per_decision(method: Method, slots: int = 1) -> float:
    """Count what a decision multiplies, on average over one trial with a filled memory.

    To the trial belongs that it is remembered in the end: keys are embedded then.
    """
    rng = np.random.default_rng(0)
    *past, finished = [
        [random_trial(method.spaces, slot, episode, rng) for slot in range(slots)]
        for episode in range(REMEMBERED + 1)
    ]
    counter = FlopCounterMode(display=False, custom_mapping=CPU_KERNELS)
    everyone = np.arange(slots)
    # An embedder computes what it could look up: a new life has new experience.
    with getattr(_embedder(method), "uncached", nullcontext)():
        actor, trials = warm_actor(method, slots, past)
        with counter:
            for _ in range(method.spaces.horizon):
                trials.see(everyone, random_states(method.spaces, slots, rng))
                actor.decide(trials, everyone)
                trials.record(everyone, *random_answers(method.spaces, slots, rng))
            actor.remember(finished)  # not the trial itself: without rewards it may not be kept
    return counter.get_total_flops() / (slots * method.spaces.horizon)


def targets_per_update(method: Method, dataset: Dataset, batch_size: int) -> float:
    """Count the actions that the loss of a batch compares, on average over some batches.

    How many they are depends on windows, not on what is in them, so one task is enough; all are
    needed where a method's options say otherwise.
    """
    drawing = copy.copy(method)  # what the method itself was prepared with stays as it is
    by_content = returns_decide(getattr(method, "options", None))
    drawing.prepare(dataset if by_content else dataset.select(dataset.tasks[:1]))
    counts = [
        count_targets(drawing.draw(batch_size, np.random.default_rng(seed)))
        for seed in range(DRAWN_BATCHES)
    ]
    return float(np.mean(counts))


def count_targets(examples: Any) -> int:
    """Count the actions that a batch of examples asks for."""
    return int(target_steps(examples).sum())


def target_steps(examples: Any) -> Tensor:
    """Mark the steps whose actions are asked for, [B, L] bool: those named, else every real one."""
    targets: Tensor | None = getattr(examples, "targets", None)
    mask: Tensor = examples.recent.mask
    return mask if targets is None else targets


def warm_actor(
    method: Method, slots: int, past: Sequence[Sequence[Trajectory]] = ()
) -> tuple[Actor, RunningTrials]:
    """Put a method to work in the middle of a task: a trial begins, others lie behind it."""
    everyone = np.arange(slots)
    actor, trials = method.actor(slots), RunningTrials(method.spaces, slots)
    actor.forget(everyone)
    trials.begin_task(everyone)
    for finished in past:
        actor.remember(finished)
        trials.trial += 1
    trials.begin_trial(everyone, np.full(slots, method.spaces.return_scale, np.float32))
    actor.begin_trials(everyone)
    return actor, trials


def random_trial(
    spaces: TaskSpaces, slot: int, episode: int, rng: np.random.Generator
) -> Trajectory:
    """Make up a finished trial in which every step is rewarded, so that any memory keeps it."""
    actions, rewards = random_answers(spaces, spaces.horizon, rng)
    states = random_states(spaces, spaces.horizon, rng)
    return Trajectory(states, actions, rewards + 1, slot, episode)


def random_states(spaces: TaskSpaces, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draw states of any kind, [count, *state_shape]."""
    state = spaces.state
    if state.kind == "discrete":
        high = np.reshape(state.bins, state.shape)
        return rng.integers(high, size=(count, *state.shape)).astype(state.dtype)
    if state.kind == "image":
        return rng.integers(256, size=(count, *state.shape)).astype(state.dtype)
    return rng.normal(size=(count, *state.shape)).astype(state.dtype)


def random_answers(
    spaces: TaskSpaces, count: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Draw actions [count, *action_shape], and rewards [count] of which there are none."""
    actions = spaces.action.sample(count, rng).astype(spaces.action.dtype)
    return actions, np.zeros(count, np.float32)


def _embedder(method: Method) -> object:
    return getattr(method, "embedder", None)


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Count attention's two products; of a causal one the whole square, as PyTorch does."""
    return int(sdpa_flop_count(query, key, value))


def _lstm_flops(inputs: Any, of_input: Any, of_hidden: Any, *_: Any, **__: Any) -> int:
    """Count an LSTM's two products of each token, from shapes."""
    steps, rows, _ = inputs
    return int(2 * steps * rows * (prod(of_input) + prod(of_hidden)))


CPU_KERNELS = {  # whose count PyTorch does not know
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten.mkldnn_rnn_layer: _lstm_flops,
}
