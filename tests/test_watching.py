"""What an agent tells whoever watches it, and that watching changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import ActionRule, Agent, Target
from radt.runs.step_recorder import StepRecorder
from radt.viewer.live import Settings
from tests.contracts.method import OPTIONS, TINY, build_method
from tests.toys import TOY_GRID, TOY_REACH


def grid_agent(seed: int = 0) -> Agent:
    return Agent(build_method("ra-dt", TOY_GRID.spaces), Target(9.0, 1.0), seed=seed)


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=6),
    st.floats(0.05, 5),
    st.none() | st.floats(0.1, 1),
)
def test_chances_are_those_that_choosing_follows(
    logits: list[float], temperature: float, nucleus: float | None
) -> None:
    rule = ActionRule(temperature=temperature, nucleus=nucleus)
    values, exploring = torch.tensor([logits]), np.array([False])
    weights = rule.weigh(values, exploring)[0]
    ladder = np.cumsum(weights) / weights.sum()
    for share in (0.1, 0.5, 0.9):
        action = int(rule.choose(values, np.array([share]), exploring)[0])
        assert ladder[action] >= share - 1e-9
        assert action == 0 or ladder[action - 1] < share + 1e-9


def test_an_agent_says_how_likely_its_actions_were() -> None:
    agent = grid_agent()
    assert agent.action_probabilities is None
    action = agent.act([0, 0])
    assert agent.action_probabilities is not None
    assert agent.action_probabilities.shape == (1, TOY_GRID.spaces.action.size)
    assert agent.action_probabilities.sum() == pytest.approx(1)
    assert agent.action_probabilities[0, action] > 0
    agent.observe(0.0, False, False)
    assert agent.action_probabilities is None


def test_chances_are_the_ones_drawn_from_on_a_known_way() -> None:
    """The first of two rewards is found in trial 1: until it pays again, nobody explores."""
    drawn, explored = [], []

    class Noting(ActionRule):
        def choose(
            self, logits: Tensor, uniform: NDArray[np.float64], exploring: NDArray[np.bool_]
        ) -> NDArray[np.int64]:
            weights = self.weigh(logits, exploring)[0]
            drawn.append(weights / weights.sum())
            explored.append(bool(exploring[0]))
            return super().choose(logits, uniform, exploring)

    spaces = replace(TOY_GRID.spaces, solved_above=1.0)
    rule = Noting(temperature=0.5, explore_temperature=2.0)
    agent = Agent(build_method("ra-dt", spaces), Target(9.0), rule)
    for _ in range(2):
        for step in range(4):
            agent.act([0, step])
            assert agent.action_probabilities is not None
            np.testing.assert_array_equal(agent.action_probabilities[0], drawn[-1])
            agent.observe(float(step == 1), step == 3, False)
    assert explored == [True] * 4 + [False, False, True, True]
    assert not agent.trials.solved.any()


def test_continuous_actions_have_no_chances() -> None:
    agent = Agent(build_method("ra-dt", TOY_REACH.spaces), Target(9.0))
    agent.act(np.zeros(6, np.float32))
    assert agent.action_probabilities is None


@pytest.mark.parametrize("head", ["mse", "gaussian", "bins"])
def test_knobs_and_records_of_continuous_actions(head: str) -> None:
    options = {**OPTIONS["ra-dt"], "model": {**TINY, "action_head": head}}
    agent = Agent(build_method("ra-dt", TOY_REACH.spaces, options), Target(9.0))
    assert (Settings.of(agent).temperature is None) == (head == "mse")
    recorder = StepRecorder(agent)
    with recorder:
        action = agent.act(np.zeros(6, np.float32))
    recorder.see(np.zeros(1))
    noted = recorder.take(0)
    np.testing.assert_allclose(noted.actions[0], action, atol=1e-4)
    assert noted.probabilities == [None]


def test_an_abandoned_trial_is_begun_anew_with_the_same_noise() -> None:
    agent, calm = grid_agent(), grid_agent()
    for _ in range(3):
        agent.act([0, 0])
        agent.observe(1.0, False, False)
    agent.act([0, 1])
    agent.abandon()
    assert agent.memory is not None
    for _ in range(4):
        assert agent.act([0, 0]) == calm.act([0, 0])
        for one in (agent, calm):
            one.observe(0.0, False, False)
    assert agent.trials.trial.tolist() == [0]
    assert len(agent.memory) == 0


def test_a_witness_leaves_nothing_behind() -> None:
    agent, alone = grid_agent(), grid_agent()
    recorder = StepRecorder(agent)
    for step in range(30):
        state, ends = [step % 3, step % 4], step % 12 == 11
        with recorder:
            action = agent.act(state)
        recorder.see(np.array([float(step == 7)]))
        assert action == alone.act(state)
        for one in (agent, alone):
            one.observe(float(step == 7), ends, False)
    policy = agent.method.networks["policy"]
    assert not any(module._forward_hooks for module in policy.modules())
    part = recorder.take(0)
    assert (part.trial, part.start, len(part)) == (2, 0, 6)
    assert recorder.take(0) == type(part)(trial=2, start=6)
