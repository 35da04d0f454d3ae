"""Algorithms of stable-baselines3 as sources: what is stored, and that a kill cannot be seen."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

import radt
from radt.collect import CollectError, SB3Options, record_histories, sb3
from radt.collect.record import PARTS
from radt.data import Dataset, read_manifest
from radt.envs.suite import TaskSuite
from tests.toys import TOY_ENCODED, TOY_GRID, TOY_IMAGE, TOY_REACH, Plain

PPO = {"n_steps": 20, "batch_size": 20, "n_epochs": 2}
SAC = {"learning_starts": 20, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}}
LSTM = {**PPO, "policy_kwargs": {"lstm_hidden_size": 8}}


@dataclass(frozen=True)
class Case:
    """An algorithm at work."""

    suite: Any
    options: SB3Options


def case(suite: TaskSuite, algorithm: Any, settings: dict[str, Any], **other: Any) -> Case:
    chosen = {"tasks": 2, "transitions": 100, "parts": 3, "envs_per_task": 2, **other}
    return Case(Plain(suite), SB3Options(algorithm=algorithm, settings=settings, **chosen))


CASES = {
    "ppo-grid": case(TOY_GRID, "PPO", PPO, keep_envs=2, transitions=196),
    "ppo-reach": case(TOY_REACH, "PPO", PPO, normalise=True),
    "ppo-image": case(TOY_IMAGE, "PPO", PPO, tasks=1, normalise=True, transitions=60),
    "sac-reach": case(TOY_REACH, "SAC", SAC, normalise=True),
    "sac-fixed": case(TOY_REACH, "SAC", {**SAC, "ent_coef": 0.1, "train_freq": 2}, envs_per_task=1),
    "lstm-encoded": case(TOY_ENCODED, "RecurrentPPO", LSTM),
}


def record(chosen: Case, folder: Path, **how: Any) -> list[tuple[int, str]]:
    """Record and return the hashes of all arrays by task."""
    how = {"workers": 1, "quiet": True, **how}
    record_histories(chosen.suite, chosen.options, folder, source="sb3", **how)
    return [(entry.task, entry.sha256) for entry in read_manifest(folder).files]


@pytest.fixture(scope="module", params=CASES)
def chosen(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def whole(chosen: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record once without a break."""
    folder = tmp_path_factory.mktemp("whole")
    record(chosen, folder)
    return folder


def test_every_transition_of_the_kept_environments_is_stored(chosen: Case, whole: Path) -> None:
    options, spaces = chosen.options, chosen.suite.spaces
    dataset = Dataset.open(whole)
    assert dataset.tasks == chosen.suite.train_tasks[: options.tasks]
    for entry in dataset.manifest.files:
        assert entry.transitions == options.transitions
    assert set(dataset.episodes.length.tolist()) == {spaces.horizon}  # whole ones only
    assert not (whole / PARTS).exists()


def test_the_recorded_steps_obey_the_environment(chosen: Case, whole: Path) -> None:
    dataset, spaces = Dataset.open(whole), chosen.suite.spaces
    for row in range(0, len(dataset), 3):
        episode = dataset.trajectory(row)
        env = chosen.suite.make(episode.task)
        env.reset(seed=0)
        if chosen.suite.name == TOY_REACH.name:  # begins where chance says
            valid = spaces.valid_action_dims(episode.task)
            assert (abs(episode.actions) <= 1).all()
            assert not episode.actions[:, valid:].any()
            env.unwrapped.point = episode.states[0, :valid].astype(float)  # type: ignore[attr-defined]
        for step, (action, reward) in enumerate(zip(episode.actions, episode.rewards, strict=True)):
            state, paid, *_ = env.step(action)
            assert paid == pytest.approx(reward, abs=1e-6)  # no bootstrapped value is added
            if step + 1 < len(episode):
                np.testing.assert_allclose(state, episode.states[step + 1], atol=1e-6)


