"""One LSTM per network, all of them at once over many sequences, with gradients by hand.

Networks differ in their weights, so a step is one batched product. Sequences run in lanes beside
each other; what a backward pass needs stays on a tape that is allocated and cut into steps once.
Weights are one matrix per network: rows for the state, for two constant inputs (an LSTM has two
biases) and for the hidden state; columns for the gates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

BIASES = 2
GATES = 4  # exit, entry, forget, candidate: sigmoids first, and what changes cells last


class Memory(NamedTuple):
    """What LSTMs carry from step to step."""

    hidden: Tensor  # [nets, lanes, units]
    cells: Tensor  # [nets, lanes, units]


class Step(NamedTuple):
    """One step of all lanes: views into a tape, [nets, lanes, ...]."""

    inputs: Tensor
    hidden: Tensor  # the last columns of `inputs`
    keep: Tensor
    before: Tensor
    gates: Tensor
    open: Tensor  # exit, entry and forget
    exit: Tensor
    entry: Tensor
    forget: Tensor
    candidate: Tensor
    after: Tensor
    squashed: Tensor
    outputs: Tensor
    arriving: Tensor
    errors: Tensor
    exit_errors: Tensor
    cell_errors: Tensor  # [nets, lanes, 3, units]: entry, forget and candidate
    through: Tensor
    kept: Tensor


@dataclass(frozen=True)
class Tape:
    """Room for a forward and a backward pass; a row is a step of a lane, step after step."""

    steps: tuple[Step, ...]
    inputs: Tensor  # [nets, rows, state + 2 + units]: state, 1, 1, hidden state
    keep: Tensor  # [nets, rows, 1], 0 at the first step of an episode: nothing is remembered there
    before: Tensor  # [nets, rows, units] cells before the step, as far as they are kept
    gates: Tensor  # [nets, rows, 4 * units], activated
    after: Tensor  # [nets, rows, units] cells after the step
    squashed: Tensor  # [nets, rows, units] their tanh
    outputs: Tensor  # [nets, rows, units + 1] hidden states, and 1 for the layer that reads them
    arriving: Tensor  # [nets, rows, units] gradients with respect to hidden states
    errors: Tensor  # [nets, rows, 4 * units] gradients with respect to gates before activation
    through: Tensor  # [nets, rows, units] of a hidden state with respect to its cells
    kept: Tensor  # [nets, rows, units] of cells with respect to those of the step before


def make_tape(
    nets: int, steps: int, lanes: int, inputs: int, units: int, dtype: torch.dtype = torch.float32
) -> Tape:
    """Allocate a tape, fill in the constants and cut it into steps."""
    gates = GATES * units
    widths = [inputs + BIASES + units, 1, units, gates, units, units, units + 1, units]
    widths += [gates, units, units]
    rows = [torch.zeros(nets, steps * lanes, width, dtype=dtype) for width in widths]
    seen, keep, before, opened, after, squashed, outputs, arriving, errors, through, kept = rows
    seen[..., inputs : inputs + BIASES] = 1
    outputs[..., -1] = 1
    views = [seen, seen[..., -units:], keep, before, opened, opened[..., :-units]]
    views += [*opened.split(units, dim=-1), after, squashed, outputs[..., :-1], arriving, errors]
    views += [errors[..., :units], errors[..., units:].unflatten(-1, (-1, units)), through, kept]
    cut = (view.unflatten(1, (steps, lanes)).unbind(1) for view in views)
    each = tuple(Step(*parts) for parts in zip(*cut, strict=True))
    return Tape(each, *rows)


def forward(weights: Tensor, steps: Sequence[Step], memories: Mapping[int, Memory]) -> None:
    """Fill a tape from the states and the `keep` that lie on it.

    Args:
        weights: [nets, state + 2 + units, 4 * units].
        steps: Of a tape.
        memories: What lanes start from, by the number of the step; the first must be among them.
    """
    memory = memories[0]
    for number, step in enumerate(steps):
        take_step(weights, step, memories.get(number, memory))
        memory = Memory(step.outputs, step.after)


def take_step(weights: Tensor, step: Step, memory: Memory) -> None:
    """Compute one step of all lanes."""
    torch.mul(memory.hidden, step.keep, out=step.hidden)
    torch.mul(memory.cells, step.keep, out=step.before)
    multiply(step.inputs, weights, step.gates)
    step.open.sigmoid_()
    step.candidate.tanh_()
    torch.mul(step.forget, step.before, out=step.after).addcmul_(step.entry, step.candidate)
    torch.tanh(step.after, out=step.squashed)
    torch.mul(step.exit, step.squashed, out=step.outputs)


def multiply(rows: Tensor, matrices: Tensor, out: Tensor) -> None:
    """Multiply the rows [nets, lanes, ...] of each network by its matrix."""
    if rows.shape[1] == 1:  # only memory counts, and NumPy's BLAS reads it faster than PyTorch's
        np.matmul(rows.numpy(), matrices.numpy(), out=out.numpy())
    else:
        torch.bmm(rows, matrices, out=out)


def backward(weights: Tensor, tape: Tape, starts: Collection[int], gradients: Tensor) -> None:
    """Differentiate the last forward pass through time.

    Args:
        weights: As in the forward pass, [nets, state + 2 + units, 4 * units].
        tape: As it was left, with the gradients that arrive at hidden states.
        starts: The steps at which lanes started from a memory: nothing flows back beyond them.
        gradients: Is filled with those of the weights.
    """
    units = tape.before.shape[-1]
    recurrent = weights[:, -units:].mT  # [nets, 4 * units, units]
    differentiate_steps(tape)
    hidden, cells = (torch.zeros_like(tape.steps[0].before) for _ in range(2))
    for number in reversed(range(len(tape.steps))):
        step_back(recurrent, tape.steps[number], Memory(hidden, cells))
        if number in starts:
            hidden.zero_()
            cells.zero_()
    torch.bmm(tape.inputs.mT, tape.errors, out=gradients)


def differentiate_steps(tape: Tape) -> None:
    """Put what each step multiplies gradients by on the tape: it needs no other step's."""
    units = tape.before.shape[-1]
    exit_, entry, forget, candidate = tape.gates.split(units, dim=-1)
    slopes = tape.errors.split(units, dim=-1)  # in place of the errors that they will become
    torch.ops.aten.sigmoid_backward(tape.squashed, exit_, grad_input=slopes[0])
    torch.ops.aten.sigmoid_backward(candidate, entry, grad_input=slopes[1])
    torch.ops.aten.sigmoid_backward(tape.before, forget, grad_input=slopes[2])
    torch.ops.aten.tanh_backward(entry, candidate, grad_input=slopes[3])
    torch.ops.aten.tanh_backward(exit_, tape.squashed, grad_input=tape.through)
    torch.mul(forget, tape.keep, out=tape.kept)


def step_back(recurrent: Tensor, step: Step, later: Memory) -> None:
    """Turn gradients with respect to the memory after a step into those before it, in place."""
    hidden, cells = later
    hidden.add_(step.arriving)
    cells.addcmul_(hidden, step.through)
    step.exit_errors.mul_(hidden)
    step.cell_errors.mul_(cells.unsqueeze(2))
    cells.mul_(step.kept)
    multiply(step.errors, recurrent, hidden)
    hidden.mul_(step.keep)
