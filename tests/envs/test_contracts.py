"""Every registered environment, and every toy, keeps the contract."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt.envs import DARK_ROOMS, KEY_DOORS, MAZES
from radt.envs.check import episodes_end_by_the_horizon, seeds_reproduce
from radt.envs.suite import TaskSuite
from tests.contracts import env as contract
from tests.toys import TOYS, histories

GRIDS: list[TaskSuite] = [*DARK_ROOMS, *KEY_DOORS, *MAZES]
SHOWN = [suite.privileged for suite in KEY_DOORS if suite.room.width == 10]
MIDDLE = ("dark-room-20x20", "dark-key-door-20x20", "dark-key-door-20x20-persist")
CORNERS = [suite for suite in GRIDS if suite.name not in (*MIDDLE, "dark-key-door-40x20-persist")]
ALL = pytest.mark.parametrize(  # the rules of those left out are those of a smaller or larger room
    "suite",
    [*CORNERS, *SHOWN, *TOYS],
    ids=lambda suite: f"{suite.name}-{suite.spaces.state.shape[0]}",
)
SIZES = ("10x10", "20x20", "40x20")
IDS = [f"radt/Dark{kind}-{size}-v0" for kind in ("Room", "KeyDoor") for size in SIZES]


@pytest.mark.parametrize("suite", [*GRIDS, *TOYS], ids=lambda suite: suite.name)
def test_suite_describes_itself(suite: TaskSuite) -> None:
    contract.check_describes_itself(suite)


@ALL
def test_episodes_are_deterministic(suite: TaskSuite) -> None:
    assert contract.kept(seeds_reproduce(suite))


@ALL
def test_episodes_end_at_the_horizon(suite: TaskSuite) -> None:
    assert contract.kept(episodes_end_by_the_horizon(suite))


@ALL
@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_equals_single(suite: TaskSuite, mode: AutoresetMode) -> None:
    tasks = (*suite.eval_tasks[:2], *suite.train_tasks[:3], suite.eval_tasks[0])
    contract.check_vec_equals_single(suite, tasks, mode, steps=suite.spaces.horizon * 2 + 30)


@ALL
def test_slots_are_independent(suite: TaskSuite) -> None:
    contract.check_slots_are_independent(suite, suite.eval_tasks[1], suite.spaces.horizon + 20)


@ALL
def test_returned_arrays_are_not_reused(suite: TaskSuite) -> None:
    contract.check_returned_arrays_are_not_reused(suite, suite.train_tasks[0])


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("rules", [{}, {"random_start": True, "slip": 0.2, "end": "truncated"}])
def test_checkers_are_clean(env_id: str, rules: dict[str, Any]) -> None:
    contract.check_checkers(gym.make(env_id, task=85, render_mode="rgb_array", **rules).unwrapped)


@pytest.mark.parametrize("suite", CORNERS, ids=lambda suite: suite.name)
def test_checkers_are_clean_for_suites(suite: TaskSuite) -> None:
    env = suite.make(0)
    env.spec = gym.spec(IDS[0])
    contract.check_checkers(env)


@pytest.mark.parametrize("suite", TOYS, ids=lambda suite: suite.name)
def test_toy_histories_fit_their_spaces(suite: TaskSuite) -> None:
    history = histories(suite, episodes=3)
    assert tuple(history) == suite.train_tasks
    for task, episodes in history.items():
        for number, episode in enumerate(episodes):
            assert (episode.task, episode.episode) == (task, number)
            assert len(episode) == suite.spaces.horizon
            assert episode.states.shape[1:] == suite.spaces.state.shape
            assert episode.states.dtype == suite.spaces.state.dtype
            assert episode.actions.shape[1:] == suite.spaces.action.shape
            assert episode.actions.dtype == suite.spaces.action.dtype
    again = histories(suite, episodes=3)
    assert all(
        np.array_equal(a.states, b.states) and np.array_equal(a.actions, b.actions)
        for task in history
        for a, b in zip(history[task], again[task], strict=True)
    )


def test_padding_never_reaches_the_continuous_toy() -> None:
    suite = TOYS[1]
    for task in (0, 1, 2):
        valid = suite.spaces.valid_action_dims(task)
        one, other = suite.make(task), suite.make(task)
        assert np.array_equal(one.reset(seed=0)[0], other.reset(seed=0)[0])
        action = np.full(3, 0.5, np.float32)
        padded = np.where(np.arange(3) < valid, action, -1.0).astype(np.float32)
        state, reward = one.step(action)[:2]
        other_state, other_reward = other.step(padded)[:2]
        assert np.array_equal(state, other_state)
        assert reward == other_reward
        assert not state[2 * valid :].any()
