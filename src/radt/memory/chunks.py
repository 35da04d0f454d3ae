"""Chunks as batches: cut from trajectories, padded to one length, laid one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import torch
from torch import Tensor

from radt.memory.entries import Entries, key_start
from radt.spaces import TaskSpaces
from radt.trajectory import Batch, SubTrajectory, returns_to_go


def stack(pieces: Sequence[SubTrajectory], spaces: TaskSpaces, length: int) -> Batch:
    """Pad sub-trajectories at the end to one length, as a batch [len(pieces), length]."""
    batch = blank(spaces, len(pieces), length)
    for row, piece in enumerate(pieces):
        source, span, count = piece.source, slice(piece.start, piece.stop), len(piece)
        batch.states[row, :count] = torch.as_tensor(source.states[span])
        batch.actions[row, :count] = torch.as_tensor(source.actions[span])
        batch.rewards[row, :count] = torch.as_tensor(source.rewards[span])
        batch.returns_to_go[row, :count] = torch.as_tensor(returns_to_go(source.rewards)[span])
        batch.timesteps[row, :count] = torch.arange(piece.start, piece.stop)
        batch.mask[row, :count] = True
    return batch


def blank(spaces: TaskSpaces, rows: int, length: int) -> Batch:
    """Return rows of padding with the right shapes and types, [rows, length]."""
    state_types = {"discrete": torch.int64, "image": torch.uint8}
    state_type = state_types.get(spaces.state.kind, torch.float32)
    action_type = torch.int64 if spaces.action.kind == "discrete" else torch.float32
    return Batch(
        states=torch.zeros(rows, length, *spaces.state.shape, dtype=state_type),
        actions=torch.zeros(rows, length, *spaces.action.shape, dtype=action_type),
        rewards=torch.zeros(rows, length),
        returns_to_go=torch.zeros(rows, length),
        timesteps=torch.zeros(rows, length, dtype=torch.int64),
        mask=torch.zeros(rows, length, dtype=torch.bool),
    )


def nothing(spaces: TaskSpaces, shape: torch.Size, context_len: int) -> Batch:
    """Return padding in the place of k chunks for each of B queries, [B, k * 2C]."""
    rows, per_row = shape
    return blank(spaces, rows, per_row * 2 * context_len)


def joined(batch: Batch, mask: Tensor, shape: torch.Size) -> Batch:
    """Lay the k chunks of each of B queries one after the other: [B * k, L] -> [B, k * L]."""
    rows, per_row = shape
    columns = [getattr(batch, field.name) for field in fields(batch) if field.name != "mask"]
    return Batch(
        *(
            column.reshape(rows, per_row * column.shape[1], *column.shape[2:])
            for column in (*columns, mask)
        )
    )


def prefixes(chunks: Batch, entries: Entries, context_len: int) -> Batch:
    """Cut the C states that keys embed out of the chunks of their entries, [n, 2C] -> [n, C]."""
    begin = key_start(entries.position, context_len) - entries.start  # [n]
    step = begin[:, None] + torch.arange(context_len)  # [n, C]
    mask = step <= (entries.position - entries.start)[:, None]
    row = torch.arange(len(entries))[:, None]
    step = step.clamp_max(chunks.mask.shape[1] - 1)
    cut = Batch(*(getattr(chunks, field.name)[row, step] for field in fields(chunks)))
    for field in fields(cut):
        getattr(cut, field.name)[~mask] = 0
    return cut
