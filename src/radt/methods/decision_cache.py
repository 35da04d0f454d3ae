"""What a policy has read while acting, kept so that a decision reads only what is new.

`MovingWindow` is the input. A window that moves on at every step has to be read anew at every
decision: its first step, which is gone, is still in what later layers made of the others. One that
stays for a while and then moves on by several steps at once is read anew only then; in between a
decision costs one step. Training asks for every action of a window, the early ones included, so a
policy knows windows of any length.

`CarriedState` is what a recurrent policy has instead, so that a decision reads one step. Within a
trial the state goes on from step to step, and a new trial begins with an empty one. Where finished
trials are handed over (`keep`), the next trial of the task goes on from the last one's state, as if
all were one sequence; a trial that is broken off leaves no trace.

`HeldChunks` are the chunks that each slot holds between two retrievals. A chunk is twice as long as
a window, so embedding it and making keys and values of it is a good part of a decision. It is often
retrieved again at the next step, or held for a whole trial: only what is new to a slot is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.model.policy import DecisionTransformer
from radt.model.recurrent import RecurrentTrunk
from radt.model.stepwise import StepwisePolicy
from radt.model.transformer import Context
from radt.trajectory import Batch, Trajectory

NEVER = -2  # before any decision


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


class CarriedState:
    """The state of a recurrent policy in every slot."""

    def __init__(self, policy: DecisionTransformer, slots: int) -> None:
        assert isinstance(policy.trunk, RecurrentTrunk)  # a Transformer has a window instead
        self.policy, self.trunk = policy, policy.trunk
        self._start, self._before, self._after = (self.trunk.blank(slots) for _ in range(3))
        self._read = np.zeros(slots, dtype=np.int64)  # [slots] states of this trial that were read
        self._last: dict[int, Trajectory] = {}  # by slot, the trial that its state goes on from

    def forget(self, slots: NDArray[np.int64]) -> None:
        """Carry nothing from earlier trials."""
        self._start[slots] = 0
        for slot in slots.tolist():
            self._last.pop(slot, None)

    def begin_trials(self, slots: NDArray[np.int64]) -> None:
        """Go on from the last finished trial, or from nothing."""
        self._after[slots] = self._start[slots]
        self._read[slots] = 0

    def keep(self, finished: Sequence[Trajectory]) -> None:
        """Carry what was read of finished trials to the next ones of their slots."""
        for trial in finished:
            self._start[trial.task] = self._after[trial.task]
            self._last[trial.task] = trial

    @torch.no_grad()
    def decide(
        self,
        trials: RunningTrials,
        slots: NDArray[np.int64],
        context: Context | None = None,
        version: int | NDArray[np.int64] = 0,
    ) -> Tensor:
        """Read the newest state of each slot and what led to it; predict its action, [B, size].

        Another context is seen from now on, and nothing is read again: `version` does not matter.
        """
        goes_on = slots[self._read[slots] <= trials.step[slots]]  # asking twice changes nothing
        self._before[goes_on] = self._after[goes_on]
        self._read[slots] = trials.step[slots] + 1
        latest, since = self._latest(trials, slots)
        embed = self.policy.embed
        tokens = embed.newest(latest, since)  # [B, n, width]
        number = torch.arange(tokens.shape[1], device=since.device)
        real = (since >= 0) | (number >= embed.per_step - embed.deciding - 1)  # the first has none
        known = self.policy.as_context(latest, context)
        hidden, self._after[slots] = self.trunk.step(tokens, self._before[slots], real, known)
        return self.policy.act(hidden[:, -1]).cpu()

    def _latest(self, trials: RunningTrials, slots: NDArray[np.int64]) -> tuple[Batch, Tensor]:
        """Return each slot's state with the action and reward before it, and their step, [B, 1].

        Those before a first state are the last of the trial before, or there are none: step -1.
        """
        latest = trials.latest(slots, self.policy.embed.no_action)
        since = latest.timesteps - 1
        for row, slot in enumerate(slots.tolist()):
            if trials.step[slot] == 0 and (last := self._last.get(slot)) is not None:
                latest.actions[row, 0] = torch.as_tensor(last.actions[-1])
                latest.rewards[row, 0] = float(last.rewards[-1])
                since[row] = len(last) - 1
        return latest.to(self.policy.device), since.to(self.policy.device)


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
        assert context is not None  # of a policy that was built with retrieves=True
        return self.policy.trunk.read(context)


def differ(one: Batch, other: Batch) -> Tensor:
    """Say which rows of two batches are not the same, [B] bool."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Batch)]
    return torch.stack([(a != b).flatten(1).any(1) for a, b in pairs]).any(0)
