"""`radt bench collect`: what is measured and compared, at a size where speed says nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import astuple

import numpy as np
import pytest

from radt.bench import CollectArguments, Resources, collect
from radt.bench.collect import (
    BaselineJob,
    BaselineRun,
    Setting,
    bench_collect,
    build_ppo,
    build_recurrent_ppo,
    collect_table,
    learn_tasks,
    scaled,
)
from radt.collect import CollectConfig, RecurrentConfig
from radt.collect.networks import HIDDEN
from radt.collect.ppo import network_inputs
from radt.collect.ppo_lstm import RecurrentLearner
from radt.collect.rollout import StateIndex, late_return
from radt.engine import LocalEngine
from radt.envs import SUITES
from radt.experiments.run import RunError

TINY = CollectConfig(n_steps=128, batch_size=64, n_epochs=1, transitions=384)
TINY_RECURRENT = RecurrentConfig(
    units=4, n_steps=32, batch_size=32, n_epochs=1, transitions=832, tasks_per_group=5
)
SUITE = SUITES["dark-room-10x10"]


@pytest.fixture
def slow_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for processes of 100 transitions/s each, and compares every second task as won."""

    def learned(job: BaselineJob) -> Iterator[tuple[object, ...]]:
        for task in job.tasks:
            yield astuple(BaselineRun(task, 100 * job.rollouts, job.rollouts, float(task % 2)))

    monkeypatch.setattr(collect, "learn_tasks", learned)
    monkeypatch.setattr(collect, "LocalEngine", lambda workers: LocalEngine(1))


@pytest.mark.usefixtures("slow_baseline")
def test_both_sides_and_their_returns_are_in_the_record() -> None:
    record = bench_collect(CollectArguments(), Resources(workers=1), TINY)
    ours, theirs, returns = (record[name] for name in ("ours", "stable_baselines3", "returns"))
    assert ours["transitions"] == 80 * 384
    assert record["ratio"] == pytest.approx(ours["steady_rate"] / 100)
    assert record["ratio_of_whole_runs"] == pytest.approx(80 * 384 / ours["seconds"] / 100)
    assert returns["tasks"] == [run["task"] for run in theirs["runs"]]
    assert len(set(returns["tasks"])) == 8
    assert set(returns["tasks"]) <= set(SUITE.train_tasks)
    assert returns["stable_baselines3"] == [float(task % 2) for task in returns["tasks"]]
    assert collect_table(record).row_count == 10


@pytest.mark.usefixtures("slow_baseline")
def test_mazes_are_measured_with_the_lighter_way_too() -> None:
    asked = CollectArguments(env="maze-runner-15x15")
    record = bench_collect(asked, Resources(workers=1), TINY_RECURRENT)
    assert record["source"] == "ppo-lstm"
    for side in (record, record["light"]):
        assert side["ours"]["transitions"] == 8 * 832
        assert side["ratio"] == pytest.approx(side["ours"]["steady_rate"] / 100)
        assert len(side["returns"]["sb3_contrib"]) == len(side["returns"]["ours"]) == 8
    assert record["light"]["beside_full"]["full"] == record["returns"]["ours"]


def test_without_returns_each_process_learns_one_task() -> None:
    asked = CollectArguments(rollouts=3, sb3_rollouts=1, skip_returns=True)
    record = bench_collect(asked, Resources(workers=1), TINY)
    assert record["returns"] is None
    runs = record["stable_baselines3"]["runs"]
    assert [run["transitions"] for run in runs] == [128]


def test_the_steady_rate_leaves_out_the_first_and_the_last_rollouts() -> None:
    config = CollectConfig(n_steps=64, transitions=250)  # 4 rollouts, the last one cut
    marks = [(10.0, 128), (20.0, 256), (21.0, 384), (22.0, 512), (24.0, 768), (24.1, 1000)]
    assert collect.steady_rate(marks, 4, config) == pytest.approx(512 / 4)


