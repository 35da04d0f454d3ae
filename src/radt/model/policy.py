"""The Decision Transformer (Eq. 1), with cross-attention to what was retrieved (Eq. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from radt.model.heads import HeadName, action_head
from radt.model.losses import return_loss
from radt.model.recurrent import RECURRENCES, RecurrentTrunk
from radt.model.tokens import StepEmbedding, Tokenisation
from radt.model.transformer import Context, Transformer, initialise_as_gpt2
from radt.room import check_room
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


@dataclass(frozen=True)
class ModelConfig:
    """The size of a Decision Transformer and how it reads a step."""

    layers: int = 3  # of the backbone
    width: int = 64  # of each layer
    heads: int = 4  # of each attention
    dropout: float = 0.0  # of embeddings, attention and layers
    tokens: Tokenisation = "fused"  # a token a step, or one for each of its parts
    return_to_go: bool = True  # whether a policy is told the return that it aims at
    return_bins: int | None = None  # bins that returns-to-go enter by; None: linearly
    return_loss: float = 0.0  # weight of predicting returns-to-go from states, as the authors do
    cross_layers: tuple[int, ...] | None = None  # with cross-attention; None: all, as the paper
    chunk_embedding: Literal["separate", "shared", "detached"] = "separate"  # beside the input's
    chunk_encoder: int = 0  # layers that read a retrieved chunk both ways before it is attended to
    encoder: str | None = None  # what reads states; None: the encoder for their kind
    action_head: HeadName = "mse"  # what predicts continuous actions; the paper's: mse
    backbone: Literal["transformer", "lstm", "mingru"] = "transformer"  # what reads step after step

    @property
    def recurrent(self) -> bool:
        """Whether what was read is in a state."""
        return self.backbone != "transformer"

    def __post_init__(self) -> None:
        if self.layers < 1 or self.heads < 1 or self.width < 1 or self.width % self.heads:
            raise ValueError(
                f"a model needs layers and a width that its heads share evenly, not "
                f"layers={self.layers}, width={self.width}, heads={self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), not {self.dropout}")
        if self.return_bins is not None and self.return_bins < 2:
            raise ValueError(f"return_bins must be 2 or more, not {self.return_bins}; null: linear")
        if self.return_loss < 0 or self.chunk_encoder < 0:
            raise ValueError(
                f"return_loss and chunk_encoder must be 0 or more, not {self.return_loss} and "
                f"{self.chunk_encoder}"
            )
        if self.return_loss and self.return_to_go and self.tokens == "fused":
            raise ValueError(
                "return_loss predicts the return-to-go where the state stands, but a fused token "
                "holds it; choose tokens=interleaved or return_to_go=false"
            )


def check_weights(config: ModelConfig) -> None:
    """Refuse a model whose weights would not fit into memory before any of them is made."""
    layers, width = config.layers + config.chunk_encoder, config.width
    numbers = 12 * layers * width**2 + width * (config.return_bins or 1)  # 12 matrices a layer
    check_room(f"a model of layers={layers}, width={width}", 4 * numbers, "choose a smaller one")


def build_trunk(config: ModelConfig, cross_layers: Sequence[int]) -> Transformer | RecurrentTrunk:
    """Build the backbone that a config names."""
    sizes = (config.layers, config.width, config.heads, config.dropout, cross_layers)
    if config.recurrent:
        return RecurrentTrunk(RECURRENCES[config.backbone], *sizes)
    return Transformer(*sizes)


class DecisionTransformer(nn.Module):
    """Predicts the action of every step of a window from the steps up to it."""

    def __init__(
        self,
        spaces: TaskSpaces,
        config: ModelConfig,
        seed: int,
        retrieves: bool = False,
        episodes: int = 1,
    ) -> None:
        """Build a model whose input holds up to so many episodes."""
        super().__init__()
        check_weights(config)
        self.spaces, self.config = spaces, config
        every_layer = tuple(range(config.layers))
        asked = every_layer if config.cross_layers is None else config.cross_layers
        self.embed = StepEmbedding(
            *(spaces, config.width, config.tokens, config.return_to_go, episodes),
            *(config.encoder, config.return_bins),
        )
        self.trunk = build_trunk(config, asked if retrieves else ())
        self.action_head = action_head(spaces.action, config.action_head)
        self.head = nn.Linear(config.width, self.action_head.size)
        self.retrieves = retrieves
        self.embed_retrieved: StepEmbedding | None = None  # of its own; else the input's
        self.chunk_encoder: Transformer | None = None
        if retrieves:
            if config.chunk_embedding == "separate":
                self.embed_retrieved = StepEmbedding(
                    *(spaces, config.width, config.tokens, config.return_to_go, 1),
                    *(config.encoder, config.return_bins),
                )
            if config.chunk_encoder:
                self.chunk_encoder = Transformer(
                    config.chunk_encoder, config.width, config.heads, config.dropout
                )
            self.null_chunk = nn.Parameter(torch.zeros(1, 1, config.width))
        self.return_head: nn.Linear | None = None
        if config.return_loss:
            self.return_head = nn.Linear(config.width, config.return_bins or 1)
        self.drop = nn.Dropout(config.dropout)
        generator = torch.Generator().manual_seed(seed)
        initialise_as_gpt2(self, generator, config.layers)
        if isinstance(self.trunk, RecurrentTrunk):
            self.trunk.initialise(generator)
        if retrieves:
            nn.init.normal_(self.null_chunk, std=0.02, generator=generator)

    @property
    def device(self) -> torch.device:
        """Where the weights are; batches are moved there by themselves."""
        return self.head.weight.device

    def forward(self, recent: Batch, retrieved: Batch | Context | None = None) -> Tensor:
        """Return what the action head says of every step, [B, L, action_head.size].

        What was retrieved may come as it is, or as what `context` made of it before.
        """
        hidden = self.hidden(recent, retrieved)
        return self.act(self.embed.at_decisions(hidden))

    def loss(
        self,
        recent: Batch,
        targets: Tensor,
        valid: Tensor | None,
        retrieved: Batch | None = None,
    ) -> Tensor:
        """Compare predicted actions, and returns where they have a weight, at targets [B, L]."""
        recent = recent.to(self.device)
        hidden = self.hidden(recent, retrieved)
        predicted = self.act(self.embed.at_decisions(hidden))
        loss = self.action_head.loss(predicted, recent.actions, targets, valid)
        if self.return_head is None:
            return loss
        steps = targets.to(self.device)
        of_returns = self.return_head(self.embed.at_states(hidden)[steps])  # [N, bins or 1]
        aimed = recent.returns_to_go[steps] / self.spaces.return_scale
        return loss + self.config.return_loss * return_loss(of_returns, aimed)

    @torch.no_grad()
    def row_losses(
        self, recent: Batch, targets: Tensor, valid: Tensor | None, retrieved: Batch
    ) -> Tensor:
        """Compare predicted actions at targets [B, L] row by row, without dropout, [B]."""
        trains = self.training
        predicted = self.eval()(recent, retrieved)
        self.train(trains)
        rows = torch.arange(len(recent)).split(1)
        valids = [None if valid is None else valid[row] for row in rows]
        losses = [
            self.action_head.loss(predicted[row], recent.actions[row], targets[row], which)
            for row, which in zip(rows, valids, strict=True)
        ]
        return torch.stack(losses)

    def hidden(self, recent: Batch, retrieved: Batch | Context | None = None) -> Tensor:
        """Return the last hidden state of every token, [B, L * per_step, width]."""
        recent = recent.to(self.device)
        tokens = self.drop(self.embed(recent, past=False))
        return torch.as_tensor(self.trunk(tokens, self.as_context(recent, retrieved)))

    @torch.no_grad()
    def decide(self, recent: Batch, retrieved: Batch | Context | None = None) -> Tensor:
        """Return what `forward` says of each row's last real step, but sooner: [B, size]."""
        recent = recent.to(self.device)
        tokens, context = self.embed(recent, past=False), self.as_context(recent, retrieved)
        last = (recent.mask.sum(1) - 1) * self.embed.per_step + self.embed.deciding  # [B]
        return self.act(self.trunk.only(tokens, last, context))

    def as_context(self, recent: Batch, retrieved: Batch | Context | None) -> Context | None:
        """Return what was retrieved as every layer sees it, whether it was embedded or not."""
        return retrieved if isinstance(retrieved, Context) else self.context(recent, retrieved)

    def act(self, hidden: Tensor) -> Tensor:
        """Read from decision tokens what the action head makes of them."""
        return self.action_head.read(self.head(hidden))

    def context(self, recent: Batch, retrieved: Batch | None) -> Context | None:
        """Embed retrieved chunks; a row that has none sees the learned null chunk instead."""
        if not self.retrieves:
            return None
        null = self.null_chunk.expand(len(recent), 1, -1)  # [B, 1, width]
        if retrieved is None:
            return Context(null, torch.ones(len(recent), 1, dtype=torch.bool, device=null.device))
        retrieved, embed = retrieved.to(self.device), self.embed_retrieved or self.embed
        tokens, mask = embed(retrieved, past=True), embed.mask(retrieved)  # [B, M, width], [B, M]
        if self.config.chunk_embedding == "detached":
            tokens = tokens.detach()
        tokens = self.drop(tokens)
        if self.chunk_encoder is not None:
            itself = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
            tokens = self.chunk_encoder(tokens, mask=mask[:, None] | itself)  # padding sees itself
        nothing = ~mask.any(dim=1, keepdim=True)  # [B, 1]
        return Context(torch.cat([null, tokens], dim=1), torch.cat([nothing, mask], dim=1))
