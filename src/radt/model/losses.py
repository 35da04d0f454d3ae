"""How badly actions and returns are predicted: averages over marked steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from radt.model.tokens import binned

ROWS_AT_ONCE = 16  # of a batch, where a CPU's cache is what limits


def action_loss(
    predicted: Tensor, actions: Tensor, steps: Tensor, valid: Tensor | None = None
) -> Tensor:
    """Average cross-entropy, or squared error over valid dimensions, of the marked steps.

    predicted [B, L, action_size], actions [B, L] or [B, L, action_size], steps [B, L] bool;
    valid [B, action_size] bool marks the dimensions that mean something, None: all.
    """
    actions, steps = actions.to(predicted.device), steps.to(predicted.device)
    if actions.ndim == 2:
        return cross_entropy(predicted[steps], actions[steps])
    return (predicted - actions)[counted_dimensions(actions, steps, valid)].square().mean()


def return_loss(predicted: Tensor, returns: Tensor) -> Tensor:
    """Average how badly scaled returns [N] are predicted: by logits of bins, or by one number."""
    if (bins := predicted.shape[1]) > 1:
        return cross_entropy(predicted, binned(returns, 0.0, 1.0, bins).long())
    return (predicted[:, 0] - returns).square().mean()


def counted_dimensions(actions: Tensor, steps: Tensor, valid: Tensor | None) -> Tensor:
    """Mark the valid dimensions of marked steps: [B, L, A], [B, L], [B, A] -> [B, L, A]."""
    counted = steps.to(actions.device)[..., None].expand_as(actions)
    return counted if valid is None else counted & valid[:, None, :].to(actions.device)


def loss_in_parts(
    part_loss: Callable[[Tensor], Tensor], length: Tensor, counted: Tensor, device: torch.device
) -> Tensor:
    """Average losses of a batch, a few rows of like length at a time, which is the same number.

    On a CPU what a few long rows take stays in the cache, and short rows need no padding to the
    longest; elsewhere all rows go together. `part_loss` takes rows and averages over what
    `counted` [B] says of them.
    """
    together = ROWS_AT_ONCE if device.type == "cpu" else len(length)
    parts = length.argsort(stable=True).split(together)
    losses = [
        part_loss(rows) * (counted[rows].sum() / counted.sum())
        for rows in parts
        if counted[rows].any()
    ]
    return torch.stack(losses).sum()


def counted_errors(steps: Tensor, valid: Tensor | None) -> Tensor:
    """Count what `action_loss` averages over, row by row: [B, L], [B, action_size] -> [B]."""
    return steps.sum(1) if valid is None else steps.sum(1) * valid.sum(1)
