"""Indexes that compare few keys: what they find, and that they are exact where they must be."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from radt.memory.index import INDEXES, ApproximateIndex, FlatIndex, Index, faiss_indexes
from tests.contracts import index as contract
from tests.memory.numpy_index import NumpyIndex

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


def mostly_equal(count: int) -> Tensor:
    distinct = on_a_curved_sheet(count // 50)
    equal = distinct[torch.randint(len(distinct), (count * 4 // 5,))]
    return torch.cat([equal, on_a_curved_sheet(count - len(equal))])[torch.randperm(count)]


def built(name: str, keys: Tensor) -> ApproximateIndex:
    index = contract.filled(INDEXES[name], keys, torch.arange(len(keys)) % 7)
    assert isinstance(index, ApproximateIndex)
    assert index.follow() is not None
    return index


def recall(index: Index, exact: Index, queries: Tensor, k: int) -> float:
    last = exact.search(queries, k)[0][:, -1:]
    return float((index.search(queries, k)[0] >= last - 1e-6).float().mean())


@pytest.mark.parametrize("kind", [on_a_curved_sheet, mostly_equal])
@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_neighbours_are_found(name: str, kind: Callable[[int], Tensor]) -> None:
    keys = kind(5000)
    index, exact = built(name, keys), contract.filled(FlatIndex, keys)
    queries = keys[:60] + 0.1 * keys[60:120]
    for k in (10, 50, 100):
        assert recall(index, exact, queries, k) >= 0.97
    wanted = faiss_indexes.MOST + 1
    contract.assert_same(index.search(queries, wanted), exact.search(queries, wanted))


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


def test_where_all_that_a_finder_names_were_removed_every_key_is_compared() -> None:
    keys = on_a_curved_sheet(1000)
    index, query = built("faiss-hnsw", keys), keys[:1]
    gone = index.search(query, 100)[1][0].sort().values
    index.remove(gone)
    left = torch.arange(1000)[~torch.isin(torch.arange(1000), gone)]
    exact = NumpyIndex(keys.shape[1])
    exact.add(keys[left], torch.zeros_like(left), left)
    contract.assert_same(index.search(query, 10), exact.search(query, 10))


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


def test_auto_compares_every_key_of_a_small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_indexes, "COMPARED", 100 * 64)
    keys, zeros = on_a_curved_sheet(300, width=64), torch.zeros(300, dtype=torch.int64)
    index = faiss_indexes.auto_index(64)
    assert isinstance(index, ApproximateIndex)
    index.add(keys[:100], zeros[:100])
    assert index.follow() is None
    index.add(keys[100:], zeros[100:])
    assert index.follow() is not None
    exact = contract.filled(FlatIndex, keys)
    contract.assert_same(index.search(keys[:9], 5), exact.search(keys[:9], 5))
    assert [faiss_indexes.choice(64, n) for n in (100, 101)] == ["flat", "faiss-ivf"]
    assert faiss_indexes.choice(128, 51) == "faiss-ivf"  # wider keys: sooner
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert type(faiss_indexes.auto_index(64)) is FlatIndex


def test_faiss_is_asked_for_by_name_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    index = contract.filled(INDEXES["faiss-hnsw"], torch.randn(300, 4))
    with pytest.raises(ImportError, match="radt\\[faiss\\]"):
        index.search(torch.randn(1, 4), 3)
