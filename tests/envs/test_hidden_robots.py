"""Arms whose goal is hidden: nothing that is seen tells of it, and replaying does not find it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt.collect.noisy_expert import NoisyExpertOptions, act_out
from radt.collect.rollout import episode_returns
from radt.envs import SUITES, HiddenRobotSuite
from radt.envs.hidden_goal import HORIZON, TRAINED
from radt.envs.hidden_robots import CENTRE, HALF, ROBOTS, finger, reacher_goals
from tests.contracts import env as contract
from tests.envs.test_robots import simulated

SUITES_OF = {name: HiddenRobotSuite.twins(f"{name}-hidden", robot=name) for name in ROBOTS}
EACH = pytest.mark.parametrize("robot", ROBOTS)
FEW = (0, 7, 60, 150)  # training goals


@EACH
def test_a_region_is_left_out(robot: str) -> None:
    suite, goals = SUITES_OF[robot][0], ROBOTS[robot].goals()
    apart = (goals - (CENTRE if robot == "reach" else 0.0))[:, [0, -1]].min(axis=1) > 0
    assert (len(suite.train_tasks), len(suite.eval_tasks)) == (TRAINED, 40)
    assert not apart[[*suite.train_tasks, *suite.splits["between"]]].any()
    assert apart[list(suite.splits["apart"])].all()
    assert len(np.unique(goals, axis=0)) == len(goals)


def test_goals_lie_where_the_simulators_own_do() -> None:
    assert (abs(ROBOTS["reach"].goals() - CENTRE) <= HALF).all()
    far = np.linalg.norm(reacher_goals(), axis=1)
    assert 0.05 <= far.min() < 0.06
    assert 0.19 < far.max() <= 0.2


@simulated
@EACH
def test_it_keeps_the_contract(robot: str) -> None:
    suite = SUITES_OF[robot][0]
    assert SUITES[suite.name].spaces == suite.spaces
    contract.check_describes_itself(suite)
    contract.check_slots_are_independent(suite, 7, HORIZON + 5)
    env = gym.make(f"radt/{robot.title()}Hidden-v0")
    contract.check_checkers(env.unwrapped)
    env.close()


@simulated
@EACH
@pytest.mark.parametrize("twin", [0, pytest.param(3, marks=pytest.mark.long)])
def test_vector_equals_single(robot: str, twin: int) -> None:
    suite = SUITES_OF[robot][twin]
    contract.check_vec_equals_single(suite, (3, 201, 3), AutoresetMode.NEXT_STEP, HORIZON + 10)


@simulated
@EACH
def test_the_goal_changes_rewards_and_nothing_that_is_seen(robot: str) -> None:
    hidden, visible = SUITES_OF[robot][0], SUITES_OF[robot][2]
    env, rng = hidden.make_vec(FEW), np.random.default_rng(0)
    begun = env.reset(seed=[5] * len(FEW))[0]
    shown, _ = visible.make_vec(FEW).reset(seed=[5] * len(FEW))
    width = hidden.spaces.state.shape[0]
    assert (begun == begun[0]).all()
    assert np.array_equal(shown[:, :width], begun)
    assert np.allclose(shown[:, width:], env.goals)
    for _ in range(10):
        states, *_, infos = env.step(
            np.repeat(rng.uniform(-1, 1, (1, env.spaces.action.size)), 4, 0)
        )
        assert (states == states[0]).all()
        assert not infos
    env.close()


@simulated
@EACH
def test_starts_vary_or_not(robot: str) -> None:
    for suite, alike in zip(SUITES_OF[robot][:2], (False, True), strict=True):
        env = suite.make_vec((0, 1))
        first = env.reset(seed=5)[0]
        assert np.array_equal(env.reset()[0], first) is alike
        assert np.array_equal(env.reset(seed=5)[0], first)
        env.close()


@simulated
@EACH
def test_replayed_actions_earn_less_than_half_of_the_expert(robot: str) -> None:
    env = SUITES_OF[robot][0].make_vec(FEW)
    env.reset(seed=0)
    earned, actions = 0.0, []
    for _ in range(HORIZON):
        actions.append(env.optimal_actions())
        earned += env.step(actions[-1])[1].mean()
    env.reset()
    again = sum(env.step(action)[1].mean() for action in actions)
    assert earned > 70
    assert again < earned / 2
    env.close()


@simulated
def test_the_finger_is_where_the_simulator_says() -> None:
    from envpool import make_gymnasium

    pool = make_gymnasium(ROBOTS["reacher"].pool, num_envs=1, seed=3)
    seen, _ = pool.reset()
    places = []
    for _ in range(5):  # the pool's own target stands still, so that the finger tells of itself
        places.append(finger(ROBOTS["reacher"].read(seen)) + seen["to_target"][0])
        seen, *_ = pool.step(np.ones((1, 2)))
    assert np.allclose(places, places[0])


@simulated
@EACH
def test_data_improve_and_hold_no_goal(robot: str) -> None:
    suite = SUITES_OF[robot][0]
    (history,) = act_out(suite, (3,), NoisyExpertOptions(episodes=3))
    assert history.states.shape == (3 * HORIZON, ROBOTS[robot].width)
    returns = episode_returns(history)
    assert returns[-1] > 60
    assert returns[0] < returns[-1]
    hindsight = suite.optimal_actions(3, history.states, history.rewards)
    same = np.isclose(hindsight, history.actions, atol=1e-5).all(axis=1)
    assert same[2 * HORIZON :].all()  # the last episode is the expert's own
    assert not same[:HORIZON].any()


@EACH
def test_unknown_tasks_are_named(robot: str) -> None:
    suite = SUITES_OF[robot][0]
    with pytest.raises(ValueError, match=f"{suite.name} has tasks 0 to 239, not 240"):
        suite.make(240)
