"""What every index must do, as functions of its constructor; a new index calls them all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from radt.memory.index import Index

MakeIndex = Callable[[int], Index]
WIDTH = 4


def filled(make: MakeIndex, keys: Tensor, partition: Tensor | None = None) -> Index:
    """Add keys, all to partition 0 unless told otherwise."""
    index = make(keys.shape[1])
    index.add(keys, torch.zeros(len(keys), dtype=torch.int64) if partition is None else partition)
    return index


def assert_nothing(relevance: Tensor, ids: Tensor, shape: tuple[int, int]) -> None:
    """Nothing found: -inf and -1 everywhere."""
    assert relevance.shape == ids.shape == shape
    assert relevance.dtype == torch.float32
    assert ids.dtype == torch.int64
    assert (ids == -1).all()
    assert torch.isneginf(relevance).all()


def check_empty(make: MakeIndex) -> None:
    """An empty index finds nothing, with or without a partition."""
    index, queries = make(WIDTH), torch.randn(3, WIDTH)
    assert len(index) == 0
    assert_nothing(*index.search(queries, 5), (3, 5))
    assert_nothing(*index.search(queries, 5, torch.tensor([0, 3, 7])), (3, 5))


def check_no_queries(make: MakeIndex) -> None:
    """No queries get no answers."""
    index = filled(make, torch.randn(3, WIDTH))
    none = torch.zeros(0, WIDTH)
    assert_nothing(*index.search(none, 5), (0, 5))
    assert_nothing(*index.search(none, 5, torch.zeros(0, dtype=torch.int64)), (0, 5))


def check_fewer_than_asked_for(make: MakeIndex) -> None:
    """Fewer keys than k: all of them, best first, and then nothing."""
    keys = torch.eye(WIDTH)[:3]
    index = filled(make, keys)
    assert len(index) == 3
    relevance, ids = index.search(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 5)
    assert ids.tolist() == [[1, 2, 0, -1, -1]]
    expected = torch.tensor([3.0, 2.0, 1.0]) / 14**0.5
    torch.testing.assert_close(relevance[0, :3], expected, rtol=0, atol=1e-5)
    assert torch.isneginf(relevance[0, 3:]).all()


def check_one_key(make: MakeIndex) -> None:
    """One key is found by everyone, at its cosine, whatever its length."""
    index = filled(make, torch.tensor([[3.0, 0.0, 0.0, 4.0]]))
    relevance, ids = index.search(torch.tensor([[100.0, 0, 0, 0], [-0.01, 0, 0, 0]]), 1)
    assert ids.tolist() == [[0], [0]]
    torch.testing.assert_close(relevance, torch.tensor([[0.6], [-0.6]]), rtol=0, atol=1e-5)


def check_order_and_cosines(make: MakeIndex) -> None:
    """Answers fall in relevance, name each key once, and their relevance is the cosine."""
    keys, queries = torch.randn(40, WIDTH), torch.randn(6, WIDTH)
    relevance, ids = filled(make, keys).search(queries, 10)
    assert (relevance[:, :-1] >= relevance[:, 1:]).all()
    assert all(len(set(row)) == 10 for row in ids.tolist())
    cosine = torch.nn.functional.cosine_similarity(queries[:, None], keys[ids], dim=-1)
    torch.testing.assert_close(relevance, cosine, rtol=0, atol=1e-5)


def check_zero_vectors(make: MakeIndex) -> None:
    """The zero vector resembles nothing: its relevance is 0, as key and as query."""
    index = filled(make, torch.tensor([[0.0, 0, 0, 0], [1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
    relevance, ids = index.search(torch.tensor([[1.0, 0, 0, 0], [0.0, 0, 0, 0]]), 3)
    assert ids[0].tolist() == [1, 0, 2]
    assert relevance.tolist() == [[1, 0, -1], [0, 0, 0]]
    assert sorted(ids[1].tolist()) == [0, 1, 2]


def check_refuses_what_is_no_number(make: MakeIndex) -> None:
    """NaN and infinity are refused, as key and as query, and leave no trace."""
    index = filled(make, torch.eye(WIDTH))
    for bad in (torch.nan, torch.inf):
        vector = torch.tensor([[0.0, bad, 0.0, 1.0]])
        with pytest.raises(ValueError, match="NaN or infinity"):
            index.add(vector, torch.tensor([0]))
        with pytest.raises(ValueError, match="NaN or infinity"):
            index.search(vector, 1)
    assert len(index) == WIDTH


def check_partitions(make: MakeIndex) -> None:
    """A query that names a partition finds only its keys; an unknown partition is empty."""
    keys, partition = torch.randn(30, WIDTH), torch.arange(30) % 3 * 2  # 0, 2 and 4
    index, queries = filled(make, keys, partition), torch.randn(6, WIDTH)
    asked = torch.tensor([0, 2, 4, 2, 1, 99])
    relevance, ids = index.search(queries, 12, asked)
    for row, part in enumerate(asked.tolist()):
        own = (partition == part).nonzero().squeeze(1)
        alone = filled(make, keys[own]) if len(own) else make(WIDTH)
        best, which = alone.search(queries[row : row + 1], 12)
        torch.testing.assert_close(relevance[row], best[0], rtol=0, atol=1e-5)
        found = own[which[0][which[0] >= 0]]
        assert ids[row].tolist() == [*found.tolist(), *[-1] * (12 - len(found))]
    assert_nothing(*index.search(queries[:1], 3, torch.tensor([-1])), (1, 3))


def check_duplicates(make: MakeIndex) -> None:
    """Equal keys are all found, as relevant as each other."""
    keys = torch.randn(1, WIDTH).repeat(5, 1)
    relevance, ids = filled(make, keys).search(keys[:1], 5)
    assert sorted(ids[0].tolist()) == [0, 1, 2, 3, 4]
    torch.testing.assert_close(relevance, torch.ones(1, 5), rtol=0, atol=1e-5)


def check_grows(make: MakeIndex) -> None:
    """Keys may come in parts, between searches; ids count them in the order they came."""
    keys, queries = torch.randn(20, WIDTH), torch.randn(4, WIDTH)
    partition = torch.arange(20) % 2
    index = make(WIDTH)
    for part in torch.arange(20).split(7):
        index.add(keys[part], partition[part])
        index.search(queries, 3)
        index.search(queries, 3, torch.tensor([0, 1, 0, 1]))
    whole = filled(make, keys, partition)
    for asked in (None, torch.tensor([0, 1, 1, 0])):
        grown, at_once = index.search(queries, 6, asked), whole.search(queries, 6, asked)
        assert torch.equal(grown[1], at_once[1])
        torch.testing.assert_close(grown[0], at_once[0], rtol=0, atol=1e-6)


def check_ties(make: MakeIndex) -> None:
    """Of equally relevant keys the newest comes first; only exact indexes promise it."""
    keys = torch.tensor([[0.0, 1], [1.0, 0], [2.0, 0], [0.0, 5], [3.0, 0], [1.0, 1], [1.0, 1]])
    index = filled(make, keys)
    for k in range(1, 8):
        ids = index.search(torch.tensor([[7.0, 0], [0.0, 0.1], [0.0, 0.0]]), k)[1]
        assert ids[0].tolist() == [4, 2, 1, 6, 5, 3, 0][:k]
        assert ids[1].tolist() == [3, 0, 6, 5, 4, 2, 1][:k]
        assert ids[2].tolist() == list(range(7))[::-1][:k]
