"""The chunks that each slot holds between two retrievals, as its policy reads them.

A chunk is twice as long as a window, so embedding it and making keys and values of it is a good
part of a decision. It is often retrieved again at the next step, or held for a whole trial: only
what is new to a slot is read.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from radt.model.policy import DecisionTransformer
from radt.model.transformer import Context
from radt.trajectory import Batch


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

    def of(self, slots: Tensor) -> Context | None:
        """Return what some slots hold, None where all of them hold nothing."""
        if not bool(self.chunks.mask[slots].any()):
            return None
        everyone = torch.arange(len(self.chunks))
        return self.context if torch.equal(slots, everyone) else self.context.rows(slots)

    @torch.no_grad()
    def _read(self, chunks: Batch) -> Context:
        context = self.policy.context(chunks, chunks)
        if context is None:
            raise ValueError("this policy does not read chunks; build it with retrieves=True")
        return self.policy.trunk.read(context)


def differ(one: Batch, other: Batch) -> Tensor:
    """Say which rows of two batches are not the same, [B] bool."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Batch)]
    return torch.stack([(a != b).flatten(1).any(1) for a, b in pairs]).any(0)