class Levels(SyncVectorEnv):
    """Toys that say which level their episode is on: how many episodes there were."""

    def reset(self, **how: Any) -> Any:
        mask = (how.get("options") or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self.level = getattr(self, "level", np.full(self.num_envs, -1)) + mask
        return super().reset(**how)

    def step(self, actions: Any) -> Any:
        *brought, infos = super().step(actions)
        return *brought, {**infos, "level": self.level.astype(float)}


def test_levels_are_stored_where_an_environment_tells_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.toys.SyncVectorEnv", Levels)
    chosen = CASES["ppo-image"]
    record(Case(chosen.suite, replace(chosen.options, parts=1)), tmp_path)
    episodes = Dataset.open(tmp_path).episodes
    assert episodes.level.tolist() == list(range(len(episodes)))
    impala = {"features_extractor_class": "impala", "features_extractor_kwargs": {"channels": [2]}}
    options = replace(chosen.options, settings={**PPO, "policy_kwargs": impala})
    record(Case(chosen.suite, options), tmp_path / "impala")
    levels = Dataset.open(tmp_path / "impala").episodes.level
    assert (levels[0], levels.min()) == (0, 0)  # each part has environments of its own


class Killed(BaseException):
    """Stands for the end of the process."""


def fail_at(step: int) -> Callable[..., Any]:
    """End the process at a step of the environments."""
    learner = importlib.import_module("radt.collect.sb3_learner")
    go_on, count = learner.RecordedEnv.step_wait, iter(range(step))

    def step_wait(env: Any) -> Any:
        if next(count, None) is None:
            raise Killed
        return go_on(env)

    return step_wait


def test_killed_inside_any_part_it_ends_in_the_same_arrays(
    chosen: Case, whole: Path, tmp_path: Path
) -> None:
    for step in (0, 5, 31, 39, 27):  # in different parts; the last kills may come too late
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("radt.collect.sb3_learner.RecordedEnv.step_wait", fail_at(step))
            with suppress(Killed):
                record(chosen, tmp_path)
        np.random.random()  # another process has other random numbers
        torch.rand(1)
    assert record(chosen, tmp_path) == record(chosen, whole)


def test_killed_after_any_file_it_ends_in_the_same_arrays(tmp_path: Path) -> None:
    chosen = CASES["sac-reach"]
    whole, original = record(chosen, tmp_path / "whole"), sb3.write_arrays

    def until(files: int) -> Iterator[None]:
        for _ in range(files):
            yield
        raise Killed

    for files in range(1, 4):  # in each run some more, and not always a learner last
        left = until(files)

        def write(path: Path, arrays: Any, left: Iterator[None] = left) -> None:
            original(path, arrays)
            next(left)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sb3, "write_arrays", write)
            with pytest.raises(Killed):
                record(chosen, tmp_path / "killed")
    assert record(chosen, tmp_path / "killed") == whole


@pytest.mark.long
def test_two_workers_make_the_same_arrays_as_one(tmp_path: Path) -> None:
    chosen = CASES["ppo-reach"]
    assert record(chosen, tmp_path / "a", workers=2) == record(chosen, tmp_path / "b")


def test_the_seed_counts_and_the_generators_of_the_process_do_not(tmp_path: Path) -> None:
    chosen = CASES["ppo-grid"]
    before = torch.get_rng_state()
    first = record(chosen, tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), before)
    other = replace(chosen, options=replace(chosen.options, seed=1))
    assert record(other, tmp_path / "b") != first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep_envs": 3, "envs_per_task": 2}, "must be some of the 2 environments"),
        ({"transitions": 101, "envs_per_task": 2, "keep_envs": 2}, "share transitions=101"),
        ({"transitions": 100, "parts": 10}, "lower collect.parts"),
        ({"settings": {"n_steps": "many"}}, "must be a whole number of steps"),
        ({"parts": 0}, "parts must be at least 1"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SB3Options(**change)


def test_what_an_algorithm_cannot_do_is_refused(tmp_path: Path) -> None:
    misspelt = case(TOY_GRID, "PPO", {**PPO, "n_epoch": 2})
    with pytest.raises(CollectError, match=r"unknown name 'n_epoch'; did you mean n_epochs"):
        record(misspelt, tmp_path / "a")
    with pytest.raises(CollectError, match="SAC has continuous actions"):
        record(case(TOY_GRID, "SAC", SAC), tmp_path / "b")
    wrong = replace(CASES["ppo-grid"].options, policy="NoPolicy")
    with pytest.raises(CollectError, match=r"PPO cannot learn task 0 of 'toy-grid'.*NoPolicy"):
        record(Case(CASES["ppo-grid"].suite, wrong), tmp_path / "c")


def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "radt.collect.sb3_learner", raising=False)
    monkeypatch.delattr("radt.collect.sb3_learner", raising=False)
    with pytest.raises(CollectError, match=r"pip install 'radt\[sb3\]'"):
        record(CASES["ppo-grid"], tmp_path)


def test_settings_are_said_in_the_config() -> None:
    sets = ("source=sb3", "collect.settings.n_steps=64", "collect.algorithm=RecurrentPPO")
    config = radt.preset("dark-room-10x10", "dt", "laptop", *sets)
    assert config.collect.settings == {"n_steps": 64}
    assert radt.config.from_json(config.to_json()) == config
