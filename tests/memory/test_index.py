from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radt.memory.index import GRID, INDEXES, FaissIndex, FlatIndex, NumpyIndex, best_first, group
from tests.contracts import index as contract

CHECKS = [
    check
    for name, check in vars(contract).items()
    if name.startswith("check_") and name != "check_ties"  # Faiss breaks ties in its own way
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", INDEXES.names())
def test_contract(name: str, check) -> None:
    check(INDEXES[name])


@pytest.mark.parametrize("name", ["flat", "numpy"])
def test_ties_go_to_the_newest(name: str) -> None:
    contract.check_ties(INDEXES[name])


@st.composite
def searches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Draw small whole numbers as keys and queries, so that many cosines tie."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, rows, width = draw(st.integers(0, 60)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    partitions, most = draw(st.integers(1, 4)), draw(st.integers(1, 3))

    def numbers(n: int) -> Tensor:
        return torch.from_numpy(rng.integers(-most, most + 1, (n, width)).astype(np.float32))

    return (
        numbers(count),
        torch.from_numpy(rng.integers(0, partitions, count)),
        numbers(rows),
        torch.from_numpy(rng.integers(0, partitions + 1, rows)),
        draw(st.integers(1, 70)),
    )


@settings(max_examples=60)
@given(search=searches())
def test_flat_equals_its_numpy_twin_exactly(search) -> None:
    keys, partition, queries, asked, k = search
    flat = contract.filled(FlatIndex, keys, partition)
    twin = contract.filled(NumpyIndex, keys, partition)
    for part in (None, asked):
        ours, theirs = flat.search(queries, k, part), twin.search(queries, k, part)
        assert torch.equal(ours[1], theirs[1])
        assert torch.equal(ours[0], theirs[0])


@pytest.mark.parametrize("count", [300, 5000])
def test_flat_equals_its_numpy_twin_where_most_keys_tie(count: int) -> None:
    distinct = torch.randn(count // 10, 16)
    keys = distinct[torch.randint(len(distinct), (count,))]  # every key some ten times
    queries = torch.cat([distinct[:4], torch.randn(4, 16)])
    ours = contract.filled(FlatIndex, keys).search(queries, 25)
    theirs = contract.filled(NumpyIndex, keys).search(queries, 25)
    assert torch.equal(ours[1], theirs[1])
    assert torch.equal(ours[0], theirs[0])


def best_by_sorting(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Sort every row whole, the last column first, so that a stable sort leaves it there."""
    order = torch.sort(scores.flip(1), dim=1, descending=True, stable=True)
    return order.values[:, :k], scores.shape[1] - 1 - order.indices[:, :k]


@pytest.mark.parametrize("steps", [3, 1 << 20])  # cosines that all tie, and all that there are
@pytest.mark.parametrize("count", [1, 30, 4000])
def test_the_best_are_those_of_a_stable_sort(count: int, steps: int) -> None:
    scores = torch.randint(-steps, steps + 1, (20, count)) / GRID
    scores[:, torch.rand(count) < 0.2] = -torch.inf
    for k in (1, 7, 30, 5000):
        values, columns = best_first(scores, k)
        expected_values, expected_columns = best_by_sorting(scores, k)
        assert torch.equal(values, expected_values)
        real = torch.isfinite(values)  # which of the absent come first is nobody's concern
        assert torch.equal(columns[real], expected_columns[real])


def test_ids_are_grouped_by_partition() -> None:
    partition = torch.tensor([2, 0, 2, 2, 0])
    assert group(partition).tolist() == [[1, 4, -1], [-1] * 3, [0, 2, 3]]
    assert group(partition, 5).tolist() == [[1, 4, -1], [-1] * 3, [0, 2, 3], [-1] * 3, [-1] * 3]
    assert group(torch.zeros(0, dtype=torch.int64), 3).shape == (3, 0)


def test_the_order_does_not_depend_on_how_many_ask() -> None:
    index, queries = contract.filled(FlatIndex, torch.randn(500, 8)), torch.randn(20, 8)
    together = index.search(queries, 10)[1]
    for row in range(20):
        assert torch.equal(index.search(queries[row : row + 1], 10)[1][0], together[row])


@pytest.mark.parametrize("partitioned", [False, True])
def test_faiss_flat_agrees_with_ours(partitioned: bool) -> None:
    keys, queries = torch.randn(600, 32), torch.randn(20, 32)
    partition = torch.arange(600) % 5
    asked = torch.arange(20) % 5 if partitioned else None
    ours = contract.filled(FlatIndex, keys, partition).search(queries, 30, asked)
    faiss = contract.filled(FaissIndex, keys, partition).search(queries, 30, asked)
    torch.testing.assert_close(faiss[0], ours[0], rtol=0, atol=1e-5)
    assert (faiss[1] == ours[1]).float().mean() > 0.99  # neighbours within rounding may swap


def test_hnsw_finds_nearly_all_and_always_the_same() -> None:
    keys, queries = torch.randn(2000, 32), torch.randn(50, 32)
    exact = contract.filled(FlatIndex, keys).search(queries, 10)[1]
    runs = [contract.filled(INDEXES["faiss-hnsw"], keys).search(queries, 10) for _ in range(2)]
    assert torch.equal(runs[0][1], runs[1][1])
    assert torch.equal(runs[0][0], runs[1][0])
    hits = (runs[0][1][:, :, None] == exact[:, None, :]).any(2)
    assert hits.float().mean() >= 0.95
