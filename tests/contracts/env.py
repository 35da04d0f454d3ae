"""What every environment must do, as functions of a suite; a new environment calls them all."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from radt.envs.check import (
    declaration,
    spaces_are_as_declared,
    splits_are_disjoint,
    unknown_tasks_are_refused,
)
from radt.envs.suite import TaskSuite


def check_describes_itself(suite: TaskSuite) -> None:
    """What `radt envs check` looks at without playing much."""
    assert kept(declaration(suite))
    for check in (splits_are_disjoint, unknown_tasks_are_refused, spaces_are_as_declared):
        assert kept(check(suite))
    tasks = (*suite.train_tasks, *suite.eval_tasks)
    assert all(suite.describe(task) for task in tasks)


def kept(problems: Iterable[str]) -> bool:
    """Say that a check found nothing, or show what it found."""
    found = list(problems)
    assert found == []
    return True


def check_checkers(env: gym.Env[Any, Any]) -> None:
    """The checkers of Gymnasium and of stable-baselines3 find nothing, not even a warning."""
    from stable_baselines3.common.env_checker import check_env as sb3_check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gymnasium_check_env(env)
        sb3_check_env(env, warn=True)


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
        actions = suite.spaces.action.sample(len(tasks), rng)
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
        actions = suite.spaces.action.sample(5, rng)
        for one, other in zip(few.step(actions[:2])[:4], many.step(actions)[:4], strict=True):
            assert np.array_equal(one, other[:2])


def check_returned_arrays_are_not_reused(suite: TaskSuite, task: int) -> None:
    """A caller may keep or overwrite what `step` returns."""
    kept, fresh = suite.make_vec([task] * 3), suite.make_vec([task] * 3)
    rng = np.random.default_rng(2)
    kept.reset(seed=0)[0][:] = 0
    fresh.reset(seed=0)
    for _ in range(2 * suite.spaces.horizon + 3):
        actions = suite.spaces.action.sample(3, rng)
        result, expected = kept.step(actions), fresh.step(actions)
        assert_same(result, expected)
        for array in result[:4]:
            array[:] = 0


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
