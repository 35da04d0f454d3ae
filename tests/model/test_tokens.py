"""What a token tells of its step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from radt.model.tokens import arrival_rewards
from tests.model.batches import SPACES, random_batch, small_model


def test_an_arrival_is_paid_by_the_step_before_it_in_the_same_chunk(
    rng: np.random.Generator,
) -> None:
    batch = random_batch(SPACES["discrete"], rng, 1, 6, None)
    two_chunks = replace(batch, timesteps=torch.tensor([[4, 5, 6, 0, 1, 2]]))
    paid = batch.rewards[0]
    expected = torch.stack([torch.tensor(0.0), paid[0], paid[1], torch.tensor(0.0), *paid[3:5]])
    torch.testing.assert_close(arrival_rewards(two_chunks)[0], expected)


def test_a_retrieved_step_tells_what_the_step_into_it_paid(rng: np.random.Generator) -> None:
    spaces = SPACES["discrete"]
    recent, chunk = (random_batch(spaces, rng, 2, length, None) for length in (3, 5))
    model = small_model(spaces, retrieves=True, arrival_reward=True).eval()
    model.embed_retrieved.reward.weight.data.zero_()  # type: ignore[union-attr]
    other = replace(chunk, rewards=chunk.rewards + 1)
    last = replace(chunk, rewards=chunk.rewards + torch.tensor([0, 0, 0, 0, 1.0]))
    with torch.no_grad():
        plain = model(recent, chunk)
        assert (model(recent, other) - plain).abs().max() > 1e-6
        torch.testing.assert_close(model(recent, last), plain)  # it leads into no step of these
