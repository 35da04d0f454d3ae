"""Deciding with a key-value cache answers as the full forward pass over two episodes does."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from radt.model.policy import DecisionTransformer, ModelConfig
from radt.model.stepwise import StepwisePolicy
from radt.model.tokens import episodes_ago
from radt.spaces import TaskSpaces
from radt.trajectory import Batch
from tests.model.batches import SPACES, random_batch

EARLIER = (0, 12, 3, 1, 7)  # steps of the episode before the current one, row by row
CURRENT = 6


def two_episode_model(spaces: TaskSpaces, **options: object) -> DecisionTransformer:
    given = {"layers": 2, "width": 16, "heads": 2, **options}
    model = DecisionTransformer(spaces, ModelConfig(**given), seed=0, episodes=2)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return model.eval()


def pairs(spaces: TaskSpaces, steps: int) -> Batch:
    """Draw, for each row, an earlier episode and the first `steps` steps of a current one."""
    rng = np.random.default_rng(0)
    longer = replace(spaces, horizon=2 * spaces.horizon)
    batch = random_batch(longer, rng, len(EARLIER), spaces.horizon + CURRENT, None)
    earlier, step = torch.tensor(EARLIER)[:, None], torch.arange(batch.mask.shape[1])
    time = torch.where(step < earlier, step, step - earlier)
    length = max(EARLIER) + steps
    return replace(batch, timesteps=time, mask=step < earlier + steps).steps(length)


def asked(batch: Batch, step: int, model: DecisionTransformer) -> Batch:
    """Cut what is known of each row's current episode at its state `step`, [B, 1]."""
    rows, at = torch.arange(len(batch)), torch.tensor(EARLIER) + step
    parts = {field.name: getattr(batch, field.name)[rows, at][:, None] for field in fields(batch)}
    parts["actions"] = batch.actions[rows, at - 1][:, None]
    parts["rewards"] = batch.rewards[rows, at - 1][:, None]
    return Batch(**parts)


@torch.no_grad()
@pytest.mark.parametrize("tokens", ["fused", "interleaved"])
@pytest.mark.parametrize("return_to_go", [False, True])
@pytest.mark.parametrize(
    ("kind", "head"),
    [("discrete", "mse"), ("vector", "mse"), ("vector", "gaussian"), ("vector", "bins")],
)
def test_every_decision_equals_the_full_forward(
    kind: str, head: str, return_to_go: bool, tokens: str
) -> None:
    spaces = SPACES[kind]
    options = {"tokens": tokens, "return_to_go": return_to_go, "action_head": head}
    model = two_episode_model(spaces, **options)
    whole, rows = pairs(spaces, CURRENT), torch.arange(len(EARLIER))
    full = model(whole)
    stepwise = StepwisePolicy(model, rows=7, steps=2 * spaces.horizon)
    slots = torch.tensor([5, 0, 6, 2, 3])  # some of the slots, in any order
    decided = stepwise.begin(pairs(spaces, 1), slots)
    for step in range(CURRENT):
        if step:
            some = rows[torch.randperm(len(rows))[:3]]  # whoever acts beside
            latest = asked(whole, step, model)
            stepwise.step(latest.rows(some), slots[some])
            decided = stepwise.step(latest, slots)  # asked again: nothing is read twice
        expected = full[rows, torch.tensor(EARLIER) + step]
        torch.testing.assert_close(decided, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_new_trial_sees_nothing_of_the_old_one() -> None:
    spaces = SPACES["discrete"]
    model, row = two_episode_model(spaces), torch.tensor([0])
    used, fresh = (StepwisePolicy(model, 1, 2 * spaces.horizon) for _ in range(2))
    long, short = pairs(spaces, 1).rows(torch.tensor([1])), pairs(spaces, 1).rows(row)
    used.begin(long, row)
    torch.testing.assert_close(used.begin(short, row), fresh.begin(short, row), rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_last_reward_of_the_earlier_episode_is_read() -> None:
    spaces = SPACES["discrete"]
    for tokens in ("fused", "interleaved"):
        model = two_episode_model(spaces, tokens=tokens)
        batch = pairs(spaces, 1).rows(torch.tensor([2]))
        rewards = batch.rewards.clone()
        rewards[0, EARLIER[2] - 1] += 1
        changed = model(replace(batch, rewards=rewards)) - model(batch)
        assert changed[0, EARLIER[2]].abs().max() > 1e-4


def test_episodes_are_counted_from_the_current_one() -> None:
    spaces = SPACES["discrete"]
    batch = pairs(spaces, 2)
    ago = episodes_ago(batch)
    for row, earlier in enumerate(EARLIER):
        assert ago[row][batch.mask[row]].tolist() == [1] * earlier + [0, 0]
    scrambled = batch.timesteps.clone()
    scrambled[~batch.mask] = 3
    assert torch.equal(episodes_ago(replace(batch, timesteps=scrambled)), ago)


@torch.no_grad()
def test_two_equal_episodes_are_told_apart() -> None:
    spaces = SPACES["discrete"]
    one = random_batch(spaces, np.random.default_rng(0), 1, spaces.horizon, None)
    twice = Batch(*(torch.cat([getattr(one, f.name)] * 2, dim=1) for f in fields(one)))
    with_table = two_episode_model(spaces, layers=1)
    tokens = with_table.embed(twice, past=True)[0]
    assert not torch.allclose(tokens[: spaces.horizon], tokens[spaces.horizon :])
    assert DecisionTransformer(spaces, ModelConfig(), seed=0).embed.episode is None
