"""Point robot: the goal is hidden, and only an agent that reacts to where it is gets back to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt import cli
from radt.collect.noisy_expert import NoisyExpertOptions, act_out
from radt.collect.rollout import episode_returns
from radt.envs import SUITES, PointRobotSuite
from radt.envs.hidden_goal import HORIZON, TRAINED
from radt.envs.point_robot import RADIUS, START, PointRobotVec, goals
from tests.contracts import env as contract

POINT_ROBOTS = PointRobotSuite.twins("point-robot")
SUITE = POINT_ROBOTS[0]
Choose = Callable[[int, PointRobotVec], Any]  # step, environments -> actions


def played(env: PointRobotVec, choose: Choose, seed: int) -> tuple[Any, Any]:
    """Play an episode in every slot: rewards [T, N] and actions [T, N, 2]."""
    env.reset(seed=seed)
    rewards, actions = [], []
    for step in range(HORIZON):
        actions.append(np.asarray(choose(step, env), np.float32))
        rewards.append(env.step(actions[-1])[1])
    return np.array(rewards), np.array(actions)


def test_random_actions_succeed_now_and_then() -> None:
    env, rng = SUITE.make_vec(SUITE.eval_tasks), np.random.default_rng(0)
    shape = (env.num_envs, 2)
    rewards = [played(env, lambda *_: rng.uniform(-1, 1, shape), seed)[0] for seed in range(20)]
    assert 0.05 < (np.sum(rewards, axis=1) > 0).mean() < 0.2


def test_replayed_actions_earn_less_than_half_of_the_expert() -> None:
    env = SUITE.make_vec(SUITE.eval_tasks)
    rewards, actions = played(env, lambda _, now: now.optimal_actions(), seed=0)
    again = np.mean([played(env, lambda t, _: actions[t], seed)[0].sum(0) for seed in (50, 100)])
    assert again < rewards.sum(axis=0).mean() / 2


@pytest.mark.parametrize("suite", POINT_ROBOTS, ids=lambda suite: suite.name)
def test_the_expert_is_about_optimal(suite: Any) -> None:
    env = suite.make_vec(suite.eval_tasks)
    earned = played(env, lambda _, now: now.optimal_actions(), seed=0)[0].sum(axis=0)
    best = np.array([suite.optimal_return(task) for task in suite.eval_tasks])
    assert abs(earned - best).max() < 5
    assert abs(earned.mean() - best.mean()) < 1
    states = env.reset(seed=3)[0]
    hindsight = [
        suite.optimal_actions(t, s[None], np.zeros(1))
        for t, s in zip(env.tasks, states, strict=True)
    ]
    assert np.allclose(np.concatenate(hindsight), env.optimal_actions(), atol=1e-6)


def test_a_quadrant_is_left_out() -> None:
    apart = (goals() > 0).all(axis=1)
    assert not apart[list(SUITE.train_tasks)].any()
    assert not apart[list(SUITE.splits["between"])].any()
    assert apart[list(SUITE.splits["apart"])].all()
    assert len(SUITE.train_tasks) == TRAINED
    assert len(SUITE.eval_tasks) == 40
    assert (abs(goals()).max(axis=1) - RADIUS / 2 > START).all()


def test_the_goal_is_not_in_the_data() -> None:
    options = NoisyExpertOptions(episodes=6)
    one, other = act_out(SUITE, (3, 3), options), act_out(SUITE, (3,), options)
    first, *_ = histories = [*one, *other]
    for history in histories:
        assert history.states.shape == (6 * HORIZON, 2)
        assert np.array_equal(history.states, first.states)
        returns = episode_returns(history)
        assert returns[-1] > 80
        assert returns[0] < returns[-1]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("suite", [POINT_ROBOTS[0], POINT_ROBOTS[3]], ids=lambda suite: suite.name)
def test_vector_equals_single(suite: Any, mode: AutoresetMode) -> None:
    tasks = (*suite.eval_tasks[:2], *suite.train_tasks[:3], suite.eval_tasks[0])
    contract.check_vec_equals_single(suite, tasks, mode, steps=2 * HORIZON + 30)


def test_it_keeps_the_contract() -> None:
    contract.check_describes_itself(SUITE)
    contract.check_slots_are_independent(SUITE, 7, HORIZON + 20)
    contract.check_returned_arrays_are_not_reused(SUITE, 0)
    contract.check_checkers(gym.make("radt/PointRobot-v0", task=201).unwrapped)
    assert gym.make_vec("radt/PointRobot-v0", num_envs=3).reset(seed=0)[0].shape == (3, 2)
    for name in (suite.name for suite in POINT_ROBOTS):
        assert cli.main(["envs", "check", name]) == 0
        assert name in SUITES.names()


BAD_ACTIONS = [
    (np.zeros((2, 3), np.float32), r"shape \(2, 2\), got float32 of shape \(2, 3\)"),
    (np.zeros((2, 2), np.int64), "got int64"),
    (np.full((2, 2), 5.0), r"leave \[-1, 1\], first at slot 0"),
    (np.array([[0.0, 0.0], [0.0, np.nan]]), "not finite numbers, first at slot 1"),
]


@pytest.mark.parametrize(("actions", "said"), BAD_ACTIONS)
def test_bad_actions_are_refused(actions: Any, said: str) -> None:
    env = SUITE.make_vec([0, 1])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        env.step(actions)
    with pytest.raises(ValueError, match="tasks 0 to 239, not 240"):
        SUITE.make(240)
    with pytest.raises(gym.error.ResetNeeded):
        SUITE.make_vec([0]).step(np.zeros((1, 2), np.float32))
