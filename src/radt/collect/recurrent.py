"""A policy and a value network per task, each behind an LSTM of its own, all computed at once.

The networks are those of sb3-contrib's MlpLstmPolicy: separate LSTMs for policy and value with
PyTorch's uniform weights, and behind each the two tanh layers of stable-baselines3's MlpPolicy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from radt.collect import lstm
from radt.collect.lstm import BIASES, GATES, Memory, Tape, make_tape
from radt.collect.networks import ActorCritics, Parameters, layer_shapes


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

    def blank(self, lanes: int) -> Memory:
        """Return the memory of LSTMs that have seen nothing."""
        shape = (2 * self.tasks, lanes, self.units)
        return Memory(*(torch.zeros(shape, dtype=self.lstms.dtype) for _ in range(2)))

    def act(self, states: Tensor, keep: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Take one step in some environments of each task.

        Args:
            states: [tasks, envs, inputs].
            keep: [tasks, envs], 0 at the first step of an episode.
            memory: Of the environments, [2 * tasks, envs, units].

        Returns:
            Logits and values as `ActorCritics.forward` returns them, [tasks, 2, actions, envs], and
            the memory after the step; both are overwritten by the next call.
        """
        if self._acting.inputs.shape[1] != states.shape[1]:
            self._acting = self._tape(1, states.shape[1])
        self._show(self._acting, states, keep)
        (step,) = self._acting.steps
        lstm.take_step(self.lstms, step, memory)
        return self.heads.forward(self._acting.outputs), Memory(step.outputs, step.after)

    def forward(self, states: Tensor, keep: Tensor, memories: Mapping[int, Memory]) -> Tensor:
        """Map sequences, step after step in [tasks, rows, ...], to [tasks, 2, actions, rows].

        `memories` says from what the lanes start, by the number of the step.
        """
        self._show(self._learning, states, keep)
        lstm.forward(self.lstms, self._learning.steps, memories)
        return self.heads.forward(self._learning.outputs)

    def backward(self, output_gradients: Tensor, starts: Collection[int]) -> None:
        """Fill the gradients from the loss's with respect to the outputs of the last `forward`."""
        self.heads.backward(output_gradients)
        self.heads.input_gradients(out=self._learning.arriving)
        lstm.backward(self.lstms, self._learning, starts, self.lstm_gradients)

    def _show(self, tape: Tape, states: Tensor, keep: Tensor) -> None:
        """Let both LSTMs of a task see its states."""
        seen, kept = (part.unflatten(0, (self.tasks, 2)) for part in (tape.inputs, tape.keep))
        seen[..., : self.inputs] = states.unsqueeze(1)  # [tasks, 2, rows, ...]
        kept[..., 0] = keep.unsqueeze(1)
