"""An embedder: state visitation frequencies of a prefix. And RA-DT with such keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from radt.memory.embed import EMBEDDERS, EmbedderEntry
from radt.methods import METHODS, MethodEntry
from radt.methods.ra_dt import RADTOptions, build
from radt.spaces import TaskSpaces
from radt.trajectory import Batch


@dataclass(frozen=True)
class PlacesOptions:
    """What can be set as embedder.fade."""

    fade: float = 0.9  # weight of a step compared with the one after it

    def __post_init__(self) -> None:
        if not 0 < self.fade <= 1:
            raise ValueError(f"fade must lie in (0, 1], not {self.fade}")


class Places:
    """Visitation frequencies of each value of each coordinate, late steps weighted more."""

    network = None  # nothing is trained, so a checkpoint stores nothing

    def __init__(self, spaces: TaskSpaces, options: PlacesOptions) -> None:
        if spaces.state.kind != "discrete":
            raise ValueError(f"places needs discrete states, not {spaces.state.kind!r} ones")
        self.bins, self.fade = spaces.state.bins, options.fade
        self.width = sum(self.bins)

    @property
    def fingerprint(self) -> str:
        """Identify everything that the vectors depend on."""
        return f"places {self.bins} {self.fade}"

    def __call__(self, prefixes: Batch, dropped: Tensor | None = None) -> Tensor:
        """Embed prefixes as [B, width]."""
        states = prefixes.states.long().flatten(2).unbind(-1)  # of each coordinate, [B, L]
        known = [column.clamp(0, size - 1) for column, size in zip(states, self.bins, strict=True)]
        seen = [one_hot(column, size) for column, size in zip(known, self.bins, strict=True)]
        weight = self._weights(prefixes.mask, dropped)  # [B, L]
        return (torch.cat(seen, dim=-1) * weight[..., None]).sum(1)

    def stepper(self, rows: int, context_len: int) -> None:
        """Embed whole prefixes only; that is fast enough."""

    def _weights(self, mask: Tensor, dropped: Tensor | None) -> Tensor:
        """Weight steps by their age; the weights of a prefix sum to 1."""
        age = mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1])
        weight = self.fade ** age.clamp_min(0).float() * mask
        share = weight / weight.sum(1, keepdim=True).clamp_min(1e-6)
        return share if dropped is None else share * ~dropped


def build_places(spaces: TaskSpaces, options: PlacesOptions, seed: int) -> Places:
    """Build the embedder as radt asks for it."""
    return Places(spaces, options)


PLACES = EMBEDDERS.register("places", EmbedderEntry(PlacesOptions, build_places))
RA_DT_PLACES = METHODS.register(
    "ra-dt-places", MethodEntry(RADTOptions, partial(build, name="ra-dt-places"), embedder="places")
)
