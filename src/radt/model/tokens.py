"""From steps to tokens: one embedding per modality, interleaved or fused.

Interleaved, a step is the tokens `s, R, a, r` (state, return-to-go, action, reward), and the action
is read where the return-to-go stands. Fused, a step is one token. A fused token of the *input* may
not know the action it predicts, so it carries the action and reward of the step before; a fused
token of a *retrieved* chunk, where everything is past, carries its own.

Every token of a step also carries the step's position in its episode. There is no other position,
so a token means the same wherever the window starts. Where an input may hold several episodes, a
token also says how many episodes ago it was; the first token of an episode carries the last action
and reward of the one before it, so that no reward is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from radt.model.encoders import state_encoder
from radt.spaces import TaskSpaces
from radt.trajectory import Batch

Tokenisation = Literal["fused", "interleaved"]


class StepEmbedding(nn.Module):
    """Embeds the modalities of steps; one instance for the input, another for retrieved chunks."""

    def __init__(
        self,
        spaces: TaskSpaces,
        width: int,
        tokens: Tokenisation,
        use_return: bool,
        episodes: int = 1,
        encoder: str | None = None,
        return_bins: int | None = None,
    ) -> None:
        super().__init__()
        self.spaces, self.tokens, self.use_return = spaces, tokens, use_return
        self.state = state_encoder(spaces.state, width, encoder)
        discrete = spaces.action.kind == "discrete"
        size = spaces.action.size
        self.action = nn.Embedding(size + 1, width) if discrete else nn.Linear(size, width)
        self.reward = nn.Linear(1, width)
        self.return_bins = return_bins  # None: a linear layer
        of_return = nn.Embedding(return_bins, width) if return_bins else nn.Linear(1, width)
        self.return_to_go = of_return if use_return else None
        self.time = nn.Embedding(spaces.horizon + 1, width)
        self.episode = nn.Embedding(episodes, width) if episodes > 1 else None
        self.norm = nn.LayerNorm(width)

    @property
    def per_step(self) -> int:
        """How many tokens a step becomes."""
        return 1 if self.tokens == "fused" else 3 + self.use_return

    def forward(self, batch: Batch, past: bool) -> Tensor:
        """Embed steps as tokens [B, L * per_step, width]; `past`: actions are known, not asked."""
        if self.tokens == "fused" and not past:
            batch = self._shifted(batch)
        state, to_go, action, reward = self._vectors(batch)
        parts, time = [state, *to_go, action, reward], self._position(batch)
        if self.tokens == "fused":
            return torch.as_tensor(self.norm(torch.stack(parts).sum(0) + time))
        interleaved = torch.stack([part + time for part in parts], dim=2)  # [B, L, n, width]
        return torch.as_tensor(self.norm(interleaved.flatten(1, 2)))

    def newest(self, latest: Batch, since: Tensor | None = None) -> Tensor:
        """Embed what a decision adds to the step before: [B, per_step, width], the last decides.

        `latest` [B, 1] holds a state, and the action and reward that led to it; `since` [B, 1] says
        at which step these were, None: at the one before in this episode.
        """
        if self.tokens == "fused":
            return torch.as_tensor(self(latest, past=True))
        state, to_go, action, reward = self._vectors(latest)
        now = self._position(latest)
        since = latest.timesteps - 1 if since is None else since
        before = self._position(replace(latest, timesteps=since))
        parts = [action + before, reward + before, *(part + now for part in (state, *to_go))]
        return torch.as_tensor(self.norm(torch.cat(parts, dim=1)))

    def mask(self, batch: Batch) -> Tensor:
        """Return which tokens belong to real steps, [B, L * per_step]."""
        return batch.mask.repeat_interleave(self.per_step, dim=1)

    def at_states(self, hidden: Tensor) -> Tensor:
        """Pick what the trunk made of each state token, [B, L, width]."""
        return hidden[:, :: self.per_step]

    def at_decisions(self, hidden: Tensor) -> Tensor:
        """Pick the tokens that each action is read from, [B, L, width]."""
        return hidden[:, self.deciding :: self.per_step]

    @property
    def deciding(self) -> int:
        """Which token of a step its action is read from."""
        return int(self.tokens == "interleaved" and self.use_return)

    def _shifted(self, batch: Batch) -> Batch:
        actions, rewards = batch.actions.roll(1, dims=1), batch.rewards.roll(1, dims=1)
        actions[:, 0] = self.no_action
        rewards[:, 0] = 0
        return replace(batch, actions=actions, rewards=rewards)

    @property
    def no_action(self) -> int:
        """What stands where no action was taken yet: an id of its own, or the zero vector."""
        return self.spaces.action.size if self.spaces.action.kind == "discrete" else 0

    def _position(self, batch: Batch) -> Tensor:
        """Say when in its episode, and how many episodes ago, each step was: [B, L, width]."""
        position: Tensor = self.time(batch.timesteps.clamp(0, self.spaces.horizon))
        if self.episode is not None:
            ago = episodes_ago(batch).clamp_max(self.episode.num_embeddings - 1)
            position = position + self.episode(ago)
        return position

    def _vectors(self, batch: Batch) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """Embed states, returns-to-go where they are read, actions and rewards, [B, L, width]."""
        rewards = (batch.rewards / self.spaces.reward_scale)[..., None]
        returns = batch.returns_to_go / self.spaces.return_scale  # [B, L]
        if self.return_bins:
            returns = binned(returns, 0.0, 1.0, self.return_bins).long()
        else:
            returns = returns[..., None]
        to_go = [] if self.return_to_go is None else [self.return_to_go(returns)]
        return self.state(batch.states), to_go, self.action(batch.actions), self.reward(rewards)


def episodes_ago(batch: Batch) -> Tensor:
    """Count how many episodes before the last one each step lies, [B, L]; the last is 0."""
    time = batch.timesteps
    begins = (time[:, 1:] <= time[:, :-1]) & batch.mask[:, 1:]  # [B, L - 1]
    number = pad(begins.cumsum(1), (1, 0))  # [B, L]
    return number[:, -1:] - number


def binned(values: Tensor, low: float, high: float, bins: int) -> Tensor:
    """Return the bin of each value, the nearest of `bins` equal marks from `low` to `high`."""
    scaled = (values - low) / (high - low) * (bins - 1)
    return scaled.clamp(0, bins - 1).round()
