"""minGRU (Feng et al. 2024, "Were RNNs all we needed?") as a layer of a trunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from radt.model.recurrent import log_spans


class MinGRU(nn.Module):
    """h_t = (1 - z_t) h_{t-1} + z_t h~_t, where z_t and h~_t know x_t alone."""

    vectors = 1  # h

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Read x [B, L, width] from a state [B, 1, width]."""
        z = self.gate(x).float().sigmoid()
        keep, new = 1 - z, z * self.candidate(x)
        first = torch.addcmul(new[:, :1], keep[:, :1], state)
        h = scan(keep, torch.cat([first, new[:, 1:]], dim=1))
        return h, h[:, -1:]

    def initialise(self, generator: torch.Generator) -> None:
        """Let gates open for spread spans."""
        with torch.no_grad():
            self.gate.bias.copy_(-log_spans(len(self.gate.bias)))


def scan(keep: Tensor, new: Tensor) -> Tensor:
    """Return h_t = keep_t h_{t-1} + new_t of every step from h = 0, [B, L, width].

    Two steps are one step of a sequence of half the length. Nothing but products with numbers in
    [0, 1] and sums are taken, so that nothing overflows as cumulative products and quotients do,
    and new steps may have any sign, which in log-space they may not.
    """
    length = keep.shape[1]
    if length == 1:
        return new
    if length % 2:  # one more, that nobody reads
        return scan(pad(keep, (0, 0, 0, 1)), pad(new, (0, 0, 0, 1)))[:, :-1]
    first, second = keep[:, ::2], keep[:, 1::2]
    h_second = scan(first * second, torch.addcmul(new[:, 1::2], second, new[:, ::2]))
    h_first = torch.addcmul(new[:, ::2], first, pad(h_second[:, :-1], (0, 0, 1, 0)))
    return torch.stack([h_first, h_second], dim=2).flatten(1, 2)