def test_late_returns_are_those_of_the_last_whole_episodes_within_the_data() -> None:
    returns, lengths = np.arange(60.0), np.full(60, 10)
    assert late_return(returns, lengths, 555) == pytest.approx(np.mean(np.arange(5, 55)))
    assert late_return(returns, lengths, 9) is None


def test_too_few_rollouts_are_refused() -> None:
    with pytest.raises(RunError, match="at least 3"):
        bench_collect(CollectArguments(rollouts=2))


@pytest.mark.parametrize("env", ["dark-room-10x10", "maze-runner-15x15"])
def test_a_missing_baseline_says_how_to_get_it(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(RunError, match="pip install"):
        bench_collect(CollectArguments(env=env))


def test_the_baseline_sees_what_our_networks_see() -> None:
    index = StateIndex(SUITE.spaces.state)
    inputs = network_inputs(index, "unit")[:, :-1].numpy()
    env = scaled(SUITE.make(0), SUITE, CollectConfig())
    first, _ = env.reset(seed=0)
    second = env.step(1)[0]
    raw = SUITE.make(0)
    before, _ = raw.reset(seed=0)
    after = raw.step(1)[0]
    np.testing.assert_array_equal(first, inputs[index.of(before[None])[0]])
    np.testing.assert_array_equal(second, inputs[index.of(after[None])[0]])
    assert scaled(raw, SUITE, CollectConfig(observation_scale="raw")) is raw


def test_the_baseline_has_our_hyper_parameters_and_learns() -> None:
    config = CollectConfig(n_steps=128, n_epochs=1, ent_coef=0.03, transitions=384)
    model = build_ppo(SUITE, 3, config)
    for name in ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef"):
        assert getattr(model, name) == getattr(config, name)
    assert model.policy.optimizer.defaults["eps"] == config.adam_epsilon
    assert model.clip_range(1.0) == config.clip_range
    job = BaselineJob(Setting(SUITE, "ppo", (3, 5), 1), config, (3, 5), rollouts=2)
    runs = [BaselineRun(*news) for news in learn_tasks(job)]
    assert [(run.task, run.transitions) for run in runs] == [(3, 256), (5, 256)]
    assert all(run.seconds > 0 and run.late_return is not None for run in runs)


def test_the_recurrent_baseline_has_our_hyper_parameters_and_networks() -> None:
    config = RecurrentConfig(units=8, n_steps=32, batch_size=32, n_epochs=1, transitions=832)
    suite = SUITES["maze-runner-15x15"]
    model = build_recurrent_ppo(suite, 3, config)
    for name in ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef"):
        assert getattr(model, name) == getattr(config, name)
    assert model.policy.optimizer.defaults["eps"] == config.adam_epsilon
    ours = RecurrentLearner(suite, (3,), config).networks
    theirs = sum(weight.numel() for weight in model.policy.parameters())
    unused = (ours.heads.actions - 1) * (HIDDEN + 1)  # outputs of our value network
    assert ours.parameters.values.numel() - unused == theirs
    job = BaselineJob(Setting(suite, "ppo-lstm", (3,), 1), config, (3,), rollouts=1)
    (run,) = (BaselineRun(*news) for news in learn_tasks(job))
    assert (run.task, run.transitions, run.late_return) == (3, 32, None)
    assert "sb3_contrib" in sys.modules
    scaled_room = build_recurrent_ppo(SUITE, 3, config)
    assert scaled_room.observation_space.low.tolist() == [-1, -1]


def test_defaults_are_those_of_sb3_contrib() -> None:
    from inspect import signature

    from sb3_contrib import RecurrentPPO
    from sb3_contrib.ppo_recurrent import MlpLstmPolicy

    config, theirs = RecurrentConfig(), signature(RecurrentPPO).parameters
    for name in ("learning_rate", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda"):
        assert getattr(config, name) == theirs[name].default
    for name in ("clip_range", "ent_coef", "vf_coef", "max_grad_norm"):
        assert getattr(config, name) == theirs[name].default
    assert config.units == signature(MlpLstmPolicy).parameters["lstm_hidden_size"].default
