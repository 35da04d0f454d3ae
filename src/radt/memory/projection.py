"""A learned linear projection of a frozen embedder's vectors: keys and queries are W g(tau)."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from radt.errors import RunError
from radt.memory.embed import Embedder, IncrementalEmbedder
from radt.trajectory import Batch


class Projection(nn.Module):
    """W, the identity as long as nothing was learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))  # [d, d]; not nn.Linear's, which would decay

    def forward(self, vectors: Tensor) -> Tensor:
        """Project vectors [..., d] where the weights are."""
        return linear(vectors.to(self.weight.device), self.weight)


class ProjectedEmbedder:
    """W g: a frozen embedder and a projection that is learned."""

    def __init__(self, frozen: Embedder) -> None:
        if frozen.network is None:
            raise RunError(
                "options.retriever=learned projects the keys of an embedder whose weights travel "
                "in the checkpoint, and this one has none; set embedder_name=dt, or leave the "
                "retriever frozen"
            )
        self.frozen, self.width = frozen, frozen.width
        self.projection = Projection(frozen.width)

    @property
    def network(self) -> nn.Module | None:
        return self.frozen.network

    @property
    def fingerprint(self) -> str:
        """A hash of the frozen embedder and of W as it is now."""
        digest = hashlib.sha256(self.frozen.fingerprint.encode())
        digest.update(self.projection.weight.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    @torch.no_grad()
    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        return torch.as_tensor(self.projection(self.frozen(prefixes, dropped)))

    def stepper(self, rows: int, context_len: int) -> IncrementalEmbedder | None:
        stepper = self.frozen.stepper(rows, context_len)
        return None if stepper is None else ProjectedStepper(stepper, self.projection)


class ProjectedStepper:
    """Projects what an incremental embedder makes of each step."""

    def __init__(self, frozen: IncrementalEmbedder, projection: Projection) -> None:
        self.frozen, self.projection = frozen, projection

    def reset(self, rows: Tensor) -> None:
        self.frozen.reset(rows)

    @torch.no_grad()
    def step(self, latest: Batch, rows: Tensor) -> Tensor:
        return torch.as_tensor(self.projection(self.frozen.step(latest, rows))).cpu()
