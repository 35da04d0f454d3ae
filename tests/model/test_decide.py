"""The sooner decision is the forward pass's, and a context read before is the same context."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.methods.trials import last_real
from radt.model.policy import DecisionTransformer
from tests.model.batches import SPACES, random_batch, small_model

ROWS, LENGTH = 4, 7


@pytest.mark.parametrize("retrieves", [False, True])
@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
@pytest.mark.parametrize("kind", ["discrete", "vector"])
@torch.no_grad()
def test_a_decision_is_what_the_forward_pass_says_of_the_last_real_step(
    kind: str, tokens: str, retrieves: bool
) -> None:
    rng = np.random.default_rng(0)
    model = small_model(SPACES[kind], retrieves, tokens=tokens).eval()
    recent = random_batch(SPACES[kind], rng, ROWS, LENGTH, torch.tensor([1, 3, 7, 6]))
    chunk = random_batch(SPACES[kind], rng, ROWS, LENGTH, torch.tensor([0, 2, 7, 5]))
    for retrieved in (None, chunk) if retrieves else (None,):
        expected = last_real(recent, model(recent, retrieved))
        torch.testing.assert_close(model.decide(recent, retrieved), expected)


@torch.no_grad()
def test_a_context_that_was_read_before_is_not_read_again() -> None:
    rng = np.random.default_rng(1)
    model = small_model(SPACES["discrete"], True).eval()
    recent, chunk = (random_batch(SPACES["discrete"], rng, ROWS, LENGTH, None) for _ in range(2))
    context = model.context(recent, chunk)
    assert context is not None
    read = model.trunk.read(context)
    assert len(read.read) == len(model.trunk.blocks)
    expected = model(recent, chunk)
    some = torch.tensor([2, 0])
    _forget_how_to_read(model)
    assert torch.equal(model(recent, read), expected)
    torch.testing.assert_close(model(recent.rows(some), read.rows(some)), expected[some])


def _forget_how_to_read(model: DecisionTransformer) -> None:
    for name, weight in model.named_parameters():
        if "key_value" in name:
            weight.fill_(torch.nan)
