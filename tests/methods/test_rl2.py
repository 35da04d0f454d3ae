"""RL2 is told the same in training and in use, forgets with the task, and learns online."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from radt.agent import Agent, Target
from radt.envs import SUITES
from radt.envs.key_door import KeyDoorVec
from radt.methods.rl2 import RL2, RL2Options, TrialSequences, learn_online
from tests.contracts.method import build_method, check_acting, roll_out
from tests.toys import TOY_ENCODED, TOY_GRID, TOY_IMAGE, TOY_REACH

SPACES, HORIZON = TOY_GRID.spaces, TOY_GRID.spaces.horizon
SMALL = RL2Options(trials=2, n_steps=12, sequences=4, units=8, n_epochs=2)
ACTIONS = SPACES.action.size


def sequences(tasks: tuple[int, ...], options: RL2Options = SMALL) -> TrialSequences:
    return TrialSequences(TOY_GRID.make_vec(tasks), SPACES, options)


def test_a_state_comes_with_what_led_there() -> None:
    env = sequences((0, 1))
    seen, _ = env.reset(seed=[0, 1])
    assert (seen[:, -ACTIONS - 2 : -1] == 0).all()  # nothing was done yet
    assert (seen[:, -1] == 1).all()
    assert (seen[:, : -ACTIONS - 2].sum(axis=1) == len(SPACES.state.bins)).all()  # one-hot
    seen, rewards, *_ = env.step(np.array([2, 1]))
    assert seen[:, -ACTIONS - 2 : -2].argmax(axis=1).tolist() == [2, 1]
    np.testing.assert_allclose(SMALL.reward_scale * seen[:, -2], rewards)
    assert (seen[:, -1] == 0).all()


def test_a_sequence_holds_trials_of_one_task() -> None:
    env = sequences((0, 1, 2))
    start, _ = env.reset(seed=[0, 1, 2])
    begins, cuts = [], []
    for _ in range(SMALL.trials * HORIZON):
        seen, _, terminated, cut, _ = env.step(np.full(3, 1))
        assert not terminated.any()
        begins.append(bool(seen[:, -1].all()))
        cuts.append(bool(cut.all()))
    steps = np.arange(1, SMALL.trials * HORIZON + 1)
    assert begins == (steps % HORIZON == 0).tolist()
    assert cuts == (steps == steps[-1]).tolist()
    again, _ = env.reset(options={"reset_mask": np.array([True, False, True])})
    np.testing.assert_array_equal(again[[0, 2]], start[[0, 2]])
    np.testing.assert_array_equal(again[1], seen[1])  # goes on


def test_a_new_sequence_begins_without_the_key() -> None:
    suite = SUITES["dark-key-door-10x10-persist"]
    vec = suite.make_vec([0, 1])
    assert isinstance(vec, KeyDoorVec)
    env = TrialSequences(vec, suite.spaces, SMALL)
    env.reset(seed=[0, 1])
    vec.has_key[:] = True
    env.reset(options={"reset_mask": np.array([True, False])})
    assert vec.has_key.tolist() == [False, True]


def test_the_actor_reads_what_training_shows() -> None:
    method, tasks = RL2(SPACES, SMALL, seed=3), (4, 5)
    env, twin = sequences(tasks), TOY_GRID.make_vec(tasks)
    agent = Agent(
        method, Target(9.0), slots=2, tasks=tasks, autoreset_mode=twin.metadata["autoreset_mode"]
    )
    networks = method.actor(2).networks
    carry, keep = networks.blank(2), torch.ones(1, 2)
    seen, _ = env.reset(seed=[0, 1])
    obs, _ = twin.reset(seed=[0, 1])
    for step in range(1, SMALL.trials * HORIZON):
        outputs, after = networks.act(torch.from_numpy(seen)[None], keep, carry)
        expected = outputs[0, 0].mT.clone()
        carry = type(carry)(*(part.clone() for part in after))
        actions = agent.act(obs)
        decided = agent._decided
        assert decided is not None
        torch.testing.assert_close(decided, expected)
        seen, *_ = env.step(actions)
        obs, rewards, terminated, truncated, _ = twin.step(actions)
        agent.observe(rewards, terminated, truncated)
        if step % HORIZON == 0:
            obs, rewards, terminated, truncated, _ = twin.step(agent.act(obs))  # which resets
            agent.observe(rewards, terminated, truncated)


def test_what_is_carried_ends_with_the_task() -> None:
    method = RL2(SPACES, SMALL, seed=3)
    _, _, agent = roll_out(method, TOY_GRID, (4, 5))
    actor = agent.actor
    assert any(part.any() for part in actor.carry)  # type: ignore[attr-defined]
    actor.forget(np.array([1]))
    for part in actor.carry:  # type: ignore[attr-defined]
        assert part[:, 0].any()
        assert not part[:, 1].any()


@pytest.mark.parametrize("suite", [TOY_GRID, TOY_ENCODED], ids=lambda suite: suite.name)
def test_acting(suite: object, tmp_path: Path) -> None:
    check_acting("rl2-online", suite, tmp_path, {"units": 8})  # type: ignore[arg-type]


@pytest.mark.parametrize("suite", [TOY_REACH, TOY_IMAGE], ids=lambda suite: suite.name)
def test_what_it_cannot_read_is_refused(suite: object) -> None:
    with pytest.raises(ValueError, match="discrete actions"):
        build_method("rl2", suite.spaces)  # type: ignore[attr-defined]


def test_recorded_histories_are_refused() -> None:
    method = RL2(SPACES, SMALL, seed=0)
    with pytest.raises(TypeError, match="learns online"):
        method.draw(4, np.random.default_rng(0))
    with pytest.raises(TypeError, match="learns online"):
        method.loss(None)


def test_learning_is_repeatable_and_pays() -> None:
    options = RL2Options(trials=3, n_steps=36, sequences=4, units=16, learning_rate=3e-3)
    one, other = (RL2(SPACES, options, seed=0) for _ in range(2))
    online = (learn_online(own, TOY_GRID, TOY_GRID.train_tasks, 120, 0) for own in (one, other))
    first, second = online
    told = [next(first), next(first)]
    assert told == [next(second), next(second)]
    assert torch.equal(one.policy.weights, other.policy.weights)
    told += first
    assert [done for done, _ in told] == list(range(4, 121, 4))
    earned = [facts["reward_per_step"] for _, facts in told]
    assert np.mean(earned[-5:]) > 1.3 * np.mean(earned[:5])
