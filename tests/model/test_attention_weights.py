"""Attention seen from outside is the attention that the model uses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.model.attention import CrossAttention, merge_heads
from radt.model.attention_weights import attention_to_steps, attention_weights, looking
from tests.model.batches import SPACES, random_batch, small_model

LENGTHS = torch.tensor([5, 2, 0])


def test_the_weights_give_what_the_layer_gives(rng: np.random.Generator) -> None:
    layer = CrossAttention(width=8, heads=2, dropout=0.0).eval()
    x, context = (torch.from_numpy(rng.normal(size=(3, n, 8))).float() for n in (4, 6))
    mask = torch.arange(6) < torch.tensor([6, 3, 1])[:, None]
    read = layer.read(context)
    weights = attention_weights(layer, x, read, mask)  # [B, heads, L, M]
    torch.testing.assert_close(layer.project(merge_heads(weights @ read[1])), layer(x, read, mask))
    assert not weights[1, :, :, 3:].any()


@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
def test_every_decision_spends_all_its_attention(tokens: str, rng: np.random.Generator) -> None:
    spaces = SPACES["discrete"]
    model = small_model(spaces, retrieves=True, tokens=tokens)
    recent, chunks = random_batch(spaces, rng, 3, 4, None), random_batch(spaces, rng, 3, 5, LENGTHS)
    weights = attention_to_steps(model, recent, chunks)
    assert weights.shape == (3, 4, 5)
    spent = weights.sum(dim=2)
    torch.testing.assert_close(spent, torch.tensor([1.0, 1.0, 0.0])[:, None].expand(3, 4))
    assert not weights[1, :, 2:].any()


def test_looking_leaves_no_trace(rng: np.random.Generator) -> None:
    spaces = SPACES["discrete"]
    model = small_model(spaces, retrieves=True)
    recent, chunks = random_batch(spaces, rng, 2, 3, None), random_batch(spaces, rng, 2, 4, None)
    before = model(recent, chunks)
    with looking(model) as seen:
        during = model(recent, chunks)
    assert len(seen) == 2  # layers
    model(recent, chunks)
    assert len(seen) == 2
    torch.testing.assert_close(before, during, rtol=0, atol=0)
