"""Meta-World and DMControl: the contract, what is masked, what is refused, what is told."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode

from radt import cli
from radt.collect.noisy_expert import NoisyExpertOptions, act_out
from radt.collect.record import record_histories
from radt.collect.rollout import episode_returns
from radt.data import Dataset
from radt.envs import ROBOTS, SUITES, dm_control, meta_world
from radt.envs.pools import DM_CONTROL, META_WORLD, PoolVec
from radt.envs.suite import for_data, scoring_of, task_targets_of
from radt.errors import MissingError, RunError
from tests.contracts import env as contract

WORLD, CONTROL = ROBOTS
INSTALLED = find_spec("envpool") is not None and find_spec("metaworld") is not None
simulated = pytest.mark.skipif(
    not INSTALLED and not os.environ.get("RADT_NEED_CONTROL"),
    reason="envpool and metaworld are not installed; `make setup` installs them",
)
BOTH = pytest.mark.parametrize("suite", ROBOTS, ids=lambda suite: suite.name)


def world(*names: str) -> tuple[int, ...]:
    return tuple(meta_world.NAMES.index(name) for name in names)


def test_tasks_are_the_papers() -> None:
    assert (len(WORLD.train_tasks), len(WORLD.eval_tasks)) == (45, 5)
    assert (len(CONTROL.train_tasks), len(CONTROL.eval_tasks)) == (11, 5)
    assert set(meta_world.NAMES) == set(META_WORLD)
    assert set(dm_control.NAMES) == set(DM_CONTROL)
    assert {CONTROL.describe(task) for task in CONTROL.eval_tasks} == set(dm_control.DMC5)
    assert {WORLD.spaces.horizon, CONTROL.spaces.horizon} == {200, 1000}


@BOTH
def test_scores_are_normalised_by_reference_returns(suite: Any) -> None:
    scoring = scoring_of(suite)
    assert scoring.kind == "data-normalised"
    assert all(scoring.low[task] < scoring.high[task] for task in range(len(scoring.low)))
    assert task_targets_of(suite) == "data"
    assert scoring_of(WORLD).high[world("box-close")[0]] == 550.25


@simulated
@BOTH
def test_it_keeps_the_contract(suite: Any) -> None:
    contract.check_describes_itself(suite)
    contract.check_slots_are_independent(suite, suite.eval_tasks[1], 40)


@simulated
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize(
    "suite",
    [WORLD, pytest.param(CONTROL, marks=pytest.mark.long)],
    ids=["meta-world", "dm-control"],
)
def test_vector_equals_single(suite: Any, mode: AutoresetMode) -> None:
    tasks = (suite.eval_tasks[0], suite.train_tasks[1], suite.eval_tasks[0])
    contract.check_vec_equals_single(suite, tasks, mode, steps=suite.spaces.horizon + 30)


@simulated
@pytest.mark.parametrize(
    "name", ["MetaWorld-door-unlock", "MetaWorld-reach", "DMControl-walker-walk"]
)
def test_ids_are_known_and_checkers_are_clean(name: str) -> None:
    env = gym.make(f"radt/{name}-v0")
    contract.check_checkers(env.unwrapped)
    env.close()
    many = gym.make_vec(f"radt/{name}-v0", num_envs=2)
    assert many.reset(seed=0)[0].shape == (2, *env.observation_space.shape)
    many.close()


@simulated
@BOTH
def test_the_verb_finds_nothing(suite: Any) -> None:
    assert cli.main(["envs", "check", suite.name]) == 0


@simulated
def test_trials_begin_alike_and_episodes_of_data_do_not() -> None:
    for suite, alike in ((WORLD, True), (for_data(WORLD), False)):
        env = suite.make_vec(world("push", "reach"))
        first = env.reset(seed=5)[0]
        again = env.reset()[0]
        assert np.array_equal(first, again) is alike
        assert np.array_equal(env.reset(seed=5)[0], first)
        other = env.reset(seed=6)[0]
        assert not np.array_equal(other[0], first[0])
        env.close()
    assert for_data(CONTROL) is CONTROL


@simulated
def test_the_goal_is_masked_and_only_experts_see_it() -> None:
    env = WORLD.make_vec(world("reach", "door-unlock"))
    states, _ = env.reset(seed=0)
    assert not states[:, meta_world.GOAL].any()
    assert env._unmasked[:, meta_world.GOAL].all()
    solved = np.zeros(2)
    for _ in range(200):
        states, _, terminated, truncated, infos = env.step(env.optimal_actions())
        assert not states[:, meta_world.GOAL].any()
        solved = np.maximum(solved, infos["success"])
        assert not terminated.any()
    assert truncated.all()
    assert solved.all()
    env.close()


@simulated
def test_data_are_whole_episodes_of_one_length(tmp_path: Path) -> None:
    record_histories(
        WORLD, NoisyExpertOptions(tasks=2, episodes=3), tmp_path, quiet=True, source="expert"
    )
    episodes = Dataset.open(tmp_path, WORLD.train_tasks[:2]).episodes
    assert episodes.length.tolist() == [200] * 6
    (history,) = act_out(for_data(WORLD), world("reach"), NoisyExpertOptions(episodes=4))
    starts = history.states[::200]  # no row is one that EnvPool begins anew with
    assert not history.states[:, meta_world.GOAL].any()
    assert np.array_equal(starts[:, :18], starts[:, 18:36])  # nothing was before
    assert len(np.unique(starts, axis=0)) == 4
    assert np.diff(episode_returns(history)).sum() > 500


@simulated
def test_each_kind_of_observation_has_its_place() -> None:
    env = CONTROL.make_vec(range(len(dm_control.NAMES)))
    states, _ = env.reset(seed=0)
    assert states.shape == (16, sum(dm_control.WIDTHS.values()))
    for task, pool in enumerate(env._pools):
        seen = {kind: space.shape for kind, space in pool.observation_space.spaces.items()}
        used = np.zeros(states.shape[1], bool)
        for kind, shape in seen.items():
            size = int(np.prod(shape))
            assert size <= dm_control.WIDTHS[kind]
            used[dm_control.PLACES[kind] :][:size] = True
        assert not states[task, ~used].any()
        assert pool.action_space.shape == (CONTROL.spaces.valid_action_dims(task),)
    env.close()


@simulated
def test_padded_dimensions_of_an_action_do_nothing() -> None:
    one, other = (CONTROL.make_vec([1, 0]) for _ in range(2))  # a cart-pole, a ball in a cup
    one.reset(seed=0)
    other.reset(seed=0)
    actions = np.full((2, 6), 0.5, np.float32)
    padded = actions.copy()
    padded[0, 1:] = padded[1, 2:] = -1.0
    for _ in range(5):
        for mine, theirs in zip(one.step(actions)[:2], other.step(padded)[:2], strict=True):
            assert np.array_equal(mine, theirs)
    one.close()
    other.close()


BAD_ACTIONS = [
    (np.zeros((1, 3), np.float32), "shape"),
    (np.zeros((1, 4), np.int64), "int64"),
    (np.full((1, 4), 5.0, np.float32), r"leave \[-1, 1\]"),
    (np.full((1, 4), np.nan, np.float32), "not finite"),
]


@simulated
@pytest.mark.parametrize(("actions", "said"), BAD_ACTIONS)
def test_bad_actions_never_reach_the_simulator(actions: Any, said: str) -> None:
    env = WORLD.make_vec(world("reach"))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        env.step(actions)
    twin = WORLD.make_vec(world("reach"))
    twin.reset(seed=0)
    good = np.full((1, 4), 0.3, np.float32)
    assert np.array_equal(env.step(good)[0], twin.step(good)[0])
    for each in (env, twin):
        each.close()


@BOTH
@pytest.mark.parametrize("task", [-1, 50])
def test_unknown_tasks_are_named(suite: Any, task: int) -> None:
    with pytest.raises(ValueError, match=f"{suite.name} has tasks 0 to .*, not {task}"):
        suite.make(task)


@BOTH
def test_a_missing_extra_says_how_to_install_it(
    suite: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    monkeypatch.setenv("RADT_HOME", str(tmp_path))
    with pytest.raises(MissingError, match=r"make setup .*pip install 'radt\[control\]'"):
        suite.make(0)
    assert suite.name in SUITES.names()
    assert cli.main(["envs"]) == 0
    run = ["run", suite.name, "--method=random", "--budget=smoke", "--quiet", f"--out={tmp_path}"]
    assert cli.main(run) == 2
    assert "radt[control]" in capsys.readouterr().err


class Broken:
    """A pool that fails in one way."""

    def __init__(self, pool: Any, way: str) -> None:
        self.pool, self.way, self.action_space = pool, way, pool.action_space

    def send(self, *given: Any) -> None:
        self.pool.send(*given)

    def close(self) -> None:
        self.pool.close()

    def recv(self) -> Any:
        seen, reward, ended, cut, info = self.pool.recv()
        if self.way == "dies":
            raise RuntimeError("the worker is gone")
        if self.way == "ends":
            return seen, reward, ended, ~cut, info
        return np.full_like(seen, np.nan), reward, ended, cut, info


@simulated
@pytest.mark.parametrize(
    ("way", "said"),
    [("dies", "worker is gone"), ("ends", "ended early"), ("blows up", "not finite")],
)
def test_a_pool_that_fails_is_named(way: str, said: str) -> None:
    env: PoolVec = WORLD.make_vec(world("reach", "push"))
    env.reset(seed=0)
    env._pools[1] = Broken(env._pools[1], way)
    with pytest.raises(RunError, match=rf"MetaWorld/Push-v3 failed at step 0 .*{said}.*again"):
        env.step(np.zeros((2, 4), np.float32))
    env.close()


@simulated
@pytest.mark.long
def test_memory_is_flat_over_remade_pools() -> None:
    env = WORLD.make_vec(world("door-unlock"))
    resident = partial(lambda process: process.memory_info().rss, psutil.Process())
    sizes = []
    for count in range(5000):
        env.reset()
        if count in (999, 4999):
            sizes.append(resident())
    env.close()
    assert sizes[1] - sizes[0] < 50e6
