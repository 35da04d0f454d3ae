"""One LSTM per network, all of them at once over many sequences, with gradients by hand.

Networks differ in their weights, so a step is one batched product. Sequences run in lanes beside
each other; what a backward pass needs stays on a tape that is allocated and cut into steps once.
Weights are one matrix per network: rows for the state, for two constant inputs (an LSTM has two
biases) and for the hidden state; columns for the gates.

The policy and value networks of a task are those of sb3-contrib's MlpLstmPolicy: separate LSTMs
with PyTorch's uniform weights, and behind each the two tanh layers of stable-baselines3's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from radt.collect.networks import ActorCritics, Parameters, layer_shapes

BIASES = 2
GATES = 4  # exit, entry, forget, candidate: sigmoids first, and what changes cells last


class LSTMState(NamedTuple):
    """What LSTMs carry from step to step."""

    hidden: Tensor  # [nets, lanes, units]
    cells: Tensor  # [nets, lanes, units]


class Step(NamedTuple):
    """One step of all lanes, or all steps one after the other: views into a tape."""

    inputs: Tensor  # [nets, rows, state + 2 + units]: state, 1, 1, hidden state
    hidden: Tensor  # [nets, rows, units], the last columns of `inputs`
    keep: Tensor  # [nets, rows, 1], 0 at the first step of an episode: nothing is remembered there
    before: Tensor  # [nets, rows, units] cells before the step, as far as they are kept
    gates: Tensor  # [nets, rows, 4 * units], activated
    open: Tensor  # exit, entry and forget
    exit: Tensor
    entry: Tensor
    forget: Tensor
    candidate: Tensor
    after: Tensor  # [nets, rows, units] cells after the step
    squashed: Tensor  # [nets, rows, units] their tanh
    outputs: Tensor  # [nets, rows, units] hidden states
    arriving: Tensor  # [nets, rows, units] gradients with respect to hidden states
    errors: Tensor  # [nets, rows, 4 * units] gradients with respect to gates before activation
    exit_errors: Tensor
    cell_errors: Tensor  # [nets, rows, 3, units]: entry, forget and candidate
    through: Tensor  # [nets, rows, units] of a hidden state with respect to its cells
    kept: Tensor  # [nets, rows, units] of cells with respect to those of the step before


@dataclass(frozen=True)
class Tape:
    """Room for a forward and a backward pass; a row is a step of a lane, step after step."""

    rows: Step  # all of them
    steps: tuple[Step, ...]
    readable: Tensor  # [nets, rows, units + 1] hidden states, and 1 for the layer that reads them


def make_tape(
    nets: int, steps: int, lanes: int, inputs: int, units: int, dtype: torch.dtype = torch.float32
) -> Tape:
    """Allocate a tape, fill in the constants and cut it into steps."""
    gates = GATES * units
    widths = [inputs + BIASES + units, 1, units, gates, units, units, units + 1, units]
    widths += [gates, units, units]
    room = [torch.zeros(nets, steps * lanes, width, dtype=dtype) for width in widths]
    seen, keep, before, opened, after, squashed, readable, arriving, errors, through, kept = room
    seen[..., inputs : inputs + BIASES] = 1
    readable[..., -1] = 1
    views = [seen, seen[..., -units:], keep, before, opened, opened[..., :-units]]
    views += [*opened.split(units, dim=-1), after, squashed, readable[..., :-1], arriving, errors]
    views += [errors[..., :units], errors[..., units:].unflatten(-1, (-1, units)), through, kept]
    cut = (view.unflatten(1, (steps, lanes)).unbind(1) for view in views)
    each = tuple(Step(*parts) for parts in zip(*cut, strict=True))
    return Tape(Step(*views), each, readable)


def forward_steps(weights: Tensor, steps: Sequence[Step], carries: Mapping[int, LSTMState]) -> None:
    """Fill a tape from the states and the `keep` that lie on it.

    Args:
        weights: [nets, state + 2 + units, 4 * units].
        steps: Of a tape.
        carries: What lanes start from, by the number of the step; the first must be among them.
    """
    carry = carries[0]
    for number, step in enumerate(steps):
        take_step(weights, step, carries.get(number, carry))
        carry = LSTMState(step.outputs, step.after)


def take_step(weights: Tensor, step: Step, carry: LSTMState) -> None:
    """Compute one step of all lanes."""
    torch.mul(carry.hidden, step.keep, out=step.hidden)
    torch.mul(carry.cells, step.keep, out=step.before)
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


def backward_steps(weights: Tensor, tape: Tape, starts: Collection[int], gradients: Tensor) -> None:
    """Differentiate the last forward pass through time.

    Args:
        weights: As in the forward pass, [nets, state + 2 + units, 4 * units].
        tape: As it was left, with the gradients that arrive at hidden states.
        starts: The steps at which lanes started from a given state: nothing flows back beyond.
        gradients: Is filled with those of the weights.
    """
    units = tape.rows.before.shape[-1]
    recurrent = weights[:, -units:].mT  # [nets, 4 * units, units]
    differentiate_steps(tape.rows)
    hidden, cells = (torch.zeros_like(tape.steps[0].before) for _ in range(2))
    for number in reversed(range(len(tape.steps))):
        step_back(recurrent, tape.steps[number], LSTMState(hidden, cells))
        if number in starts:
            hidden.zero_()
            cells.zero_()
    torch.bmm(tape.rows.inputs.mT, tape.rows.errors, out=gradients)


def differentiate_steps(rows: Step) -> None:
    """Put what each step multiplies gradients by on the tape: it needs no other step's."""
    slopes = rows.errors.chunk(GATES, dim=-1)  # in place of the errors that they will become
    torch.ops.aten.sigmoid_backward(rows.squashed, rows.exit, grad_input=slopes[0])
    torch.ops.aten.sigmoid_backward(rows.candidate, rows.entry, grad_input=slopes[1])
    torch.ops.aten.sigmoid_backward(rows.before, rows.forget, grad_input=slopes[2])
    torch.ops.aten.tanh_backward(rows.entry, rows.candidate, grad_input=slopes[3])
    torch.ops.aten.tanh_backward(rows.exit, rows.squashed, grad_input=rows.through)
    torch.mul(rows.forget, rows.keep, out=rows.kept)


