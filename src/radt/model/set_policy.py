"""The policy of DPT: the action of a state, given a set of transitions that has no order.

Tokens carry no positions. The set's tokens look at each other; a query looks at the set and at
itself; nobody looks at a query. So the order of the set changes nothing, queries that share a set
do not know of each other, and what was made of a set can be kept while query after query comes in.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from radt.model.attention import Place
from radt.model.encoders import state_encoder
from radt.model.heads import action_head
from radt.model.policy import ModelConfig, check_weights
from radt.model.transformer import Transformer, initialise_as_gpt2
from radt.spaces import TaskSpaces

QUERY, NOTHING, END = 0, 1, 2  # marks: a query, the token every set holds, an unknown next state


@dataclass(frozen=True)
class Transitions:
    """Sets of steps (s, a, s', r), padded to one size."""

    states: Tensor  # [B, M, *state_shape]
    actions: Tensor  # [B, M] int64, or [B, M, action_size] float32
    next_states: Tensor  # [B, M, *state_shape]
    rewards: Tensor  # [B, M]
    ends: Tensor  # [B, M] bool: an episode's last step, whose next state was not stored
    mask: Tensor  # [B, M] bool, True on real transitions

    def rows(self, index: Tensor) -> Transitions:
        return Transitions(*(getattr(self, field.name)[index] for field in fields(self)))

    def to(self, device: torch.device) -> Transitions:
        return Transitions(*(getattr(self, field.name).to(device) for field in fields(self)))


class SetEmbedding(nn.Module):
    """Embeds transitions and queries as one token each."""

    per_step = 1
    always = 1  # tokens beside those of steps: the one that every set holds

    def __init__(self, spaces: TaskSpaces, width: int, encoder: str | None = None) -> None:
        super().__init__()
        self.spaces = spaces
        size, discrete = spaces.action.size, spaces.action.kind == "discrete"
        self.state = state_encoder(spaces.state, width, encoder)
        self.next_state = state_encoder(spaces.state, width, encoder)
        self.action = nn.Embedding(size, width) if discrete else nn.Linear(size, width)
        self.reward = nn.Linear(1, width)
        self.mark = nn.Embedding(3, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, known: Transitions) -> Tensor:
        """Embed sets as [B, 1 + M, width]; the first token is one that every set holds."""
        after = self.next_state(known.next_states)  # [B, M, width]
        after = torch.where(known.ends[..., None], self.mark.weight[END], after)
        rewards = (known.rewards / self.spaces.reward_scale)[..., None]
        parts = [self.state(known.states), self.action(known.actions), self.reward(rewards), after]
        nothing = self.mark.weight[NOTHING].expand(len(known.mask), 1, -1)
        return torch.as_tensor(self.norm(torch.cat([nothing, torch.stack(parts).sum(0)], dim=1)))

    def queries(self, states: Tensor) -> Tensor:
        """Embed query states, [B, Q, width]; a query is a state and no time."""
        return torch.as_tensor(self.norm(self.state(states) + self.mark.weight[QUERY]))


class SetPolicy(nn.Module):
    """Predicts the action of query states from a set of transitions of the same task."""

    def __init__(self, spaces: TaskSpaces, config: ModelConfig, seed: int) -> None:
        super().__init__()
        check_weights(config)
        self.spaces, self.config = spaces, config
        self.embed = SetEmbedding(spaces, config.width, config.encoder)
        self.trunk = Transformer(config.layers, config.width, config.heads, config.dropout)
        self.action_head = action_head(spaces.action, config.action_head)
        self.head = nn.Linear(config.width, self.action_head.size)
        self.drop = nn.Dropout(config.dropout)
        initialise_as_gpt2(self, torch.Generator().manual_seed(seed), config.layers)

    @property
    def device(self) -> torch.device:
        """Where the weights are; what is read is moved there."""
        return self.head.weight.device

    def forward(self, queries: Tensor, known: Transitions) -> Tensor:
        """Return what the action head says of query states, [B, Q, action_head.size]."""
        queries, known = queries.to(self.device), known.to(self.device)
        tokens = torch.cat([self.embed(known), self.embed.queries(queries)], dim=1)
        count = queries.shape[1]
        seen = as_bias(who_sees_whom(known.mask, count))
        return self.act(self.trunk.ending(self.drop(tokens), count, seen))

    def act(self, hidden: Tensor) -> Tensor:
        """Read from query tokens what the action head makes of them."""
        return self.action_head.read(self.head(hidden))


def who_sees_whom(mask: Tensor, queries: int) -> Tensor:
    """Let everyone see the set's real tokens and itself: mask [B, M] -> [B, 1+M+Q, 1+M+Q]."""
    in_set = pad(pad(mask, (1, 0), value=True), (0, queries), value=False)  # [B, 1 + M + Q]
    itself = torch.eye(in_set.shape[1], dtype=torch.bool, device=mask.device)
    return in_set[:, None, :] | itself


def as_bias(mask: Tensor) -> Tensor:
    """Turn a mask into what is added to scores, once for all layers: attention would every time."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -torch.inf)


class HeldSets:
    """Keeps what the trunk made of each row's set, so that a decision costs one query token."""

    def __init__(self, policy: SetPolicy, rows: int, set_size: int) -> None:
        self.policy = policy
        self.caches = policy.trunk.caches(rows, 2 + set_size)  # query, nothing, transitions
        self.size = torch.zeros(rows, dtype=torch.int64, device=policy.device)  # of each row's set

    @torch.no_grad()
    def hold(self, known: Transitions, rows: Tensor) -> None:
        """Read the sets of some rows; real transitions come first."""
        known, rows = known.to(self.policy.device), rows.to(self.policy.device)
        tokens = self.policy.embed(known)  # [B, 1 + M, width]
        column = 1 + torch.arange(tokens.shape[1], device=rows.device).expand(len(rows), -1)
        seen = pad(who_sees_whom(known.mask, queries=0), (1, 0), value=False)
        self.policy.trunk.step(tokens, self.caches, Place(rows, column, seen))
        self.size[rows] = known.mask.sum(1)

    @torch.no_grad()
    def decide(self, states: Tensor, rows: Tensor) -> Tensor:
        """Answer one query state per row, [B, *state_shape] -> [B, size]."""
        states, rows = states.to(self.policy.device), rows.to(self.policy.device)
        held = 2 + self.size[rows]  # [B]
        seen = torch.arange(int(held.max()), device=rows.device) < held[:, None]
        place = Place(rows, torch.zeros_like(rows)[:, None], seen[:, None])
        tokens = self.policy.embed.queries(states[:, None])
        return self.policy.act(self.policy.trunk.step(tokens, self.caches, place)[:, 0])
