"""What a recurrent policy carries while acting, so that a decision reads one step.

Within a trial the state goes on from step to step, and a new trial begins with an empty one. Where
finished trials are handed over (`keep`), the next trial of the task goes on from the last one's
state, as if all were one sequence; a trial that is broken off leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radt.methods.trials import RunningTrials
from radt.model.policy import DecisionTransformer
from radt.model.recurrent import RecurrentTrunk
from radt.model.transformer import Context
from radt.trajectory import Batch, Trajectory


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
