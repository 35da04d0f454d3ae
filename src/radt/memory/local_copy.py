"""A copy in RAM of a memory elsewhere, `copy:postgres:room`: read as fast as one that is in RAM.

A refresh, at the start of each trial, brings what is new; a read asks nobody. What others have
removed stays until then.
"""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

from radt.memory.entries import concat_chunks
from radt.memory.growing import GrowingRecord
from radt.memory.identity import StoreError
from radt.memory.store import STORES, GrowingColumns, NewEntries, Store, open_store
from radt.trajectory import Batch


class LocalCopy(GrowingColumns):
    """Entries, keys and chunks of another store, as they were when it was last refreshed."""

    def __init__(self, source: Store) -> None:
        self.source, self.place, self.writing = source, source.place, source.writing
        self.removals, self._removed = 0, source.removals
        self._chunks = GrowingRecord(source.chunks(torch.zeros(0, 1, dtype=torch.int64)))
        self._begin_columns(source.keys.shape[1])
        self._follow()

    @property
    def episodes(self) -> int:
        return self.source.episodes

    def append(self, new: NewEntries) -> None:
        """Add entries to the source, safe when this returns, and take in what is new there."""
        self.source.append(new)
        with contextlib.suppress(StoreError):  # it is written; the next refresh says what is wrong
            self._follow()

    def keep(self, kept: Tensor) -> None:
        gone = self.numbers[~kept]
        self.source.keep(~torch.isin(self.source.numbers, gone))
        self._follow()

    def refresh(self) -> None:
        self.source.refresh()
        self._follow()

    def chunks(self, ids: Tensor) -> Batch:
        if not len(self):
            return self.source.chunks(torch.full_like(ids, -1))
        batch = self._chunks.rows.rows(ids.clamp_min(0).flatten())
        return concat_chunks(batch, batch.mask & (ids.flatten() >= 0)[:, None], ids.shape)

    def close(self) -> None:
        self.source.close()

    def _follow(self) -> None:
        """Read what the source holds more, all or nothing, and drop what it holds no more."""
        source, known = self.source, self.numbers
        new = (source.numbers > (known[-1] if len(known) else -1)).nonzero()[:, 0]
        keys, chunks = source.keys[new], source.chunks(new[:, None])
        if self._removed != source.removals:
            kept = torch.isin(known, source.numbers)
            self._chunks.keep(kept)
            self._drop(kept)
            self._removed = source.removals
        self._add(source.numbers[new], source.entries.rows(new), keys)
        self._chunks.append(chunks)


STORES.register("copy", lambda place, who, writing: LocalCopy(open_store(place, who, writing)))
