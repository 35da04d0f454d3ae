"""Every index against its contract, and the exact ones against their NumPy twin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from radt.memory.index import GRID, INDEXES, FlatIndex, best_first, build_index, exact, group
from tests.contracts import index as contract
from tests.memory.numpy_index import NumpyIndex


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [*INDEXES.names(), "the referee"])
def test_contract(name: str, check: Callable[[contract.MakeIndex], None]) -> None:
    check(NumpyIndex if name == "the referee" else INDEXES[name])


def test_a_config_that_names_the_numpy_index_still_finds_the_same() -> None:
    assert INDEXES["numpy"] is FlatIndex


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_finds_the_same() -> None:
    keys, queries, task = torch.randn(5000, 8), torch.randn(20, 8), torch.arange(5000) % 3
    ours, twin = build_index("flat", 8, "cuda"), NumpyIndex(8)
    for index in (ours, twin):
        index.add(keys, task)
        index.remove(torch.arange(100))
    for part in (None, torch.arange(20) % 3):
        relevance, ids = ours.search(queries, 10, part)
        assert relevance.device.type == ids.device.type == "cuda"
        contract.assert_same((relevance.cpu(), ids.cpu()), twin.search(queries, 10, part))


def test_only_exact_search_in_torch_leaves_the_cpu() -> None:
    flat = build_index("flat", 4, "meta")
    assert isinstance(flat, FlatIndex)
    assert flat.table.device.type == "meta"
    for name in set(INDEXES.names()) - {"flat", "numpy"}:
        make = partial(build_index, name, device="meta")
        assert contract.filled(make, torch.eye(3)).search(torch.eye(3), 1)[1].T.tolist() == [
            [0, 1, 2]
        ]
    without_doubles = build_index("flat", 3, "mps")
    assert contract.filled(lambda _: without_doubles, torch.eye(3)).search(torch.eye(3), 1)
    with pytest.raises(ValueError, match="3 keys are on cpu"):
        without_doubles.to("cpu")  # type: ignore[attr-defined]


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


@pytest.mark.parametrize("short", [exact.SHORT, 4], ids=["partitions at once", "one by one"])
@settings(max_examples=60)
@given(search=searches())
def test_flat_equals_its_numpy_twin_exactly(search, short: int) -> None:
    keys, partition, queries, asked, k = search
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SHORT", short)
        patch.setattr(exact, "BLOCK", 16)
        patch.setattr(exact, "GROUP", 2)
        patch.setattr(exact, "MANY", 4)
        flat = contract.filled(FlatIndex, keys, partition)
        twin = contract.filled(NumpyIndex, keys, partition)
        for part in (None, asked):
            contract.assert_same(flat.search(queries, k, part), twin.search(queries, k, part))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12))
def test_what_is_asked_again_finds_what_has_come_and_gone_since(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    keys = torch.from_numpy(rng.integers(-1, 2, (6, 3)).astype(np.float32))  # many cosines tie
    flat, twin = FlatIndex(3), NumpyIndex(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SHORT", 2)
        patch.setattr(exact, "BLOCK", 4)
        patch.setattr(exact, "MANY", 2)
        for _ in range(25):
            new = torch.from_numpy(rng.integers(6, size=rng.integers(1, 6)))
            partition = torch.from_numpy(rng.integers(2, size=len(new)))
            gone = rng.choice(twin.ids, rng.integers(3)) if len(twin) and rng.random() < 0.3 else []
            for index in (flat, twin):
                index.add(keys[new], partition)
                index.remove(torch.tensor(np.unique(gone), dtype=torch.int64))
            query, asked = keys[rng.integers(2, size=1)], torch.from_numpy(rng.integers(2, size=1))
            contract.assert_same(flat.search(query, k, asked), twin.search(query, k, asked))


@pytest.mark.parametrize(("count", "each"), [(300, 10), (5000, 10), (5000, 2500)])
def test_flat_equals_its_numpy_twin_where_most_keys_tie(count: int, each: int) -> None:
    distinct = torch.randn(count // each, 16)
    keys = distinct[torch.randint(len(distinct), (count,))]  # every key so many times
    queries = torch.cat([distinct[:4], torch.randn(4, 16)])
    ours = contract.filled(FlatIndex, keys).search(queries, 25)
    contract.assert_same(ours, contract.filled(NumpyIndex, keys).search(queries, 25))


@pytest.mark.parametrize("length", [1e-30, 1e-11, 1.0, 1e30])
def test_single_precision_is_enough_for_keys_of_any_length(length: float) -> None:
    keys = torch.randn(3000, 8) * length * 10 ** torch.randn(3000, 1)
    queries = torch.randn(200, 8) / length
    ours = contract.filled(FlatIndex, keys).search(queries, 25)
    contract.assert_same(ours, contract.filled(NumpyIndex, keys).search(queries, 25))


def test_flat_knows_when_single_precision_cannot_be_trusted() -> None:
    keys, queries = torch.randn(2000, 8), torch.randn(5, 8)
    index = contract.filled(FlatIndex, keys)
    expected, before = index.search(queries, 9), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        contract.assert_same(index.search(queries, 9), expected)
    finally:
        torch.set_float32_matmul_precision(before)


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
    index, queries = contract.filled(FlatIndex, torch.randn(900, 8)), torch.randn(150, 8)
    together = index.search(queries, 10)[1]
    for row in range(0, 150, 10):
        assert torch.equal(index.search(queries[row : row + 1], 10)[1][0], together[row])


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Draw what happens to an index: how many keys come, and which share of them goes."""
    happens = st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 20))
    return draw(st.lists(happens, min_size=1, max_size=12))


@settings(max_examples=40)
@given(life=lives())
def test_an_index_equals_one_built_anew_from_what_is_left(life: list[tuple[str, int]]) -> None:
    rng = np.random.default_rng(len(life))
    index, keys, left, newest = FlatIndex(3), torch.zeros(0, 3), torch.zeros(0).long(), 0
    for what, number in life:
        if what == "add":
            ids = newest + torch.from_numpy(np.sort(rng.choice(40, number, replace=False)))
            new = torch.zeros(newest + 40 - len(keys), 3)
            keys = torch.cat([keys, new])
            keys[ids] = torch.from_numpy(rng.integers(-2, 3, (number, 3)).astype(np.float32))
            index.add(keys[ids], ids % 2, ids)
            left, newest = torch.cat([left, ids]), newest + 40
        else:
            gone = left[torch.from_numpy(rng.random(len(left)) < number / 20)]
            index.remove(gone)
            left = left[~torch.isin(left, gone)]
    anew = NumpyIndex(3)
    anew.add(keys[left], left % 2, left)
    queries = torch.from_numpy(rng.integers(-2, 3, (4, 3)).astype(np.float32))
    assert len(index) == len(anew)
    for asked in (None, torch.tensor([0, 1, 1, 0])):
        contract.assert_same(index.search(queries, 30, asked), anew.search(queries, 30, asked))
