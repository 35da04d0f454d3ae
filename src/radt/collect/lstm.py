"""One LSTM per network, all of them at once over many sequences, with gradients by hand.

Networks differ in their weights, so a step is one batched product. Sequences of one length form a
block, one lane each, and all that a backward pass needs stays in buffers that are allocated once.
Weights are one matrix per network: rows for the state, for two constant
inputs (an LSTM has two biases) and for the hidden state; columns for the gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

BIASES = 2
GATES = 4  # entry, forget, exit, candidate: those with a sigmoid first


class Memory(NamedTuple):
    """What LSTMs carry from step to step."""

    hidden: Tensor  # [nets, lanes, units]
    cells: Tensor  # [nets, lanes, units]


@dataclass(frozen=True)
class Block:
    """Sequences of one length: rows that hold `lanes` of them, one step after the other."""

    start: int
    steps: int
    lanes: int

    def cut(self, rows: Tensor) -> tuple[Tensor, ...]:
        """View a buffer [nets, rows, ...] as its steps, [nets, lanes, ...] each."""
        own = rows[:, self.start : self.start + self.steps * self.lanes]
        return tuple(own.unflatten(1, (self.steps, self.lanes)).unbind(1))


@dataclass(frozen=True)
class Buffers:
    """Room for a forward and a backward pass over some rows."""

    inputs: Tensor  # [nets, rows, state + 2 + units]: state, 1, 1, hidden state
    gates: Tensor  # [nets, rows, 4 * units], activated
    before: Tensor  # [nets, rows, units] cells before the step
    squashed: Tensor  # [nets, rows, units] tanh of the cells after it
    outputs: Tensor  # [nets, rows, units + 1] hidden states after it, and 1 for who reads them
    errors: Tensor  # [nets, rows, 4 * units] gradients with respect to gates before activation

    @property
    def units(self) -> int:
        """The width of a hidden state."""
        return self.before.shape[-1]


def make_buffers(
    nets: int, rows: int, inputs: int, units: int, dtype: torch.dtype = torch.float32
) -> Buffers:
    """Allocate buffers and fill in the constants."""
    widths = (inputs + BIASES + units, GATES * units, units, units, units + 1, GATES * units)
    buffers = Buffers(*(torch.zeros(nets, rows, width, dtype=dtype) for width in widths))
    buffers.inputs[..., inputs : inputs + BIASES] = 1
    buffers.outputs[..., -1] = 1
    return buffers


class Step(NamedTuple):
    """Views into the buffers: one step of all lanes, [nets, lanes, ...]."""

    inputs: Tensor
    hidden: Tensor  # the last columns of `inputs`
    before: Tensor
    gates: Tensor
    open: Tensor  # entry, forget and exit
    entry: Tensor
    forget: Tensor
    exit: Tensor
    candidate: Tensor
    squashed: Tensor
    outputs: Tensor
    errors: Tensor
    open_errors: Tensor
    entry_errors: Tensor
    forget_errors: Tensor
    exit_errors: Tensor
    candidate_errors: Tensor


def steps_of(buffers: Buffers, block: Block) -> list[Step]:
    """Cut a block into its steps."""
    units = buffers.units
    views = [buffers.inputs, buffers.inputs[..., -units:], buffers.before, buffers.gates]
    views += [buffers.gates[..., :-units], *buffers.gates.split(units, dim=-1)]
    views += [buffers.squashed, buffers.outputs[..., :-1], buffers.errors]
    views += [buffers.errors[..., :-units], *buffers.errors.split(units, dim=-1)]
    return [Step(*step) for step in zip(*map(block.cut, views), strict=True)]


def forward(
    weights: Tensor,
    buffers: Buffers,
    blocks: Sequence[Block],
    keep: Tensor,
    memories: Sequence[Memory],
) -> None:
    """Fill the buffers from the states that lie in `inputs`.

    Args:
        weights: [nets, state + 2 + units, 4 * units].
        buffers: With the states filled in.
        blocks: Which rows are which sequences.
        keep: [nets, rows, 1], 0 at the first step of an episode: nothing is remembered there.
        memories: Of each block's lanes at their first step.
    """
    for block, memory in zip(blocks, memories, strict=True):
        after = torch.empty_like(memory.cells, memory_format=torch.contiguous_format)
        for step, kept in zip(steps_of(buffers, block), block.cut(keep), strict=True):
            take_step(weights, step, kept, memory, after)
            memory = Memory(step.outputs, after)


def take_step(weights: Tensor, step: Step, keep: Tensor, memory: Memory, after: Tensor) -> None:
    """Compute one step of all lanes; the cells after it go to `after`, the rest to the buffers."""
    torch.mul(memory.hidden, keep, out=step.hidden)
    torch.mul(memory.cells, keep, out=step.before)
    torch.bmm(step.inputs, weights, out=step.gates)
    step.open.sigmoid_()
    step.candidate.tanh_()
    torch.mul(step.forget, step.before, out=after).addcmul_(step.entry, step.candidate)
    torch.tanh(after, out=step.squashed)
    torch.mul(step.exit, step.squashed, out=step.outputs)


def backward(
    weights: Tensor,
    buffers: Buffers,
    blocks: Sequence[Block],
    keep: Tensor,
    output_gradients: Tensor,
    weight_gradients: Tensor,
) -> None:
    """Differentiate the last forward pass through time, down to the first step of each lane.

    Args:
        weights: As in the forward pass, like `buffers`, `blocks` and `keep`.
        buffers: As the forward pass left them.
        blocks: The same.
        keep: The same.
        output_gradients: [nets, rows, units], of a loss with respect to the hidden states.
        weight_gradients: Is filled, [nets, state + 2 + units, 4 * units].
    """
    recurrent = weights[:, -buffers.units :].mT  # [nets, 4 * units, units]
    for block in blocks:
        shape = (len(weights), block.lanes, buffers.units)
        hidden, cells, spare = (torch.zeros(shape, dtype=weights.dtype) for _ in range(3))
        steps = zip(
            steps_of(buffers, block), block.cut(keep), block.cut(output_gradients), strict=True
        )
        for step, kept, arriving in reversed(list(steps)):
            hidden.add_(arriving)
            step_back(recurrent, step, kept, Memory(hidden, cells), spare)
    torch.bmm(buffers.inputs.mT, buffers.errors, out=weight_gradients)


def step_back(
    recurrent: Tensor, step: Step, keep: Tensor, gradients: Memory, spare: Tensor
) -> None:
    """Turn gradients with respect to the memory after a step into those before it, in place."""
    hidden, cells = gradients
    torch.mul(hidden, step.squashed, out=step.exit_errors)
    torch.mul(hidden, step.exit, out=spare)
    cells.add_(torch.ops.aten.tanh_backward(spare, step.squashed, grad_input=spare))
    torch.mul(cells, step.candidate, out=step.entry_errors)
    torch.mul(cells, step.before, out=step.forget_errors)
    torch.mul(cells, step.entry, out=step.candidate_errors)
    errors, candidate = step.open_errors, step.candidate_errors
    torch.ops.aten.sigmoid_backward(errors, step.open, grad_input=errors)
    torch.ops.aten.tanh_backward(candidate, step.candidate, grad_input=candidate)
    cells.mul_(step.forget).mul_(keep)
    torch.bmm(step.errors, recurrent, out=hidden)
    hidden.mul_(keep)
