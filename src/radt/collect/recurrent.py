"""A policy and a value network per task, each behind an LSTM of its own, all computed at once.

The networks are those of sb3-contrib's MlpLstmPolicy: separate LSTMs for policy and value with
PyTorch's uniform weights, and behind each the two tanh layers of stable-baselines3's MlpPolicy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from radt.collect import lstm
from radt.collect.lstm import BIASES, GATES, Block, Buffers, Memory, Step, make_buffers, steps_of
from radt.collect.networks import ActorCritics, Parameters, layer_shapes


class RecurrentActorCritics:
    """The recurrent policy and value networks of many tasks, and their gradients."""

    def __init__(
        self,
        generators: Sequence[np.random.Generator],
        inputs: int,
        units: int,
        actions: int,
        rows: int,
        most: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Draw the weights; make room to learn from `rows` samples, to act in up to `most`."""
        self.tasks, self.inputs, self.units = len(generators), inputs, units
        shape = (inputs + BIASES + units, GATES * units)
        shapes = (shape, *layer_shapes(units, actions))
        self.parameters = Parameters(self.tasks, shapes, dtype)
        self.lstms, self.lstm_gradients = (
            blocks[0] for blocks in (self.parameters.blocks, self.parameters.gradient_blocks)
        )
        self.heads = ActorCritics(generators, units, actions, most, dtype, self.parameters)
        bound = units**-0.5
        for generator, own in zip(generators, self.lstms.view(self.tasks, -1), strict=True):
            own.copy_(torch.from_numpy(generator.uniform(-bound, bound, len(own))))
        self._learning = make_buffers(2 * self.tasks, rows, inputs, units, dtype)
        self._acting, self._step = self._room_for(1)

    def _room_for(self, lanes: int) -> tuple[Buffers, Step]:
        """Make room for one step of some lanes."""
        nets, dtype = 2 * self.tasks, self.lstms.dtype
        buffers = make_buffers(nets, lanes, self.inputs, self.units, dtype)
        return buffers, steps_of(buffers, Block(0, 1, lanes))[0]

    def blank(self, lanes: int) -> Memory:
        """Return the memory of LSTMs that have seen nothing."""
        shape = (2 * self.tasks, lanes, self.units)
        return Memory(*(torch.zeros(shape, dtype=self.lstms.dtype) for _ in range(2)))

    def act(self, states: Tensor, keep: Tensor, memory: Memory, after: Memory) -> Tensor:
        """Take one step in some environments of each task.

        Args:
            states: [tasks, envs, inputs].
            keep: [tasks, envs], 0 at the first step of an episode.
            memory: Of the environments, [2 * tasks, envs, units].
            after: Is filled with their memory after the step.

        Returns:
            Logits and values as `ActorCritics.forward` returns them, [tasks, 2, actions, envs].
        """
        if self._acting.inputs.shape[1] != states.shape[1]:
            self._acting, self._step = self._room_for(states.shape[1])
        self._show(self._acting, states)
        lstm.take_step(self.lstms, self._step, self._for_both(keep), memory, after.cells)
        after.hidden.copy_(self._step.outputs)
        return self.heads.forward(self._acting.outputs)

    def forward(
        self, states: Tensor, keep: Tensor, memories: Sequence[Memory], blocks: Sequence[Block]
    ) -> Tensor:
        """Map sequences, [tasks, rows, ...] laid out in blocks, to [tasks, 2, actions, rows]."""
        self._show(self._learning, states)
        lstm.forward(self.lstms, self._learning, blocks, self._for_both(keep), memories)
        return self.heads.forward(self._learning.outputs)

    def backward(self, output_gradients: Tensor, keep: Tensor, blocks: Sequence[Block]) -> None:
        """Fill the gradients from the loss's with respect to the outputs of the last `forward`."""
        self.heads.backward(output_gradients)
        arriving = self.heads.input_gradients(output_gradients.shape[-1])  # [nets, rows, units]
        both = self._for_both(keep)
        lstm.backward(self.lstms, self._learning, blocks, both, arriving, self.lstm_gradients)

    def _show(self, buffers: Buffers, states: Tensor) -> None:
        """Let both LSTMs of a task see its states."""
        rows = buffers.inputs.unflatten(0, (self.tasks, 2))  # [tasks, 2, rows, ...]
        rows[..., : self.inputs] = states.unsqueeze(1)

    def _for_both(self, keep: Tensor) -> Tensor:
        """Repeat what holds for a task for its two networks, [2 * tasks, rows, 1]."""
        return keep.repeat_interleave(2, dim=0).unsqueeze(-1)
