"""Histories of falling noise: they look like learning, are cheap, and say what they are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from radt.collect import CollectError, NoisyExpertOptions, record_histories
from radt.collect.noisy_expert import act_out
from radt.data import Dataset, read_manifest
from radt.envs.suite import SUITES, Oracle
from tests.data.histories import assert_obeys
from tests.toys import TOY_ENCODED, TOY_REACH, Plain

OPTIONS = NoisyExpertOptions(tasks=3, episodes=40)


def record(env: str, folder: Path, options: NoisyExpertOptions = OPTIONS) -> Dataset:
    suite = SUITES[env]
    return Dataset.open(record_histories(suite, options, folder, quiet=True, source="noisy-expert"))


@pytest.mark.parametrize(
    "env",
    ["maze-runner-15x15", "dark-room-10x10", "dark-key-door-10x10", "dark-key-door-10x10-persist"],
)
def test_returns_rise_and_end_near_the_best(env: str, tmp_path: Path) -> None:
    dataset, suite = record(env, tmp_path), SUITES[env]
    assert dataset.tasks == suite.train_tasks[:3]
    for task in dataset.tasks:
        own = dataset.episodes.rows(dataset.episodes.task == task)
        assert len(own) == 40
        first, last = own.total_return[:8].mean(), own.total_return[-4:].mean()
        best = suite.optimal_return(task)
        assert best is not None
        assert first < last
        assert 0.85 * best <= last <= best


def test_the_recorded_steps_obey_the_environment(tmp_path: Path) -> None:
    dataset = record("maze-runner-15x15", tmp_path)
    assert_obeys(SUITES["maze-runner-15x15"], dataset.history(0))


class GuidedReach(SyncVectorEnv[Any, Any]):
    """Points that know where their corner is."""

    def optimal_actions(self) -> Any:
        """Move as fast as possible, [N, 3]."""
        return np.stack(
            [np.pad(np.sign(env.unwrapped.goal), (0, 3 - env.unwrapped.dims)) for env in self.envs]  # type: ignore[attr-defined]
        )


def test_continuous_actions_are_the_experts_or_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    suite, options = TOY_REACH, NoisyExpertOptions(tasks=2, episodes=30)

    def make_vec(self: Any, tasks: Any) -> GuidedReach:
        return GuidedReach([partial(suite.make, task) for task in tasks])

    monkeypatch.setattr(type(suite), "make_vec", make_vec)
    for history in act_out(suite, suite.train_tasks[:2], options):
        assert history.actions.dtype == np.float32
        assert history.actions.shape == (30 * 12, 3)
        assert not history.actions[:, suite.spaces.valid_action_dims(history.task) :].any()
        inside = np.abs(history.actions[:, 0]) < 1  # those of chance
        assert inside[:60].mean() > 0.8
        assert not inside[-12:].any()
        returns = history.rewards.reshape(30, 12).sum(axis=1)
        assert returns[-1] > returns[:5].mean()


def test_a_history_depends_on_its_task_and_the_seed_only() -> None:
    suite = SUITES["dark-room-10x10"]
    (alone,) = act_out(suite, (5,), OPTIONS)
    both = list(act_out(suite, (3, 5), OPTIONS))
    assert [history.task for history in both] == [3, 5]
    np.testing.assert_array_equal(alone.states, both[1].states)
    (other,) = act_out(suite, (5,), replace(OPTIONS, seed=1))
    assert not np.array_equal(alone.actions, other.actions)


def test_noise_falls_in_a_straight_line() -> None:
    suite = SUITES["dark-room-10x10"]
    options = NoisyExpertOptions(episodes=60, first_noise=0.9, last_noise=0.3)
    (history,) = act_out(suite, (5,), options)
    assert isinstance(suite, Oracle)
    best = suite.optimal_actions(5, history.states, history.rewards)
    strayed = (history.actions != best).reshape(3, -1).mean(axis=1)  # in each third of episodes
    # A random action is the best one in a fifth of all cases.
    np.testing.assert_allclose(strayed, 0.8 * np.array([0.8, 0.6, 0.4]), atol=0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"last_noise": 0.5, "first_noise": 0.2}, "falls from a probability to a lower one"),
        ({"first_noise": 1.5}, "falls from a probability"),
        ({"tasks": 0}, "tasks must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NoisyExpertOptions(**change)


def test_where_no_best_action_is_known_it_cannot_act(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match=r"'toy-encoded' does not know best actions"):
        record_histories(TOY_ENCODED, OPTIONS, tmp_path, source="noisy-expert")


class Scripted(Plain):
    """Reaching with a policy of its own: it moves towards the corner."""

    def expert(self, task: int) -> Any:
        env: Any = TOY_REACH.make(task).unwrapped

        def policy(state: Any) -> Any:
            move = np.zeros(3, np.float32)
            move[: env.dims] = np.clip((env.goal - state[: env.dims]) / 0.3, -1, 1)
            return move

        return policy


@pytest.mark.parametrize("noise", ["random", "gaussian"])
def test_a_policy_of_the_suite_acts_continuously(noise: Any, tmp_path: Path) -> None:
    options = NoisyExpertOptions(tasks=3, episodes=40, noise=noise)
    suite: Any = Scripted(TOY_REACH)
    folder = record_histories(suite, options, tmp_path / "a", quiet=True, source="expert")
    dataset = Dataset.open(folder)
    assert dataset.manifest.source == "expert"
    for task in dataset.tasks:
        own = dataset.episodes.rows(dataset.episodes.task == task)
        assert own.total_return[:8].mean() < own.total_return[-8:].mean()
    actions = np.concatenate([dataset.trajectory(row).actions for row in range(len(dataset))])
    assert (abs(actions) <= 1).all()
    assert len(np.unique(actions)) > 100


def test_both_names_record_the_same(tmp_path: Path) -> None:
    suite = SUITES["dark-room-10x10"]
    files = [
        read_manifest(
            record_histories(suite, OPTIONS, tmp_path / name, quiet=True, source=name)
        ).files
        for name in ("expert", "noisy-expert")
    ]
    assert files[0] == files[1]
    wrong = replace(OPTIONS, noise="gaussian")
    with pytest.raises(CollectError, match=r"has discrete actions; set collect\.noise=random"):
        record_histories(suite, wrong, tmp_path / "x", quiet=True, source="expert")
