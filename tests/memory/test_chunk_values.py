"""The utility `value`: what is kept of chunks counts as if each were read anew, in every store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from radt.memory.memory import Memory, MemoryConfig
from radt.model.chunk_value import ChunkValue
from radt.trajectory import Retrieval, Trajectory, Verdict
from tests.memory.toy_data import toy_embedder
from tests.toys import TOY_GRID, histories

CONFIG = MemoryConfig(context_len=4, top_l=6, alpha=1e6, utility="value")
SPACES = TOY_GRID.spaces
PLACES = ("ram:", "folder:{}", "copy:folder:{}", "shared-folder:{}")


def network() -> ChunkValue:
    value = ChunkValue(SPACES, seed=0)
    for parameter in value.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch.Generator().manual_seed(1))
    return value.eval()


def memory(**options: Any) -> Memory:
    return Memory(toy_embedder(SPACES), SPACES, replace(CONFIG, **options), value=network())


def trials(slot: int, first: int = 0, count: int = 2) -> list[Trajectory]:
    (lived,) = histories(TOY_GRID, first + count, seed=slot, tasks=[0]).values()
    return [Trajectory(t.states, t.actions, t.rewards, slot, t.episode) for t in lived[first:]]


def ask(memory: Memory, seed: int, now: Tensor | None = None) -> tuple[Retrieval, Tensor]:
    """Let slots 0, 1 and 2 ask from random states."""
    generator = torch.Generator().manual_seed(seed)
    now = torch.randn(3, 1, 32, generator=generator) if now is None else now
    vectors, slots = torch.randn(3, memory.embedder.width, generator=generator), torch.arange(3)
    return memory.retrieve(vectors, slots, torch.zeros_like(slots), now=now), now


@torch.no_grad()
def read_anew(memory: Memory, found: Retrieval, now: Tensor) -> Tensor:
    """Judge every candidate by itself, [B, m]; 0 where there is none."""
    value, values = memory.value, torch.zeros(found.ids.shape)
    assert value is not None
    for row, column in (found.ids >= 0).nonzero().tolist():
        chunk = memory.chunks(found.ids[row, column].view(1, 1))
        values[row, column] = value(now[row : row + 1], value.read(chunk)).item()
    return values * SPACES.return_scale


def counted(memory: Memory) -> list[int]:
    """Note from now on how many chunks are read at a time."""
    counts: list[int] = []
    assert memory.value is not None
    memory.value.chunk.register_forward_pre_hook(lambda module, args: counts.append(len(args[0])))
    return counts


def check(memory: Memory, seed: int) -> None:
    found, now = ask(memory, seed)
    torch.testing.assert_close(found.utility, read_anew(memory, found, now), rtol=1e-4, atol=1e-4)
    there = (found.ids >= 0).any(1)
    best = found.utility.masked_fill(found.ids < 0, -torch.inf).argmax(1, keepdim=True)
    assert torch.equal(found.chosen[there], found.ids.gather(1, best)[there])
    assert (found.verdict.gather(1, best)[there] == Verdict.CHOSEN).all()


@pytest.mark.parametrize("place", PLACES)
def test_the_best_candidate_is_chosen_as_if_each_were_read_anew(place: str, tmp_path: Path) -> None:
    with memory(capacity=5).at(place.format(tmp_path / "memory")) as shared:
        for round in range(4):  # from the third on the oldest entries go
            shared.write(trials(slot=round % 2, first=round))
            check(shared, seed=round)
        shared.forget(torch.tensor([0]))
        check(shared, seed=5)
        shared.write(trials(slot=2))
        check(shared, seed=6)


def test_a_chunk_is_read_once() -> None:
    own = memory()
    counts = counted(own)
    own.write(trials(slot=0))
    ask(own, seed=0)
    ask(own, seed=1)
    assert counts == [len(own)]
    own.write(trials(slot=1, count=1))
    ask(own, seed=2)
    own.forget(torch.tensor([0]))
    ask(own, seed=3)
    assert counts == [6, 3]


def test_a_loaded_memory_is_read_anew(tmp_path: Path) -> None:
    own, other = memory(), memory()
    own.write(trials(slot=0))
    other.write(trials(slot=1))
    other.save(tmp_path / "other")
    check(own, seed=0)
    own.load(tmp_path / "other")
    check(own, seed=1)


def test_no_network_and_no_state_are_refused() -> None:
    with pytest.raises(ValueError, match="utility=value"):
        Memory(toy_embedder(SPACES), SPACES, CONFIG)
    own = memory()
    own.write(trials(slot=0))
    slots = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="present state"):
        own.retrieve(torch.ones(1, own.embedder.width), slots, slots)
    plain = Memory(toy_embedder(SPACES), SPACES, replace(CONFIG, utility="return"))
    plain.write(trials(slot=0))
    plain.config = CONFIG
    with pytest.raises(ValueError, match="utility=value"):
        ask(plain, seed=0)
