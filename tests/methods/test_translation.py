"""What is read together is moved elsewhere together, by whatever method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from radt.envs.suite import SUITES
from radt.methods.transforms import translate_states
from radt.spaces import StateSpace
from tests.contracts.method import LEARNING, OPTIONS, build_method, toy_dataset
from tests.toys import TOY_GRID, TOY_REACH

ROOM = StateSpace("discrete", (2,), bins=(3, 250))
ROWS = 400


def somewhere(steps: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    states = torch.from_numpy(rng.integers(ROOM.bins, size=(ROWS, steps, 2)).astype(np.uint8))
    return states, torch.ones(ROWS, steps, dtype=torch.bool)


def moved_by(before: Tensor, after: Tensor) -> Tensor:
    return after.long() - before.long()  # [B, L, 2]


def test_a_window_and_its_chunk_move_by_the_same_cells(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(4, rng), somewhere(7, rng)
    here, there = translate_states([recent, retrieved], ROOM, 1.0, rng)
    by = moved_by(recent[0], here)
    assert (by == by[:, :1]).all()
    assert (moved_by(retrieved[0], there) == by[:, :1]).all()
    assert len(by[:, 0, 1].unique()) > 20
    assert here.dtype == recent[0].dtype


def test_padding_does_not_bind_anybody(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(1, rng), somewhere(7, rng)
    retrieved[1][:] = False
    here, _ = translate_states([recent, retrieved], ROOM, 1.0, rng)
    assert set(here[:, 0, 0].tolist()) == {0, 1, 2}


def test_a_share_of_the_rows_is_moved(rng: np.random.Generator) -> None:
    recent, retrieved = somewhere(1, rng), somewhere(1, rng)
    here, _ = translate_states([recent, retrieved], ROOM, 0.5, rng)
    share = moved_by(recent[0], here).any(2).any(1).float().mean()
    assert 0.4 < share < 0.6


def read_together(examples: Any) -> list[tuple[Tensor, Tensor]]:
    """List all states that a method's examples show, with the mask of those that are real."""
    shown = [examples.recent, *(getattr(examples, name, None) for name in ("retrieved", "known"))]
    seen = [(batch.states, batch.mask) for batch in shown if batch is not None]
    if (known := shown[2]) is not None:
        seen.append((known.next_states, known.mask & ~known.ends))
    return seen


@pytest.mark.parametrize("name", LEARNING)
def test_every_method_moves_all_that_it_reads_and_nothing_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)
    dataset = toy_dataset(TOY_GRID, tmp_path)

    def drawn(share: float) -> Any:
        method = build_method(name, TOY_GRID.spaces, {**OPTIONS[name], "translate": share})
        method.prepare(dataset)
        return method.draw(64, np.random.default_rng(3))

    still, moved = drawn(0.0), drawn(1.0)
    seen = list(zip(read_together(still), read_together(moved), strict=True))
    by = moved_by(seen[0][0][0], seen[0][1][0])[:, :1]  # [B, 1, 2] of the window's first step
    assert by.any()
    for (before, real), (after, same) in seen:
        assert torch.equal(real, same)
        assert (moved_by(before, after) == by)[real].all()
    assert torch.equal(still.recent.actions, moved.recent.actions)
    assert torch.equal(still.recent.rewards, moved.recent.rewards)


@pytest.mark.parametrize("name", [name for name in LEARNING if name != "dpt-oracle"])
def test_states_that_are_no_places_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="only discrete states"):
        build_method(name, TOY_REACH.spaces, {**OPTIONS[name], "translate": 0.5})