def step_back(recurrent: Tensor, step: Step, later: LSTMState) -> None:
    """Turn gradients with respect to the state after a step into those before it, in place."""
    hidden, cells = later
    hidden.add_(step.arriving)
    cells.addcmul_(hidden, step.through)
    step.exit_errors.mul_(hidden)
    step.cell_errors.mul_(cells.unsqueeze(2))
    cells.mul_(step.kept)
    multiply(step.errors, recurrent, hidden)
    hidden.mul_(step.keep)


class RecurrentActorCritics:
    """The recurrent policy and value networks of many tasks, and their gradients."""

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        inputs: int,
        units: int,
        actions: int,
        shape: tuple[int, int],
        most: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Draw the weights.

        Args:
            generators: One per task.
            inputs: Numbers in a state.
            units: Of each LSTM.
            actions: To choose among.
            shape: Steps and lanes of the sequences that are learned from.
            most: States that are ever mapped at once.
            dtype: Of the numbers.
        """
        self.tasks, self.inputs, self.units = len(generators), inputs, units
        lstms = (inputs + BIASES + units, GATES * units)
        self.parameters = Parameters(self.tasks, (lstms, *layer_shapes(units, actions)), dtype)
        self.lstms, self.lstm_gradients = (
            blocks[0] for blocks in (self.parameters.blocks, self.parameters.gradient_blocks)
        )
        self.heads = ActorCritics(generators, units, actions, most, dtype, self.parameters)
        bound = units**-0.5
        for generator, own in zip(generators, self.lstms.view(self.tasks, -1), strict=True):
            own.copy_(torch.from_numpy(generator.uniform(-bound, bound, len(own))))
        self._learning, self._acting = self._tape(*shape), self._tape(1, 1)

    def _tape(self, steps: int, lanes: int) -> Tape:
        sizes = (self.inputs, self.units)
        return make_tape(2 * self.tasks, steps, lanes, *sizes, self.lstms.dtype)

    def blank(self, lanes: int) -> LSTMState:
        """Return the state of LSTMs that have seen nothing."""
        shape = (2 * self.tasks, lanes, self.units)
        return LSTMState(*(torch.zeros(shape, dtype=self.lstms.dtype) for _ in range(2)))

    def act(self, states: Tensor, keep: Tensor, carry: LSTMState) -> tuple[Tensor, LSTMState]:
        """Take one step in some environments of each task.

        Args:
            states: [tasks, envs, inputs].
            keep: [tasks, envs], 0 at the first step of an episode.
            carry: Of the environments, [2 * tasks, envs, units].

        Returns:
            Logits and values as `ActorCritics.forward` returns them, [tasks, 2, actions, envs], and
            the state after the step; both are overwritten by the next call.
        """
        if self._acting.readable.shape[1] != states.shape[1]:
            self._acting = self._tape(1, states.shape[1])
        self._show(self._acting.rows, states, keep)
        (step,) = self._acting.steps
        take_step(self.lstms, step, carry)
        return self.heads.forward(self._acting.readable), LSTMState(step.outputs, step.after)

    def forward(self, states: Tensor, keep: Tensor, carries: Mapping[int, LSTMState]) -> Tensor:
        """Map sequences, step after step in [tasks, rows, ...], to [tasks, 2, actions, rows].

        `carries` says from what the lanes start, by the number of the step.
        """
        self._show(self._learning.rows, states, keep)
        forward_steps(self.lstms, self._learning.steps, carries)
        return self.heads.forward(self._learning.readable)

    def backward(self, output_gradients: Tensor, starts: Collection[int]) -> None:
        """Fill the gradients from the loss's with respect to the outputs of the last `forward`."""
        self.heads.backward(output_gradients)
        self.heads.input_gradients(out=self._learning.rows.arriving)
        backward_steps(self.lstms, self._learning, starts, self.lstm_gradients)

    def _show(self, rows: Step, states: Tensor, keep: Tensor) -> None:
        """Let both LSTMs of a task see its states."""
        seen, kept = (part.unflatten(0, (self.tasks, 2)) for part in (rows.inputs, rows.keep))
        seen[..., : self.inputs] = states.unsqueeze(1)  # [tasks, 2, rows, ...]
        kept[..., 0] = keep.unsqueeze(1)
