"""Windows and chunks that are moved elsewhere together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.methods.ra_dt import RADT, RADTOptions
from radt.methods.renaming import rename_places
from radt.spaces import StateSpace
from radt.trajectory import Batch
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_REACH

ROOM = StateSpace("discrete", (2,), bins=(3, 250))
ROWS = 400


def somewhere(steps: int, rng: np.random.Generator) -> Batch:
    states = torch.from_numpy(rng.integers(ROOM.bins, size=(ROWS, steps, 2)).astype(np.uint8))
    shape = (ROWS, steps)
    return Batch(
        *(states, torch.zeros(shape, dtype=torch.int64), torch.zeros(shape), torch.zeros(shape)),
        timesteps=torch.arange(steps).expand(shape),
        mask=torch.ones(shape, dtype=torch.bool),
    )


def moved_by(before: Batch, after: Batch) -> torch.Tensor:
    return after.states.long() - before.states.long()  # [B, L, 2]


def test_a_window_and_its_chunk_move_by_the_same_cells(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(4, rng), somewhere(7, rng)
    here, there = rename_places(recent, retrieved, ROOM, 1.0, rng)
    by = moved_by(recent, here)
    assert (by == by[:, :1]).all()
    assert (moved_by(retrieved, there) == by[:, :1]).all()
    assert len(by[:, 0, 1].unique()) > 20
    assert here.states.dtype == recent.states.dtype
    assert here.actions is recent.actions


def test_padding_does_not_bind_anybody(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(1, rng), somewhere(7, rng)
    retrieved.mask[:] = False
    here, _ = rename_places(recent, retrieved, ROOM, 1.0, rng)
    assert set(here.states[:, 0, 0].tolist()) == {0, 1, 2}


def test_a_share_of_the_rows_is_moved(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(1, rng), somewhere(1, rng)
    here, _ = rename_places(recent, retrieved, ROOM, 0.5, rng)
    share = moved_by(recent, here).any(2).any(1).float().mean()
    assert 0.4 < share < 0.6


def test_states_that_are_no_places_are_refused() -> None:
    with pytest.raises(ValueError, match="only discrete states"):
        RADT(TOY_REACH.spaces, RADTOptions(renamed=0.5), 0, toy_embedder(TOY_REACH.spaces))
