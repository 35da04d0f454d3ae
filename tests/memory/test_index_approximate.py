"""Indexes that compare few keys: what they find, and that they are exact where they must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from radt.memory.index import INDEXES, FlatIndex, NumpyIndex, faiss_indexes
from radt.memory.index.approximate import ApproximateIndex
from tests.contracts import index as contract

NAMES = ["faiss-hnsw", "faiss-ivf"]


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let graphs and lists be built for few keys, so that small tests go through them."""
    monkeypatch.setattr(faiss_indexes, "BLOCK", 16)
    monkeypatch.setattr(faiss_indexes, "SMALLEST", 64)


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str, check: Callable[[contract.MakeIndex], None]) -> None:
    check(INDEXES[name])


def on_a_curved_sheet(count: int, width: int = 32) -> Tensor:
    """Draw keys that lie as those of an embedder do: wide, but with few degrees of freedom."""
    turn = torch.randn(4, width, generator=torch.Generator().manual_seed(0))
    return torch.tanh(torch.randn(count, 4) @ turn)


def built(name: str, keys: Tensor) -> Any:
    index = contract.filled(INDEXES[name], keys, torch.arange(len(keys)) % 7)
    assert isinstance(index, ApproximateIndex)
    index.follow()
    return index


def recall(index: ApproximateIndex, exact: FlatIndex, queries: Tensor, k: int) -> float:
    last = exact.search(queries, k)[0][:, -1:]
    return float((index.search(queries, k)[0] >= last - 1e-6).float().mean())


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_neighbours_are_found(name: str) -> None:
    keys, queries = on_a_curved_sheet(2000), on_a_curved_sheet(60)
    index, exact = built(name, keys), contract.filled(FlatIndex, keys)
    assert index.finder is not None
    assert recall(index, exact, queries, 50) >= 0.95
    assert recall(index, exact, queries, 300) >= 0.95  # more than lists were measured for


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_neighbours_are_found_where_most_keys_are_equal(name: str) -> None:
    distinct = on_a_curved_sheet(40)
    keys = torch.cat([distinct[torch.randint(40, (1600,))], on_a_curved_sheet(400)])
    keys = keys[torch.randperm(2000)]
    index, exact = built(name, keys), contract.filled(FlatIndex, keys)
    queries = keys[:60] + 0.1 * keys[60:120]
    assert recall(index, exact, queries, 50) >= 0.95


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_is_as_relevant_as_an_exact_search_says(name: str) -> None:
    keys, queries = on_a_curved_sheet(2000), on_a_curved_sheet(10)
    relevance, ids = built(name, keys).search(queries, 30)
    everything = contract.filled(FlatIndex, keys).search(queries, 2000)
    for row in range(len(queries)):
        exact = dict(zip(everything[1][row].tolist(), everything[0][row].tolist(), strict=True))
        assert relevance[row].tolist() == [exact[number] for number in ids[row].tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_is_searched_exactly_among_many(name: str) -> None:
    keys, partition = on_a_curved_sheet(2000), torch.arange(2000) % 50
    index, queries = contract.filled(INDEXES[name], keys, partition), on_a_curved_sheet(20)
    index.search(queries, 5)
    asked = torch.arange(20)
    twin = contract.filled(NumpyIndex, keys, partition)
    contract.assert_same(index.search(queries, 60, asked), twin.search(queries, 60, asked))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_built_anew_when_many_were_removed(name: str) -> None:
    keys, queries = on_a_curved_sheet(2000), on_a_curved_sheet(40)
    index, gone = built(name, keys), torch.arange(0, 2000, 2)
    first = index.finder
    index.remove(gone[:400])
    assert index.follow() is first
    assert not torch.isin(index.search(keys[gone[:400]], 20)[1], gone[:400]).any()
    index.remove(gone[400:])
    assert index.follow() is not first
    left = torch.arange(1, 2000, 2)
    exact = FlatIndex(keys.shape[1])
    exact.add(keys[left], torch.zeros_like(left), left)
    assert recall(index, exact, queries, 50) >= 0.95
    assert (index.search(queries, 50)[1] % 2 == 1).all()


def test_lists_are_made_anew_only_when_there_are_many_more_keys() -> None:
    keys = on_a_curved_sheet(256)
    index = INDEXES["faiss-ivf"](keys.shape[1])
    assert isinstance(index, ApproximateIndex)
    zeros, finders = torch.zeros(len(keys), dtype=torch.int64), []
    for part in (slice(0, 63), slice(63, 64), slice(64, 255), slice(255, 256)):
        index.add(keys[part], zeros[part])
        finders.append(index.follow())
    assert finders[0] is None
    assert finders[1] is finders[2] is not finders[3]
    assert [faiss_indexes.lists_for(4096), faiss_indexes.lists_for(1 << 22)] == [512, 16384]


@pytest.mark.parametrize("name", NAMES)
def test_who_was_measured_to_find_too_little_is_not_asked(name: str) -> None:
    keys, queries = on_a_curved_sheet(300), on_a_curved_sheet(5)
    index = built(name, keys)
    index.finder.found = 0.94
    index.finder.raw = None
    exact = contract.filled(FlatIndex, keys)
    contract.assert_same(index.search(queries, 7), exact.search(queries, 7))


def test_auto_compares_every_key_of_a_small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    (most, _), *_ = faiss_indexes.TABLE
    assert most is not None
    assert faiss_indexes.auto_plan(64, most) is None
    assert faiss_indexes.auto_plan(64, most + 1) == faiss_indexes.ivf_plan(most + 1)
    assert faiss_indexes.choice(512, most // 8) == "flat"
    assert faiss_indexes.choice(512, most // 8 + 1) == "faiss-ivf"  # wider keys: sooner
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert faiss_indexes.auto_index(64).plan(10**7) is None


def test_auto_changes_its_mind_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ((10, "flat"), (100, "faiss-hnsw"), (None, "faiss-ivf"))
    monkeypatch.setattr(faiss_indexes, "TABLE", table)
    keys = on_a_curved_sheet(300, width=64)
    index, zeros, kinds = faiss_indexes.auto_index(64), torch.zeros(300, dtype=torch.int64), []
    for part in (slice(0, 10), slice(10, 100), slice(100, 300)):
        index.add(keys[part], zeros[part])
        kinds.append(type(index.follow()).__name__)
    assert kinds == ["NoneType", "SmallWorld", "InvertedLists"]
    contract.assert_same(
        index.search(keys[:9], 5), contract.filled(FlatIndex, keys).search(keys[:9], 5)
    )


def test_faiss_is_asked_for_by_name_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    index = contract.filled(INDEXES["faiss-hnsw"], torch.randn(300, 4))
    with pytest.raises(ImportError, match="radt\\[faiss\\]"):
        index.search(torch.randn(1, 4), 3)
