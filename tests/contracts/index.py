"""What every index must do, as functions of its constructor; a new index calls them all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from radt.memory.index import Index
from tests.memory.numpy_index import NumpyIndex

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


def assert_same(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> None:
    """Both found the same ids, and gave them the same relevance to the last bit."""
    assert torch.equal(ours[1], theirs[1])
    assert torch.equal(ours[0], theirs[0])


def check_empty(make: MakeIndex) -> None:
    """An empty index finds nothing, with or without a partition."""
    index, queries = make(WIDTH), torch.randn(3, WIDTH)
    assert len(index) == 0
    assert_nothing(*index.search(queries, 5), (3, 5))
    assert_nothing(*index.search(queries, 5, torch.tensor([0, 3, 7])), (3, 5))
    index.add(torch.zeros(0, WIDTH), torch.zeros(0, dtype=torch.int64))
    index.remove(torch.zeros(0, dtype=torch.int64))
    assert_nothing(*index.search(queries, 5), (3, 5))


def check_no_queries(make: MakeIndex) -> None:
    """No queries get no answers."""
    index = filled(make, torch.randn(600, WIDTH))
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


def check_all_asked_for(make: MakeIndex) -> None:
    """Whoever asks for all keys, or for more, is given them all."""
    index = filled(make, torch.randn(300, WIDTH))
    for k in (300, 350):
        ids = index.search(torch.randn(3, WIDTH), k)[1]
        assert all(sorted(row) == [*[-1] * (k - 300), *range(300)] for row in ids.tolist())


def check_one_key(make: MakeIndex) -> None:
    """One key is found by everyone, at its cosine, whatever its length."""
    index = filled(make, torch.tensor([[3.0, 0.0, 0.0, 4.0]]))
    relevance, ids = index.search(torch.tensor([[100.0, 0, 0, 0], [-0.01, 0, 0, 0]]), 1)
    assert ids.tolist() == [[0], [0]]
    torch.testing.assert_close(relevance, torch.tensor([[0.6], [-0.6]]), rtol=0, atol=1e-5)


def check_order_and_cosines(make: MakeIndex) -> None:
    """Answers fall in relevance, name each key once, and their relevance is the cosine."""
    keys, queries = torch.randn(400, WIDTH), torch.randn(6, WIDTH)
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


def check_refuses_bad_input(make: MakeIndex) -> None:
    """Whatever is refused is named, and nothing has changed."""
    index = make(WIDTH)
    index.add(torch.eye(WIDTH), torch.tensor([0, 1, 0, 1]), torch.tensor([2, 3, 5, 9]))
    keys, partition, zeros = torch.ones(2, WIDTH), torch.tensor([0, 1]), torch.zeros(2)
    before = index.search(keys, 6)
    for added, said in (
        ((torch.ones(2, 3), partition), r"\[n, 4\], not \[2, 3\]"),
        ((torch.ones(WIDTH), partition), r"\[n, 4\], not \[4\]"),
        ((keys, torch.tensor([0])), "partition must be 2 whole numbers"),
        ((keys, zeros), "partition must be 2 whole numbers"),
        ((keys, torch.tensor([0, -1])), "partition must be 0 or more, not -1"),
        ((keys, partition, torch.tensor([12])), "ids must be 2 whole numbers"),
        ((keys, partition, torch.tensor([-2, 12])), "ids must be 0 or more"),
        ((keys, partition, torch.tensor([9, 12])), "9 follows 9"),  # it is taken
        ((keys, partition, torch.tensor([12, 12])), "12 follows 12"),
        ((keys, partition, torch.tensor([4, 12])), "4 follows 9"),
    ):
        with pytest.raises(ValueError, match=said):
            index.add(*added)
    for asked, said in (
        ((torch.ones(2, 3), 1), r"\[n, 4\], not \[2, 3\]"),
        ((keys, 0), "k of at least 1"),
        ((keys, 1, torch.tensor([0])), "one number for each"),
    ):
        with pytest.raises(ValueError, match=said):
            index.search(*asked)
    for unknown in ([4], [2, 10], [-1]):
        with pytest.raises(ValueError, match="there is no entry"):
            index.remove(torch.tensor(unknown))
    assert len(index) == 4
    assert_same(index.search(keys, 6), before)


def check_partitions(make: MakeIndex) -> None:
    """A query that names a partition finds what an exact search of its keys alone finds."""
    keys, partition = torch.randn(900, WIDTH), torch.arange(900) % 3 * 2  # 0, 2 and 4
    index, queries = filled(make, keys, partition), torch.randn(6, WIDTH)
    index.search(queries, 12)
    asked = torch.tensor([0, 2, 4, 2, 1, 99])
    relevance, ids = index.search(queries, 400, asked)
    for row, part in enumerate(asked.tolist()):
        own = (partition == part).nonzero().squeeze(1)
        alone = NumpyIndex(WIDTH)
        alone.add(keys[own], torch.zeros_like(own), own)
        exact = alone.search(queries[row : row + 1], 400)
        assert_same((relevance[row : row + 1], ids[row : row + 1]), exact)
    assert_nothing(*index.search(queries[:1], 3, torch.tensor([-1])), (1, 3))


def check_duplicates(make: MakeIndex) -> None:
    """Equal keys are all found, as relevant as each other."""
    keys = torch.randn(1, WIDTH).repeat(5, 1)
    relevance, ids = filled(make, keys).search(keys[:1], 5)
    assert sorted(ids[0].tolist()) == [0, 1, 2, 3, 4]
    torch.testing.assert_close(relevance, torch.ones(1, 5), rtol=0, atol=1e-5)


def check_grows(make: MakeIndex) -> None:
    """Keys one by one, in parts or at once, with searches between: the same in the end."""
    keys, queries, partition = torch.randn(330, WIDTH), torch.randn(4, WIDTH), torch.arange(330) % 2
    whole = filled(make, keys, partition)
    for size in (1, 70):
        index = make(WIDTH)
        for part in torch.arange(330).split(size):
            index.add(keys[part], partition[part])
            if len(index) % 10 == 0:
                index.search(queries, 3)
                index.search(queries, 3, torch.tensor([0, 1, 0, 1]))
        assert len(index) == 330
        for asked in (None, torch.tensor([0, 1, 1, 0])):
            assert_same(index.search(queries, 6, asked), whole.search(queries, 6, asked))


def check_builds_the_same_again(make: MakeIndex) -> None:
    """The same keys give the same answers, each time it is built."""
    keys, queries = torch.randn(700, WIDTH), torch.randn(20, WIDTH)
    first, second = (filled(make, keys).search(queries, 15) for _ in range(2))
    assert_same(first, second)


def check_own_ids(make: MakeIndex) -> None:
    """Keys are found by the ids that they were given; without one they are counted on."""
    index, keys = make(WIDTH), torch.eye(WIDTH)
    index.add(keys[:2], torch.tensor([0, 0]), torch.tensor([5, 1 << 40]))
    index.add(keys[2:], torch.tensor([0, 0]))
    ids = index.search(keys, 1)[1]
    assert ids.tolist() == [[5], [1 << 40], [(1 << 40) + 1], [(1 << 40) + 2]]


def check_removes(make: MakeIndex) -> None:
    """What was removed is never found again; all others are, by the same ids."""
    keys, queries, partition = torch.randn(400, WIDTH), torch.randn(5, WIDTH), torch.arange(400) % 3
    index, ids = filled(make, keys, partition), torch.arange(400)
    index.search(queries, 5)
    asked = torch.tensor([0, 1, 2, 2, 0])
    for gone in (ids[3:7], ids[100:101], ids[200:390], ids[:3], ids[399:]):
        index.remove(gone)
        ids = ids[~torch.isin(ids, gone)]
        assert len(index) == len(ids)
        twin = NumpyIndex(WIDTH)
        twin.add(keys[ids], partition[ids], ids)
        assert_same(index.search(queries, 400, asked), twin.search(queries, 400, asked))
        assert_same(index.search(queries, 400), twin.search(queries, 400))  # more than there are
        assert not torch.isin(gone, index.search(keys[gone], 20)[1]).any()
    index.remove(ids)
    assert_nothing(*index.search(queries, 2), (5, 2))
    index.add(keys[:1], partition[:1])
    assert index.search(queries[:1], 2)[1].tolist() == [[400, -1]]  # an id never comes again


def check_ties(make: MakeIndex) -> None:
    """Of equally relevant keys the newest comes first."""
    keys = torch.tensor([[0.0, 1], [1.0, 0], [2.0, 0], [0.0, 5], [3.0, 0], [1.0, 1], [1.0, 1]])
    index = filled(make, keys)
    for k in range(1, 8):
        ids = index.search(torch.tensor([[7.0, 0], [0.0, 0.1], [0.0, 0.0]]), k)[1]
        assert ids[0].tolist() == [4, 2, 1, 6, 5, 3, 0][:k]
        assert ids[1].tolist() == [3, 0, 6, 5, 4, 2, 1][:k]
        assert ids[2].tolist() == list(range(7))[::-1][:k]


CHECKS = [check for name, check in list(vars().items()) if name.startswith("check_")]
