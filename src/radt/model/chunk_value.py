"""V(s, chunk): the return that is expected from a state on when a chunk is read there.

The state asks a few questions, each of which attends once to the chunk's tokens, and a small
network makes one number of the answers. The first token of every chunk is that of no chunk, so
that V(s, nothing) is the baseline, and nothing has to be found in a chunk that does not help.

Tokens are keys and values at once. Layers between would be linear, as the questions and the first
layer of the judge are; so a chunk that is kept is its tokens, whatever state asks.

A state is what the agent knows of it: where it is, what it did last, and what its trial has earned
so far, which tells what cannot be seen, such as a key it holds. No return-to-go is among that.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from radt.model.losses import return_loss
from radt.model.tokens import StepEmbedding
from radt.model.transformer import Context, initialise_as_gpt2
from radt.spaces import TaskSpaces
from radt.trajectory import Batch

WIDTH, QUESTIONS = 32, 2  # small: 20 slots judge 1,000 stored chunks at each decision


class ChunkValue(nn.Module):
    """Predicts returns-to-go from states and the chunks that are read there."""

    def __init__(self, spaces: TaskSpaces, seed: int, encoder: str | None = None) -> None:
        super().__init__()
        self.spaces = spaces
        self.state = StepEmbedding(spaces, WIDTH, "fused", True, 1, encoder)
        self.chunk = StepEmbedding(spaces, WIDTH, "fused", True, 1, encoder)
        self.no_chunk = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.ask = nn.Linear(WIDTH, QUESTIONS * WIDTH)
        self.judge = nn.Sequential(nn.Linear((1 + QUESTIONS) * WIDTH, 2 * WIDTH), nn.GELU())
        self.head = nn.Linear(2 * WIDTH, 1)
        initialise_as_gpt2(self, torch.Generator().manual_seed(seed), layers=1)

    @torch.no_grad()
    def begin_at(self, returns: Tensor) -> None:
        """Expect the mean of some returns-to-go from everything: to get there takes long."""
        self.head.bias.fill_(returns.mean() / self.spaces.return_scale)

    def read(self, chunks: Batch) -> Context:
        """Embed chunks [N, M] behind the token of no chunk, [N, 1 + M, WIDTH]."""
        chunks = chunks.to(self.no_chunk.device)
        tokens = self.chunk(chunks, past=True)
        nothing = self.no_chunk.expand(len(tokens), 1, -1)
        return Context(torch.cat([nothing, tokens], dim=1), pad(chunks.mask, (1, 0), value=True))

    def now(self, latest: Batch, aimed_at: Tensor) -> Tensor:
        """Embed the state of each running trial, [B, 1], of whose aim [B] a part is left."""
        latest, aimed_at = latest.to(self.no_chunk.device), aimed_at.to(self.no_chunk.device)
        return self.state.newest(_so_far(latest, aimed_at))

    def forward(self, states: Tensor, chunks: Context) -> Tensor:
        """Judge what embedded states [N, L, WIDTH] read: scaled returns-to-go, [N, L]."""
        questions = self.ask(states).unflatten(2, (QUESTIONS, WIDTH)).flatten(1, 2)
        tokens = chunks.tokens[:, None]
        answers = scaled_dot_product_attention(
            questions[:, None], tokens, tokens, attn_mask=chunks.mask[:, None, None]
        )  # [N, 1, L * QUESTIONS, WIDTH]
        found = answers[:, 0].unflatten(1, (-1, QUESTIONS)).flatten(2)
        return torch.as_tensor(self.head(self.judge(torch.cat([states, found], dim=2)))[..., 0])

    def loss(self, recent: Batch, targets: Tensor, earned: Tensor, chunks: Batch) -> Tensor:
        """Compare V at targets [B, L] with what followed, in episodes that earned so much, [B]."""
        device = self.no_chunk.device
        recent, targets, earned = recent.to(device), targets.to(device), earned.to(device)
        states = self.state(_so_far(recent, earned), past=False)
        followed = recent.returns_to_go[targets] / self.spaces.return_scale
        return return_loss(self(states, self.read(chunks))[targets][:, None], followed)


def _so_far(steps: Batch, total: Tensor) -> Batch:
    """Put what was earned before each step in the place of what is left of a total, [B]."""
    return replace(steps, returns_to_go=total[:, None] - steps.returns_to_go)
