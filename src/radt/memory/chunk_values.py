"""V of stored chunks, the utility `value`: each is read once, when it is first a candidate."""

from __future__ import annotations

import torch
from torch import Tensor

from radt.memory.entries import Entries
from radt.memory.growing import GrowingTensor
from radt.memory.retrieve import Queries
from radt.memory.store import Store
from radt.model.chunk_value import ChunkValue
from radt.model.transformer import Context

MOST = 10_000  # chunks that are kept; of 100 steps each they take 130 MB


class ChunkValues:
    """What a network made of the chunks of a store, by the numbers of their entries."""

    def __init__(self, network: ChunkValue) -> None:
        self.network = network
        self._row: dict[int, int] = {}  # by number, in the order of rows
        self._store: Store | None = None
        self._removals = 0

    @torch.no_grad()
    def __call__(
        self, store: Store, ids: Tensor, now: Tensor, candidates: Entries, queries: Queries
    ) -> Tensor:
        """Judge entries [B, m], -1: none, from embedded states [B, 1, width]: returns, [B, m]."""
        self._follow(store)
        there = ids >= 0
        if not there.any():
            return torch.zeros(ids.shape)
        asking = there.nonzero()[:, 0].to(now.device)  # [n] rows
        values = self.network(now[asking], self._read(store, ids[there]))[:, 0]  # [n]
        returns = values.float().cpu() * self.network.spaces.return_scale
        return torch.zeros(ids.shape).masked_scatter(there, returns)

    def _follow(self, store: Store) -> None:
        """Forget what the store holds no more, and all of another store."""
        if store is not self._store or len(self._row) > MOST:
            self._row = {}
        elif self._removals != store.removals and self._row:
            kept = torch.isin(torch.tensor(list(self._row)), store.numbers)
            self._tokens.keep(kept.to(self._tokens.rows.device))
            self._mask.keep(kept.to(self._mask.rows.device))
            held = (number for number, stays in zip(self._row, kept, strict=True) if stays)
            self._row = {number: row for row, number in enumerate(held)}
        self._store, self._removals = store, store.removals

    def _read(self, store: Store, ids: Tensor) -> Context:
        """Return the tokens of entries [n], of which only new ones are read."""
        numbers = store.numbers[ids].tolist()
        pairs = zip(numbers, ids.tolist(), strict=True)
        if new := {number: id for number, id in pairs if number not in self._row}:
            read = self.network.read(store.chunks(torch.tensor([*new.values()])[:, None]))
            if not self._row:
                self._tokens, self._mask = GrowingTensor(read.tokens), GrowingTensor(read.mask)
            self._tokens.append(read.tokens)
            self._mask.append(read.mask)
            self._row |= {number: len(self._row) + row for row, number in enumerate(new)}
        rows = torch.tensor([self._row[number] for number in numbers], dtype=torch.int64)
        rows = rows.to(self.network.no_chunk.device)
        # an index_select copies three times as fast as an index
        return Context(
            self._tokens.rows.index_select(0, rows), self._mask.rows.index_select(0, rows)
        )
