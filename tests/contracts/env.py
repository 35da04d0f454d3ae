"""What every environment must do, as functions of a suite; a new environment calls them all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from radt.envs.suite import TaskSuite
from tests.toys import random_action


def check_describes_itself(suite: TaskSuite) -> None:
    """Names, splits and spaces are consistent, and an unknown task is refused by number."""
    assert isinstance(suite, TaskSuite)
    assert not set(suite.train_tasks) & set(suite.eval_tasks)
    tasks = (*suite.train_tasks, *suite.eval_tasks)
    assert all(suite.describe(task) for task in tasks)
    with pytest.raises(ValueError, match=str(max(tasks) + 1000)):
        suite.make(max(tasks) + 1000)
    with pytest.raises(ValueError, match="-1"):
        suite.make(-1)
    for task in (tasks[0], tasks[-1]):
        check_spaces(suite, task)


def check_spaces(suite: TaskSuite, task: int) -> None:
    """States and actions are of the shapes, types and bins that the suite promises."""
    env, spaces = suite.make(task), suite.spaces
    state, _ = env.reset(seed=0)
    assert env.observation_space.shape == spaces.state.shape == state.shape
    assert env.observation_space.dtype == spaces.state.dtype == state.dtype
    if spaces.state.kind == "discrete":
        assert isinstance(env.observation_space, gym.spaces.Box)
        assert tuple(env.observation_space.high.ravel() + 1) == spaces.state.bins
    if spaces.action.kind == "discrete":
        assert isinstance(env.action_space, gym.spaces.Discrete)
        assert env.action_space.n == spaces.action.size
    else:
        assert env.action_space.shape == spaces.action.shape
        assert 1 <= spaces.valid_action_dims(task) <= spaces.action.size


def check_checkers(env: gym.Env[Any, Any]) -> None:
    """The checkers of Gymnasium and of stable-baselines3 find nothing, not even a warning."""
    from stable_baselines3.common.env_checker import check_env as sb3_check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gymnasium_check_env(env)
        sb3_check_env(env, warn=True)


def check_deterministic(suite: TaskSuite, task: int, seed: int, steps: int = 200) -> None:
    """The same seed and actions give the same episodes."""
    assert _play(suite, task, seed, steps) == _play(suite, task, seed, steps)


def check_horizon(suite: TaskSuite, task: int) -> None:
    """No episode is longer than the horizon, and its last step reports the end."""
    rng = np.random.default_rng(0)
    env = suite.make(task)
    for seed in range(2):
        env.reset(seed=seed)
        for _ in range(suite.spaces.horizon):
            *_, terminated, truncated, _ = env.step(random_action(suite.spaces.action, rng))
            if terminated or truncated:
                break
        assert terminated or truncated


def check_vec_equals_single(
    suite: TaskSuite, tasks: Sequence[int], mode: AutoresetMode, steps: int
) -> None:
    """The vector environment returns what single ones return, step by step, infos included."""
    ours = suite.make_vec(tasks, autoreset_mode=mode)  # type: ignore[call-arg]
    makers = [partial(suite.make, task) for task in tasks]
    reference: SyncVectorEnv[Any, Any] = SyncVectorEnv(makers, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] is mode
    assert ours.single_observation_space == reference.single_observation_space
    assert ours.observation_space == reference.observation_space
    assert ours.action_space == reference.action_space
    rng = np.random.default_rng(0)
    assert_same(ours.reset(seed=7), reference.reset(seed=7))
    for step in range(steps):
        actions = np.stack([random_action(suite.spaces.action, rng) for _ in tasks])
        result = ours.step(actions)
        assert_same(result, reference.step(actions))
        over = np.logical_or(result[2], result[3])
        early = rng.random(len(tasks)) < 0.01  # so that the slots fall out of step
        mask = over | early if mode is AutoresetMode.DISABLED else early & ~over
        if mask.any():
            seeds = [int(step) if rng.random() < 0.5 else None for _ in tasks]
            first, second = ({"reset_mask": mask.copy()} for _ in range(2))
            ours_reset: Any = ours.reset  # Gymnasium's type hint knows one seed only
            assert_same(
                ours_reset(seed=seeds, options=first),
                reference.reset(seed=seeds, options=second),
            )


def check_slots_are_independent(suite: TaskSuite, task: int, steps: int) -> None:
    """What happens in a slot depends neither on the other slots nor on how many there are."""
    few, many = suite.make_vec([task] * 2), suite.make_vec([task] * 5)
    rng = np.random.default_rng(1)
    assert np.array_equal(few.reset(seed=3)[0], many.reset(seed=3)[0][:2])
    for _ in range(steps):
        actions = np.stack([random_action(suite.spaces.action, rng) for _ in range(5)])
        for one, other in zip(few.step(actions[:2])[:4], many.step(actions)[:4], strict=True):
            assert np.array_equal(one, other[:2])


def check_returned_arrays_are_not_reused(suite: TaskSuite, task: int) -> None:
    """A caller may keep or overwrite what `step` returns."""
    kept, fresh = suite.make_vec([task] * 3), suite.make_vec([task] * 3)
    rng = np.random.default_rng(2)
    kept.reset(seed=0)[0][:] = 0
    fresh.reset(seed=0)
    for _ in range(2 * suite.spaces.horizon + 3):
        actions = np.stack([random_action(suite.spaces.action, rng) for _ in range(3)])
        result, expected = kept.step(actions), fresh.step(actions)
        assert_same(result, expected)
        for array in result[:4]:
            array[:] = 0


def _play(suite: TaskSuite, task: int, seed: int, steps: int) -> list[Any]:
    """Record everything that random actions lead to, over as many episodes as it takes."""
    rng = np.random.default_rng(seed)
    env = suite.make(task)
    log: list[Any] = [env.reset(seed=seed)[0].tobytes()]
    for _ in range(steps):
        state, *rest = env.step(random_action(suite.spaces.action, rng))
        log.append((state.tobytes(), *rest))
        if rest[1] or rest[2]:
            log.append(env.reset()[0].tobytes())
    return log


def assert_same(one: Any, other: Any) -> None:
    """Compare nested results, their types included."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert one.shape == other.shape
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(one, other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
