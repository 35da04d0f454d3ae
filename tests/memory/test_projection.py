"""W g: the frozen embedder as long as W is the identity, another one as soon as it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from radt.errors import RunError
from radt.memory.embed import ProjectedEmbedder
from radt.memory.folder.rewrite import re_embed
from radt.memory.identity import MemoryMismatchError
from radt.memory.language import LanguageEmbedder, LanguageOptions
from radt.memory.memory import Memory, MemoryConfig
from tests.contracts import embedder as contract
from tests.memory.toy_data import toy_embedder
from tests.model.batches import SPACES
from tests.toys import TOY_GRID, histories

CONFIG = MemoryConfig(context_len=4, top_l=5, top_k=2)
TRIALS = histories(TOY_GRID, 4)[0]


def projected(seed: int | None = None, kind: str | None = None) -> ProjectedEmbedder:
    """Project by the identity, or by random numbers."""
    embedder = ProjectedEmbedder(toy_embedder(SPACES[kind] if kind else TOY_GRID.spaces))
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        torch.nn.init.normal_(embedder.projection.weight, generator=generator)
    return embedder


@pytest.mark.parametrize("kind", SPACES)
def test_contract(kind: str) -> None:
    spaces, embedder = SPACES[kind], projected(0, kind)
    contract.check_vectors(embedder, spaces)
    contract.check_batch_size(embedder, spaces)
    contract.check_padding(embedder, spaces)
    contract.check_last_action_is_unknown(embedder, spaces)
    contract.check_dropping_states(embedder, spaces)
    contract.check_fingerprint(embedder, projected(1, kind), projected(0, kind))
    no_action = embedder.frozen.model.embed.no_action  # type: ignore[attr-defined]
    contract.check_stepper(embedder, spaces, no_action)
    contract.check_stepper_resets_some_rows(embedder, spaces, no_action)


def test_the_identity_changes_no_key_and_no_choice() -> None:
    frozen, learned = toy_embedder(TOY_GRID.spaces), projected()
    memories = [Memory(embedder, TOY_GRID.spaces, CONFIG) for embedder in (frozen, learned)]
    for memory in memories:
        memory.write(TRIALS)
    plain, same = memories
    assert torch.equal(plain.keys, same.keys)
    queries = contract.prefixes(TOY_GRID.spaces)
    slots = torch.zeros(len(queries), dtype=torch.int64)
    one, other = (memory.retrieve(memory.embedder(queries), slots, slots) for memory in memories)
    assert torch.equal(one.ids, other.ids)
    assert torch.equal(one.score, other.score)
    assert torch.equal(one.chosen, other.chosen)


def test_keys_are_projected() -> None:
    memory = Memory(projected(0), TOY_GRID.spaces, CONFIG)
    plain = Memory(toy_embedder(TOY_GRID.spaces), TOY_GRID.spaces, CONFIG)
    for one in (memory, plain):
        one.write(TRIALS)
    weight = memory.embedder.projection.weight.detach()  # type: ignore[attr-defined]
    torch.testing.assert_close(memory.keys, plain.keys @ weight.T)


def in_a_folder(memory: Memory, path: Path) -> None:
    with memory.at(path) as folder:
        folder.write(TRIALS)


def in_a_file(memory: Memory, path: Path) -> None:
    memory.write(TRIALS)
    memory.save(path)


def opened(memory: Memory, path: Path) -> None:
    memory.at(path).close()


def loaded(memory: Memory, path: Path) -> None:
    memory.load(path)


@pytest.mark.parametrize(("keep", "bring_back"), [(in_a_folder, opened), (in_a_file, loaded)])
def test_keys_of_another_projection_are_refused(
    keep: Callable[[Memory, Path], None],
    bring_back: Callable[[Memory, Path], None],
    tmp_path: Path,
) -> None:
    learned = projected(0)
    keep(Memory(learned, TOY_GRID.spaces, CONFIG), tmp_path / "kept")
    bring_back(Memory(projected(0), TOY_GRID.spaces, CONFIG), tmp_path / "kept")
    for other in (projected(1), projected(), learned.frozen):
        with pytest.raises(MemoryMismatchError, match="another embedder"):
            bring_back(Memory(other, TOY_GRID.spaces, CONFIG), tmp_path / "kept")
    with torch.no_grad():
        learned.projection.weight[0, 0] += 1e-3  # it learns on
    with pytest.raises(MemoryMismatchError, match="another embedder"):
        bring_back(Memory(learned, TOY_GRID.spaces, CONFIG), tmp_path / "kept")


def test_a_memory_can_be_given_keys_of_another_projection(tmp_path: Path) -> None:
    in_a_folder(Memory(projected(0), TOY_GRID.spaces, CONFIG), tmp_path / "kept")
    now = Memory(projected(1), TOY_GRID.spaces, CONFIG)
    re_embed(tmp_path / "kept", now.embedder, now.identity())
    now.write(TRIALS)
    with now.at(tmp_path / "kept") as folder:
        torch.testing.assert_close(folder.keys, now.keys)


def test_an_embedder_that_no_checkpoint_carries_is_refused() -> None:
    frozen = LanguageEmbedder(TOY_GRID.spaces, LanguageOptions(), seed=0)
    with pytest.raises(RunError, match="embedder_name=dt"):
        ProjectedEmbedder(frozen)
