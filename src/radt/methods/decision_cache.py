"""What a policy has read while acting, kept so that a decision reads only what is new.

`MovingWindow` is the input. A window that moves on at every step has to be read anew at every
decision: its first step, which is gone, is still in what later layers made of the others. One that
stays for a while and then moves on by several steps at once is read anew only then; in between a
decision costs one step. Training asks for every action of a window, the early ones included, so a
policy knows windows of any length.

`HeldChunks` are the chunks that each slot holds between two retrievals. A chunk is twice as long as
a window, so embedding it and making keys and values of it is a good part of a decision. It is often
retrieved again at the next step, or held for a whole trial: only what is new to a slot is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.carried_state import CarriedState
from radt.methods.trials import RunningTrials
from radt.model.policy import DecisionTransformer
from radt.model.recurrent import RecurrentTrunk
from radt.model.stepwise import StepwisePolicy
from radt.model.transformer import Context
from radt.trajectory import Batch

NEVER = -2  # before any decision


def check_window_step(window_step: int) -> None:
    """Refuse a window that would not move on."""
    if window_step < 1:
        raise ValueError(f"window_step must be at least 1, not {window_step}")


class MovingWindow:
    """A policy that reads the last C steps of each slot, or up to `window_step` - 1 fewer."""

    def __init__(
        self, policy: DecisionTransformer, slots: int, context_len: int, window_step: int
    ) -> None:
        self.policy, self.context_len = policy, context_len
        self.window_step = min(window_step, context_len)  # a longer one would leave a gap
        self._stepwise = StepwisePolicy(policy, slots, context_len) if window_step > 1 else None
        self._decided = np.full(slots, NEVER)  # [slots] the step of the last decision,
        self._start = np.zeros(slots, dtype=np.int64)  # where its window began
        self._version = np.zeros(slots, dtype=np.int64)  # and with which context

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Go on from nothing that was read before."""
        self._decided[slots] = NEVER

    @contextmanager
    def read_anew(self) -> Iterator[None]:
        """Read all of every window at once meanwhile, for observers."""
        stepwise, self._stepwise = self._stepwise, None
        try:
            yield
        finally:
            self._stepwise = stepwise
            self._decided[:] = NEVER

    def recent(self, trials: RunningTrials, slots: NDArray[np.int64]) -> Batch:
        """Return what a decision reads, [B, <=C]."""
        return trials.recent(slots, self.context_len, self.window_step)

    def decide(
        self,
        trials: RunningTrials,
        slots: NDArray[np.int64],
        context: Context | None = None,
        version: int | NDArray[np.int64] = 0,
    ) -> Tensor:
        """Predict the next action of each slot, [B, head size].

        `version` [B] changes with what a slot has retrieved: another context is another input.
        """
        if self._stepwise is None:
            given = () if context is None else (context,)  # a policy may know of none
            return self.policy.decide(self.recent(trials, slots), *given).cpu()
        start, step = trials.window_start(slots, self.context_len, self.window_step), trials.step
        same = (self._start[slots] == start) & (self._version[slots] == version)
        goes_on = same & (self._decided[slots] == step[slots] - 1)
        self._start[slots], self._decided[slots], self._version[slots] = start, step[slots], version
        return self._stepwise.decide(
            torch.from_numpy(~goes_on),
            torch.from_numpy(slots),
            lambda some: self.recent(trials, some.numpy()),
            lambda some: trials.latest(some.numpy(), self.policy.embed.no_action),
            context,
        )


Window = MovingWindow | CarriedState


def window_of(
    policy: DecisionTransformer, slots: int, context_len: int, window_step: int
) -> Window:
    """Return what a policy reads of running trials: a window, or a recurrent one all of each."""
    if isinstance(getattr(policy, "trunk", None), RecurrentTrunk):  # others' may have no trunk
        return CarriedState(policy, slots)
    return MovingWindow(policy, slots, context_len, window_step)


class HeldChunks:
    """What a policy made of the chunks in use, one row per slot."""

    def __init__(self, policy: DecisionTransformer, nothing: Batch) -> None:
        """Start with padding in every slot, [slots, k * 2C]."""
        self.policy, self.chunks = policy, nothing
        self.context = self._read(nothing)  # [slots, 1 + k * 2C * per_step]: null chunk, chunks
        self.version = np.zeros(len(nothing), dtype=np.int64)  # [slots] changes with what is held

    def hold(self, chunks: Batch, slots: Tensor) -> None:
        """Put other chunks [B, k * 2C] to use in some slots, [B] int64."""
        new = differ(chunks, self.chunks.rows(slots))  # [B]
        if not bool(new.any()):
            return
        chunks, slots = chunks.rows(new), slots[new]
        self.version[slots.numpy()] += 1
        self.chunks.put(slots, chunks)
        context, slots = self._read(chunks), slots.to(self.policy.device)
        self.context.tokens[slots], self.context.mask[slots] = context.tokens, context.mask
        for layer, read in context.read.items():
            for mine, new_ones in zip(self.context.read[layer], read, strict=True):
                mine[slots] = new_ones

    def drop(self, slots: Tensor) -> None:
        """Hold nothing in some slots: they see the null chunk alone."""
        self.version[slots.numpy()] += self.chunks.mask[slots].any(1).numpy()
        self.chunks.mask[slots] = False
        slots = slots.to(self.policy.device)
        self.context.mask[slots] = False
        self.context.mask[slots, 0] = True

    def show(self, trials: RunningTrials, slots: NDArray[np.int64]) -> None:
        """Say how far trials are before a decision; whole chunks are shown all the time."""

    def of(self, slots: Tensor) -> Context | None:
        """Return what some slots hold, None where all of them hold nothing."""
        if not bool(self.chunks.mask[slots].any()):
            return None
        everyone = torch.arange(len(self.chunks))
        return self.context if torch.equal(slots, everyone) else self.context.rows(slots)

    @torch.no_grad()
    def _read(self, chunks: Batch) -> Context:
        context = self.policy.context(chunks, chunks)
        if context is None:
            raise ValueError("this policy does not read chunks; build it with retrieves=True")
        return self.policy.trunk.read(context)


def differ(one: Batch, other: Batch) -> Tensor:
    """Say which rows of two batches are not the same, [B] bool."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Batch)]
    return torch.stack([(a != b).flatten(1).any(1) for a, b in pairs]).any(0)
