"""Procgen: the contract, the levels of its splits and of its data, what is missing."""

from __future__ import annotations

import ctypes.util
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import radt
from radt.collect import SB3Options, record_histories
from radt.data import Dataset
from radt.envs import GAMES, procgen
from radt.envs.pools import PoolVec
from radt.envs.suite import for_data, scoring_of, splits_of, twins_of
from radt.errors import MissingError
from tests.contracts import env as contract

(SUITE,) = GAMES
INSTALLED = find_spec("envpool") is not None and ctypes.util.find_library("Qt5Gui") is not None
drawn = pytest.mark.skipif(
    not INSTALLED and not os.environ.get("RADT_NEED_CONTROL"),
    reason="envpool or Qt is not installed; `make setup` as root installs them",
)


def task_of(name: str) -> int:
    return procgen.NAMES.index(name)


def test_splits_are_the_papers() -> None:
    splits = splits_of(SUITE)
    games = {name: [procgen.LEVELS[task] for task in tasks] for name, tasks in splits.items()}
    assert splits["train"] == splits["seen"]
    assert games["seen"] == [(game, 1) for game in procgen.PG12]
    assert games["unseen"] == [(game, 200) for game in procgen.PG12]
    assert games["eval"] == [(game, 200) for game in ("climber", "ninja", "plunder", "jumper")]
    assert (len(procgen.PG12), SUITE.spaces.horizon, SUITE.trials) == (12, 400, 30)


def test_scores_are_normalised_by_people_and_by_data() -> None:
    human, data = scoring_of(SUITE), SUITE.data_scoring
    assert (human.kind, data.kind) == ("human-normalised", "data-normalised")
    assert len(human.low) == len(data.high) == len(procgen.NAMES)
    fruitbot = task_of("fruitbot-unseen")
    assert (human.low[fruitbot], human.high[fruitbot]) == (-1.5, 32.4)
    assert (data.low[fruitbot], data.high[fruitbot]) == (-7.0, 16.9643)


def test_a_game_aims_at_the_same_return_on_every_level() -> None:
    assert twins_of(SUITE)[task_of("maze-unseen")] == task_of("maze")
    assert set(twins_of(SUITE)) == set(SUITE.splits["unseen"])


@drawn
def test_it_keeps_the_contract() -> None:
    contract.check_describes_itself(SUITE)
    contract.check_slots_are_independent(for_data(SUITE), task_of("miner"), 40)


@drawn
@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_equals_single(mode: AutoresetMode) -> None:
    tasks = [task_of(name) for name in ("bigfish", "leaper-unseen", "climber")]
    contract.check_vec_equals_single(SUITE, tasks, mode, steps=450)


@drawn
@pytest.mark.parametrize("name", ["coinrun", "coinrun-unseen", "jumper"])
def test_ids_are_known_and_checkers_are_clean(name: str) -> None:
    env = gym.make(f"radt/Procgen-{name}-v0", render_mode="rgb_array")
    contract.check_checkers(env.unwrapped)
    seen, _ = env.reset()
    assert np.array_equal(np.moveaxis(seen, 0, -1), env.render())
    env.close()
    many = gym.make_vec(f"radt/Procgen-{name}-v0", num_envs=2)
    assert many.reset(seed=0)[0].shape == (2, 3, 64, 64)
    many.close()


@drawn
def test_every_trial_is_on_its_level_and_episodes_of_data_are_not() -> None:
    for suite, levels in ((SUITE, {1, 200}), (for_data(SUITE), set(range(200)))):
        env = suite.make_vec([task_of("maze"), task_of("maze-unseen")])
        found, first = [], env.reset(seed=5)[0]
        for seed in (15, 25, None, None):
            found.append(env.step(np.zeros(2, np.int64))[4]["level"])
            again = env.reset(seed=seed)[0]
            assert np.array_equal(first, again) is (suite is SUITE)
        assert set(np.ravel(found).astype(int)) <= levels
        assert len(set(np.ravel(found))) == (2 if suite is SUITE else 8)
        env.close()


@drawn
def test_games_end_and_time_is_up_after_400_steps() -> None:
    env, rng = SUITE.make_vec([task_of("bigfish"), task_of("climber")]), np.random.default_rng(0)
    env.reset(seed=0)
    ended, cut = np.zeros(2, int), np.zeros(2, int)
    for step in range(400):
        _, _, terminated, truncated, _ = env.step(rng.integers(15, size=2))
        assert not truncated.any() or step == 399
        ended, cut = ended + terminated, cut + truncated
    assert ended[0] > 0
    assert (ended + cut)[1] > 0
    env.close()


@drawn
@pytest.mark.parametrize(
    ("action", "said"),
    [
        (np.zeros(1, np.float32), "as integers"),
        (np.zeros(2, int), "of shape"),
        (np.array([15]), "0..14"),
    ],
)
def test_what_is_no_action_is_refused(action: Any, said: str) -> None:
    env = SUITE.make_vec([0])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        env.step(action)
    env.close()


def test_unknown_tasks_are_named() -> None:
    with pytest.raises(ValueError, match="procgen has tasks 0 to 27, not 28"):
        SUITE.make(28)


@pytest.mark.skipif(find_spec("envpool") is None, reason="envpool is not installed")
def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_qt(self: PoolVec, slots: Any) -> Any:
        raise ImportError("libQt5Gui.so.5: cannot open shared object file")

    monkeypatch.setattr(PoolVec, "_begin", without_qt)
    with pytest.raises(MissingError, match=r"libQt5Gui.*apt-get install libqt5gui5"):
        SUITE.make(0).reset()


@drawn
def test_data_tell_the_level_of_each_episode(tmp_path: Path) -> None:
    smoke = radt.preset("procgen", "dt", "smoke").collect
    assert isinstance(smoke, SB3Options)
    options = SB3Options(
        **{**vars(smoke), "tasks": 1, "transitions": 320, "settings": {**smoke.settings}}
    )
    record_histories(SUITE, options, tmp_path, workers=1, quiet=True, source="sb3")
    dataset = Dataset.open(tmp_path)
    assert len(dataset) >= 2
    assert ((dataset.episodes.level >= 0) & (dataset.episodes.level < 200)).all()
    firsts = {}
    for row, level in enumerate(dataset.episodes.level.tolist()):
        first = dataset.trajectory(row).states[0]
        assert np.array_equal(firsts.setdefault(level, first), first)


def test_the_papers_settings_act_at_its_budget() -> None:
    own = radt.preset("procgen", "ra-dt", "paper")
    model = own.options.model
    assert (model.layers, model.heads, model.width) == (6, 12, 768)
    assert (own.options.memory.top_k, own.options.memory.retrieve_every) == (1, 25)
    assert (own.learn.updates, own.evaluate.trials) == (200_000, 30)
    assert own.evaluate.also_on == ("seen", "unseen")
    assert own.encoder is not None
    assert (own.encoder.card.name, own.encoder.card.width) == ("impala", 768)
    source = own.collect
    assert (source.envs_per_task, source.keep_envs, source.transitions) == (64, 5, 2_000_000)
    assert source.settings["policy_kwargs"]["features_extractor_class"] == "impala"
    assert radt.preset("procgen", "ad", "paper").options.episode_gap == 250
