"""The memory of a running agent: written, searched, forgotten, saved and loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from radt import room
from radt.envs.suite import TaskSuite
from radt.errors import RadtWarning
from radt.memory.embed import DecisionTransformerEmbedder, device_of
from radt.memory.entries import Entries, returns_by, stack
from radt.memory.identity import MemoryFileError, MemoryMismatchError
from radt.memory.index import INDEXES
from radt.memory.loop_erasure import loop_erased_trial
from radt.memory.memory import PATIENCE, Memory, MemoryConfig
from radt.sealed import seal
from radt.trajectory import Trajectory, Verdict
from tests.contracts.store import assert_same_steps
from tests.memory.toy_data import toy_embedder
from tests.model.batches import small_model
from tests.toys import TOY_GRID, TOY_REACH, TOYS, histories

CONFIG = MemoryConfig(context_len=4, top_l=5, top_k=2)


def new_memory(suite: TaskSuite = TOY_REACH, **options: object) -> Memory:
    config = replace(CONFIG, **options)  # type: ignore[arg-type]
    return Memory(toy_embedder(suite.spaces), suite.spaces, config)


def trials(suite: TaskSuite, slot: int, count: int = 2, first: int = 0) -> list[Trajectory]:
    """Roll trials that a slot lives through."""
    (lived,) = histories(suite, first + count, seed=slot, tasks=[suite.train_tasks[0]]).values()
    return [Trajectory(t.states, t.actions, t.rewards, slot, t.episode) for t in lived[first:]]


def ask(memory: Memory, vectors: Tensor, slots: list[int]):
    numbers = torch.tensor(slots)
    return memory.retrieve(vectors, numbers, torch.zeros_like(numbers))


def filled(suite: TaskSuite = TOY_REACH, **options: object) -> Memory:
    memory = new_memory(suite, **options)
    for slot in (0, 1, 3):
        memory.write(trials(suite, slot))
    return memory


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_keys_embed_the_last_states_up_to_each_entry(suite: TaskSuite) -> None:
    memory = new_memory(suite)
    lived = trials(suite, 0)
    memory.write(lived)
    assert memory.entries.position.tolist() == [0, 4, 8] * 2
    prefixes = [lived[episode].cut(max(0, t - 3), t + 1) for episode in range(2) for t in (0, 4, 8)]
    vectors = memory.embedder(stack(prefixes, suite.spaces, 4))
    torch.testing.assert_close(memory.keys, vectors, rtol=0, atol=1e-5)
    assert len(memory) == len(memory.index) == len(memory.keys) == 6


@pytest.mark.parametrize("index", INDEXES.names())
def test_an_exact_copy_of_the_query_is_returned(index: str) -> None:
    memory = filled(index=index, utility="none", top_k=1)
    rows = (memory.entries.task == 1).nonzero().squeeze(1)
    found = ask(memory, memory.keys[rows], [1] * len(rows))
    assert found.chosen[:, 0].tolist() == rows.tolist()
    torch.testing.assert_close(found.relevance[:, 0], torch.ones(len(rows)), rtol=0, atol=1e-5)
    assert not (found.verdict == Verdict.TOO_SIMILAR).any()
    assert not (found.verdict == Verdict.OWN_TRAJECTORY).any()


def test_keys_are_where_the_embedder_computes() -> None:
    embedder = toy_embedder(TOY_REACH.spaces)
    embedder.network.to("meta")  # stands for a GPU
    for name, device in (("flat", "meta"), ("faiss-ivf", "cpu")):
        config = replace(CONFIG, index=name)
        index: Any = Memory(embedder, TOY_REACH.spaces, config).index
        assert index._index.table.device.type == device
    public: Any = SimpleNamespace(network=None, device="meta")  # as a language model is
    assert device_of(public).type == "meta"


def test_each_slot_searches_its_own_memory() -> None:
    memory = filled()
    found = ask(memory, memory.keys[:4], [0, 1, 2, 3])
    for row, slot in enumerate((0, 1, 2, 3)):
        ids = found.ids[row][found.ids[row] >= 0]
        assert (memory.entries.task[ids] == slot).all()
        assert len(ids) == (0 if slot == 2 else 5)  # top_l
    assert found.chosen[2].tolist() == [-1, -1]
    chunks = memory.chunks(found.chosen)
    assert chunks.mask.any(1).tolist() == [True, True, False, True]


def test_the_best_return_wins_when_utility_weighs_enough() -> None:
    memory = filled(alpha=100.0, top_k=1)
    found = ask(memory, memory.keys[:1], [1])
    own = memory.entries.task == 1
    best = memory.entries.total_return[own].max()
    assert memory.entries.total_return[found.chosen[0, 0]] == best


def test_an_empty_memory_has_nothing_to_say() -> None:
    memory = new_memory()
    found = ask(memory, torch.randn(3, memory.embedder.width), [0, 1, 2])
    assert (found.verdict == Verdict.ABSENT).all()
    assert found.chosen.tolist() == [[-1, -1]] * 3
    chunks = memory.chunks(found.chosen)
    assert chunks.mask.shape == (3, 2 * 8)
    assert not chunks.mask.any()
    memory.write([])
    memory.forget(torch.tensor([0]))
    assert len(memory) == 0


def test_forgetting_some_slots_leaves_the_others() -> None:
    memory, fresh = filled(), new_memory()
    memory.forget(torch.tensor([0, 3, 7]))
    fresh.write(trials(TOY_REACH, 1))
    assert set(memory.entries.task.tolist()) == {1}
    assert len(memory.index) == len(memory) == 6
    query = torch.randn(2, memory.embedder.width)
    one, other = ask(memory, query, [1, 0]), ask(fresh, query, [1, 0])
    assert torch.equal(one.ids, other.ids)
    assert_same_steps(memory.chunks(one.chosen), fresh.chunks(other.chosen))
    memory.write(trials(TOY_REACH, 0))  # and the slot starts again
    assert (memory.entries.task == 0).sum() == 6
    assert len(memory.entries.episode.unique()) == 4


def test_only_chunks_above_the_floor_are_stored() -> None:
    lived = trials(TOY_REACH, 0, count=6)
    everything = new_memory()
    everything.write(lived)
    earned = everything.contents().chunks.rewards.sum(1)
    floor = float(earned.sort().values[2])  # equal is not above
    memory = new_memory(store_above=floor)
    memory.write(lived)
    above = everything.entries.rows(earned > floor)
    assert torch.equal(memory.entries.age, above.age)
    assert torch.equal(memory.entries.start, above.start)
    assert torch.equal(memory.keys, everything.keys[earned > floor])
    assert 0 < len(memory) < len(everything)
    nothing = new_memory(store_above=1e9)
    nothing.write(lived)
    assert len(nothing) == 0


def test_trials_may_be_remembered_without_their_loops() -> None:
    trial = trials(TOY_GRID, slot=0, count=1)[0]
    memory = new_memory(TOY_GRID, loop_erased=True)
    memory.write([trial])
    chunk = memory.chunks(torch.tensor([[0]]))
    way = loop_erased_trial(trial)
    assert len(way) < len(trial)
    length = int(chunk.mask.sum())
    assert (chunk.states[0, :length].numpy() == way.states[:length]).all()


def test_new_entries_too_similar_to_stored_ones_are_dropped() -> None:
    lived = trials(TOY_REACH, 0)
    memory = new_memory(dedup=0.999)
    memory.write(lived[:1])
    first = len(memory)
    assert first == 3  # the same episode never drops its own
    for copy in (replace(lived[0], episode=5), replace(lived[0], episode=0)):
        memory.write([copy])
        assert len(memory) == len(memory.index) == len(memory.keys) == first
    assert set(memory.entries.episode.tolist()) == {0}
    memory.write([replace(lived[0], task=1)])  # another slot has a memory of its own
    assert len(memory) == 2 * first
    memory.write([lived[1]])
    assert (memory.entries.task == 0).sum() > first


def test_a_refused_trial_leaves_no_trace() -> None:
    memory = filled()
    query, slots = memory.keys[:3], [0, 1, 3]
    before, size = ask(memory, query, slots), len(memory)
    bad = trials(TOY_REACH, 0)[0]
    states = bad.states.copy()
    states[2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        memory.write([replace(bad, states=states)])
    assert len(memory) == len(memory.index) == len(memory.keys) == size
    after = ask(memory, query, slots)
    assert torch.equal(before.ids, after.ids)
    memory.write(trials(TOY_REACH, 0, first=2))
    assert len(memory) == size + 6


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_a_saved_memory_answers_as_before(suite: TaskSuite, tmp_path: Path) -> None:
    memory, path = filled(suite), tmp_path / "deep" / "memory.safetensors"
    memory.forget(torch.tensor([1]))
    memory.save(path)
    loaded = new_memory(suite)
    loaded.write(trials(suite, 5))  # what was there is replaced
    loaded.load(path)
    query, slots = torch.randn(3, memory.embedder.width), [0, 1, 3]
    for _ in range(2):  # also after both live on
        one, other = ask(memory, query, slots), ask(loaded, query, slots)
        for name in one.__dataclass_fields__:
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert_same_steps(memory.chunks(one.chosen), loaded.chunks(other.chosen))
        for each in (memory, loaded):
            each.write(trials(suite, 3, first=2))
    for name in memory.entries.__dataclass_fields__:
        assert torch.equal(getattr(memory.entries, name), getattr(loaded.entries, name)), name


def test_an_empty_memory_is_saved_and_loaded(tmp_path: Path) -> None:
    new_memory().save(tmp_path / "m.safetensors")
    memory = filled()
    memory.load(tmp_path / "m.safetensors")
    assert len(memory) == len(memory.index) == 0
    memory.write(trials(TOY_REACH, 0))
    assert len(memory) == 6


def test_a_memory_of_another_agent_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    filled().save(path)
    spaces = TOY_REACH.spaces
    other = DecisionTransformerEmbedder(small_model(spaces, return_to_go=False, heads=4))
    others = {
        "embedder": Memory(other, spaces, CONFIG),
        "context_len": new_memory(context_len=5),
        "spaces": Memory(toy_embedder(spaces), replace(spaces, horizon=99), CONFIG),
        "embedder, spaces": new_memory(TOY_GRID),
    }
    for what, memory in others.items():
        with pytest.raises(
            MemoryMismatchError, match=f"m.safetensors was written with another {what}"
        ):
            memory.load(path)
        assert len(memory) == 0


def test_searching_may_change_when_a_memory_is_loaded(tmp_path: Path) -> None:
    filled().save(tmp_path / "m.safetensors")
    memory = new_memory(index="flat", top_k=1, alpha=0.0)
    memory.load(tmp_path / "m.safetensors")
    assert len(memory) == 18


def assert_refused(memory: Memory, path: Path, message: str) -> None:
    """Loading fails, names the file, and leaves the memory as it was."""
    size = len(memory)
    with pytest.raises(MemoryFileError, match=message) as caught:
        memory.load(path)
    assert str(path) in str(caught.value)
    assert len(memory) == len(memory.index) == len(memory.keys) == size


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    memory, path = filled(), tmp_path / "m.safetensors"
    assert_refused(memory, path, "there is no memory")
    memory.save(path)
    whole = path.read_bytes()
    for size in (0, 5, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert_refused(memory, path, "damaged or no safetensors file")
    path.write_bytes(b"\xff" * 100)
    assert_refused(memory, path, "damaged or no safetensors file")
    for place in range(-1, -len(whole) // 2, -997):  # among the numbers, far behind the header
        path.write_bytes(flipped(whole, place))
        assert_refused(memory, path, "its sha256 does not fit")


def flipped(content: bytes, place: int) -> bytes:
    """Turn one bit around."""
    changed = bytearray(content)
    changed[place] ^= 1
    return bytes(changed)


def test_a_file_that_does_not_fit_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, path = filled(), tmp_path / "m.safetensors"
    memory.save(path)
    size = path.stat().st_size
    monkeypatch.setattr(room, "SMALL", 0)
    monkeypatch.setattr(room, "free_memory", lambda: size - 1)
    assert_refused(memory, path, "GB of memory are free")
    monkeypatch.setattr(room, "free_memory", lambda: size)
    memory.load(path)


def test_a_foreign_or_edited_file_is_named(tmp_path: Path) -> None:
    memory, path = filled(), tmp_path / "m.safetensors"
    safetensors.torch.save_file({"weight": torch.ones(3)}, path)
    assert_refused(memory, path, "no memory of format 2")
    memory.save(path)
    with safetensors.safe_open(path, framework="pt") as file:
        header = {name: said for name, said in file.metadata().items() if name != "sha256"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def rewrite(changes: dict[str, Tensor | None], **said: str) -> None:
        left = {name: t for name, t in (tensors | changes).items() if t is not None}
        told = header | said
        sealed = told | {"sha256": seal(left, told)}
        safetensors.torch.save_file(left, path, metadata=sealed)

    safetensors.torch.save_file(tensors, path, metadata=header)
    assert_refused(memory, path, "its sha256 does not fit")
    for name, wrong in (("actions", 99), ("rewards", float("nan"))):  # no policy could read them
        rewrite({f"chunk.{name}": torch.full_like(tensors[f"chunk.{name}"], wrong)})
        assert_refused(memory, path, f"{name} ")
    rewrite({}, radt_memory="3")
    assert_refused(memory, path, "'3'")
    rewrite({}, identity="{")
    assert_refused(memory, path, "damaged")
    rewrite({}, identity=json.dumps([1]))
    assert_refused(memory, path, "no memory of format 2")
    chunk = tensors["chunk.states"]
    for changes in (
        {"keys": None},
        {"entry.task": None},
        {"chunk.mask": None},
        {"entry.colour": torch.ones(18)},
        {"keys": tensors["keys"][:-1].clone()},
        {"entry.stop": tensors["entry.stop"][:-1].clone()},
        {"chunk.states": chunk[:, :-1].clone()},
        {"chunk.states": chunk.double()},
        {"keys": torch.full_like(tensors["keys"], torch.nan)},
        {"keys": tensors["keys"].double()},
        {"keys": tensors["keys"][:, :-1].clone()},
        {"entry.age": tensors["entry.age"].float()},
        {"entry.total_return": tensors["entry.total_return"].long()},
        {"entry.start": tensors["entry.start"][:, None].clone()},
        {"entry.task": tensors["entry.task"] - 1},
        {"entry.task": tensors["entry.task"] + (1 << 40)},  # a table of so many would not fit
    ):
        rewrite(changes)
        assert_refused(memory, path, "no complete memory")


def test_a_memory_that_drops_all_it_is_given_says_once_why() -> None:
    memory = new_memory(TOY_GRID, store_above=1000.0)
    lived = trials(TOY_GRID, 0, count=PATIENCE)
    for trial in lived[:-1]:
        assert memory.write([trial]) == 0
    with pytest.warns(RadtWarning, match="empty after 10 trials.*options.memory.store_above=1000"):
        memory.write(lived[-1:])
    memory.write(lived)  # once is enough
    keeps = new_memory(TOY_GRID)
    assert keeps.write(lived[:2]) == len(keeps) == 6


def test_only_what_stays_empty_is_spoken_of() -> None:
    memory = new_memory(TOY_REACH, store_above=0.0)
    assert memory.write(trials(TOY_REACH, 0))
    blank = [replace(trial, rewards=0 * trial.rewards) for trial in trials(TOY_REACH, 1, 12)]
    assert memory.write(blank) == 0


def test_returns_are_of_episodes_or_of_chunks() -> None:
    unit, returns = returns_by(filled(TOY_REACH).entries)
    assert (unit, len(returns)) == ("episodes", 6)
    chunks = filled(TOY_REACH, return_of="chunk").entries
    unit, returns = returns_by(chunks)
    assert (unit, len(returns)) == ("chunks", len(chunks))
    assert len(returns_by(Entries.none())[1]) == 0
