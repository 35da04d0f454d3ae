"""Action heads: exact losses, padding, and what action rules make of decisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Categorical, Normal

from radt.action_rules import RULES, ActionRule, named_rule
from radt.errors import RunError
from radt.methods.method import head_of
from radt.model.heads import (
    CONTINUOUS,
    LEAST_LOG_STD,
    ActionHead,
    BinsHead,
    GaussianHead,
    HeadName,
    SoftmaxHead,
    action_head,
)
from radt.spaces import ActionSpace
from tests.contracts.method import build_method
from tests.toys import TOY_GRID, TOY_REACH

ACTIONS = ActionSpace("continuous", 4)
HEADS: list[HeadName] = list(CONTINUOUS)
STEPS = torch.tensor([[True, True, False], [True, False, False]])
VALID = torch.tensor([[True, False, False, False], [True, True, True, False]])
COUNTED = STEPS[..., None] & VALID[:, None]
NEVER = np.zeros(50, dtype=bool)


def head_and_outputs(name: HeadName, *rows: int) -> tuple[ActionHead, torch.Tensor]:
    head = action_head(ACTIONS, name)
    generator = torch.Generator().manual_seed(3)
    return head, head.read(3 * torch.randn(*rows, head.size, generator=generator))


def actions_like(*rows: int) -> torch.Tensor:
    return torch.rand(*rows, 4, generator=torch.Generator().manual_seed(5)) * 2 - 1


def test_the_gaussian_loss_is_the_likelihood_of_valid_dimensions() -> None:
    head, predicted = head_and_outputs("gaussian", 2, 3)
    actions = actions_like(2, 3)
    mean, log_std = predicted.chunk(2, dim=-1)
    expected = -Normal(mean, log_std.exp()).log_prob(actions)[COUNTED].mean()
    torch.testing.assert_close(head.loss(predicted, actions, STEPS, VALID), expected)
    everywhere = -Normal(mean, log_std.exp()).log_prob(actions)[STEPS].mean()
    torch.testing.assert_close(head.loss(predicted, actions, STEPS), everywhere)


def test_the_loss_of_bins_is_the_likelihood_of_valid_dimensions() -> None:
    head, predicted = head_and_outputs("bins", 2, 3)
    assert isinstance(head, BinsHead)
    actions = actions_like(2, 3)
    centres = torch.linspace(-1, 1, head.bins)
    nearest = (actions[..., None] - centres).abs().argmin(-1)
    probabilities = Categorical(logits=predicted.unflatten(-1, (4, head.bins)))
    expected = -probabilities.log_prob(nearest)[COUNTED].mean()
    torch.testing.assert_close(head.loss(predicted, actions, STEPS, VALID), expected)


@pytest.mark.parametrize("name", HEADS)
def test_padding_has_no_gradient_and_no_say(name: HeadName) -> None:
    head = action_head(ACTIONS, name)
    outputs = torch.randn(2, 3, head.size, requires_grad=True)
    actions = actions_like(2, 3)
    loss = head.loss(head.read(outputs), actions, STEPS, VALID)
    (gradient,) = torch.autograd.grad(loss, outputs)
    of_dimension = (
        gradient.unflatten(-1, (2, 4)).transpose(-1, -2)
        if name == "gaussian"
        else (gradient.unflatten(-1, (4, -1)))
    )  # [B, L, A, numbers]
    assert not of_dimension[~COUNTED].any()
    assert (of_dimension[COUNTED] != 0).all()
    elsewhere = torch.where(COUNTED, actions, 0.7)
    assert torch.equal(head.loss(head.read(outputs), elsewhere, STEPS, VALID), loss)


@given(st.floats(-50, 50), st.sampled_from(HEADS), st.sampled_from(RULES))
def test_actions_are_within_bounds(size: float, name: HeadName, rule: str) -> None:
    head = action_head(ACTIONS, name)
    decided = head.read(torch.full((3, head.size), size))
    uniform = np.linspace(0, 1 - 2**-53, 12).reshape(3, 4)
    exploring = np.array([True, False, True])
    for method in ("ra-dt", "ad"):
        actions = head.choose(decided, named_rule(rule, method), uniform, exploring)
        assert actions.shape == (3, 4)
        assert actions.dtype == np.float32
        assert (abs(actions) <= 1).all()


def test_stds_stay_above_their_floor_and_can_come_back() -> None:
    head = GaussianHead(ACTIONS)
    outputs = torch.full((1, 8), -6.0, requires_grad=True)
    log_std = head.read(outputs)[0, 4:]
    assert (log_std >= LEAST_LOG_STD).all()
    (gradient,) = torch.autograd.grad(log_std.sum(), outputs)
    assert (gradient[0, 4:] > 0).all()


@pytest.mark.parametrize("rule", [ActionRule(temperature=0.0), ActionRule(keep_best=1)])
def test_without_temperature_the_best_action_is_taken(rule: ActionRule) -> None:
    uniform = np.random.default_rng(0).random((50, 4))
    head, decided = head_and_outputs("gaussian", 50)
    np.testing.assert_array_equal(head.choose(decided, rule, uniform, NEVER), decided[:, :4])
    head, decided = head_and_outputs("bins", 50)
    best = decided.unflatten(-1, (4, -1)).argmax(-1).numpy()
    centres = np.linspace(-1, 1, decided.shape[1] // 4, dtype=np.float32)
    np.testing.assert_array_equal(head.choose(decided, rule, uniform, NEVER), centres[best])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_gaussian_is_sampled_with_its_std_times_the_temperature(temperature: float) -> None:
    head, log_std = GaussianHead(ActionSpace("continuous", 1)), -2.5
    decided = torch.tensor([[0.2, log_std]]).expand(20_000, 2)
    uniform = np.random.default_rng(0).random((20_000, 1))
    exploring = np.arange(20_000) % 2 == 0
    rule = ActionRule(temperature=temperature, explore_temperature=0.0)
    actions = head.choose(decided, rule, uniform, exploring)[:, 0]
    assert (actions[exploring] == np.float32(0.2)).all()
    assert actions[~exploring].mean() == pytest.approx(0.2, abs=0.01)
    assert actions[~exploring].std() == pytest.approx(temperature * np.exp(log_std), rel=0.03)


def test_a_nucleus_keeps_the_middle_of_a_gaussian() -> None:
    head, decided = GaussianHead(ActionSpace("continuous", 1)), torch.tensor([[0.0, -2.0]])
    uniform = np.array([[0.0], [0.5], [1 - 2**-53]])
    actions = head.choose(decided.expand(3, 2), ActionRule(nucleus=0.6827), uniform, NEVER[:3])
    np.testing.assert_allclose(actions[:, 0], np.exp(-2.0) * np.array([-1, 0, 1]), rtol=1e-3)


@pytest.mark.parametrize("name", ["gaussian", "bins"])
def test_what_others_do_changes_no_sample(name: HeadName) -> None:
    head, decided = head_and_outputs(name, 50)
    uniform = np.random.default_rng(0).random((50, 4))
    together = head.choose(decided, ActionRule(), uniform, NEVER)
    alone = [
        head.choose(decided[n : n + 1], ActionRule(), uniform[n : n + 1], NEVER[:1])
        for n in range(50)
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))
    other = head.choose(decided, ActionRule(), 1 - uniform, NEVER)
    assert (together != other).any()


def test_discrete_actions_have_their_own_head() -> None:
    discrete = ActionSpace("discrete", 3)
    assert isinstance(action_head(discrete), SoftmaxHead)
    with pytest.raises(RunError, match="leave it out"):
        action_head(discrete, "gaussian")


def test_who_has_no_head_decides_as_usual() -> None:
    assert head_of(build_method("random", TOY_GRID.spaces)).sampled
    assert not head_of(build_method("random", TOY_REACH.spaces)).sampled
    spaces = replace(TOY_REACH.spaces, horizon=7)
    assert head_of(build_method("dt", spaces)).size == 3
