from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from radt.memory.hopfield import FrozenHopfield, Numbers, Similarity, TokenTable
from radt.model.tokens import binned

WORDS = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])  # E: 3 words, 2 dimensions


def hopfield(
    words: Tensor = WORDS,
    inputs: int = 2,
    beta: float = 10.0,
    similarity: Similarity = "cosine",
    seed: int = 0,
) -> FrozenHopfield:
    return FrozenHopfield(words, inputs, beta, similarity, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_equation_2_by_hand(similarity: Similarity) -> None:
    mechanism = hopfield(beta=0.5, similarity=similarity)
    mechanism.projection = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    x = torch.tensor([[3.0, 4.0]])
    # cosines of (3, 4) with the words: 0.6, 0.8, -0.6; products: 3, 8, -9
    scores = [0.6, 0.8, -0.6] if similarity == "cosine" else [3.0, 8.0, -9.0]
    weights = [math.exp(0.5 * score) for score in scores]
    a, b, c = (weight / sum(weights) for weight in weights)
    torch.testing.assert_close(mechanism(x), torch.tensor([[a - 3 * c, 2 * b]]))


def test_the_projection_is_drawn_from_the_seed_with_the_papers_spread() -> None:
    words = torch.randn(5, 64)
    one, same, other = (hopfield(words, 200, seed=seed).projection for seed in (0, 0, 1))
    assert one.shape == (64, 200)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert float(one.std()) == pytest.approx(math.sqrt(200 / 64), rel=0.05)


def test_an_input_of_zeros_is_the_mean_word() -> None:
    torch.testing.assert_close(hopfield()(torch.zeros(1, 2))[0], WORDS.mean(0))


def test_many_tokens_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(10, 2)
    whole = hopfield()(x)
    monkeypatch.setattr("radt.memory.hopfield.TOKENS_AT_ONCE", 3)
    torch.testing.assert_close(hopfield()(x), whole)


def test_discrete_numbers_become_one_hots_and_others_stay() -> None:
    values = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    expanded = Numbers(2, (3, 2)).expand(values)
    assert expanded.tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]
    assert Numbers(2, (3, 2)).inputs == 5
    assert Numbers(2).expand(values) is values
    assert Numbers(2).inputs == 2


def test_a_table_equals_direct_computation_and_computes_each_token_once() -> None:
    parts = (Numbers(2, (4, 3)), Numbers(1, (6,)), Numbers(1, (2,)))
    mechanism = hopfield(torch.randn(30, 8), 15)
    table = TokenTable(parts, mechanism)
    values = torch.stack([torch.randint(0, bins, (200,)) for bins in (4, 3, 6, 2)], dim=1).float()
    expanded = [
        torch.nn.functional.one_hot(values[:, i].long(), n) for i, n in enumerate((4, 3, 6, 2))
    ]
    direct = mechanism(torch.cat(expanded, dim=1).float())
    torch.testing.assert_close(table(values[:50]), direct[:50])
    seen = len(table)
    assert seen == len(values[:50].unique(dim=0))
    torch.testing.assert_close(table(values), direct)
    assert len(table) == len(values.unique(dim=0))
    table.hopfield = None  # type: ignore[assignment]
    torch.testing.assert_close(table(values), direct)  # all of them are looked up


def test_equal_numbers_that_are_not_discrete_are_computed_once_too() -> None:
    mechanism = hopfield(torch.randn(30, 8), 5)
    table = TokenTable((Numbers(3), Numbers(1, (2,))), mechanism)
    values = torch.cat([torch.randn(7, 3), torch.ones(7, 1)], dim=1).repeat(3, 1)
    ones = torch.tensor([[0.0, 1.0]]).expand(21, 2)
    torch.testing.assert_close(table(values), mechanism(torch.cat([values[:, :3], ones], dim=1)))
    assert len(table) == 7


def test_a_full_table_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radt.memory.hopfield.TOKENS_KEPT", 5)
    mechanism = hopfield()
    table = TokenTable((Numbers(2),), mechanism)
    for values in torch.randn(6, 3, 2):
        torch.testing.assert_close(table(values), mechanism(values))
        assert len(table) == 3
    many = torch.randn(9, 2)  # more than it may hold are held until the next ones come
    torch.testing.assert_close(table(many), mechanism(many))


def test_bins() -> None:
    values = torch.tensor([-1.0, 0.0, 0.4, 0.6, 1.0, 9.0])
    assert binned(values, 0.0, 1.0, 2).tolist() == [0, 0, 0, 1, 1, 1]
    assert binned(values, 0.0, 1.0, 11).tolist() == [0, 0, 4, 6, 10, 10]
