"""`radt bench collect`: what is measured and compared, at a size where speed says nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from radt.bench import CollectArguments, Resources, collect
from radt.bench.collect import BaselineJob, bench_collect, build_baseline, learn_tasks, network_env
from radt.collect import CollectConfig, RecurrentConfig
from radt.collect.networks import HIDDEN
from radt.collect.ppo import network_inputs
from radt.collect.ppo_lstm import RecurrentLearner, network_view
from radt.collect.rollout import StateIndex, late_return
from radt.engine import LocalEngine
from radt.envs import SUITES
from radt.runs.run import RunError

TINY = CollectConfig(n_steps=128, batch_size=64, n_epochs=1, transitions=384)
TINY_RECURRENT = RecurrentConfig(
    units=4, n_steps=32, batch_size=32, n_epochs=1, transitions=832, tasks_per_group=5
)
SUITE = SUITES["dark-room-10x10"]


@pytest.fixture
def slow_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for processes of 100 transitions/s each, and compares every second task as won."""

    def learned(job: BaselineJob) -> Iterator[dict[str, object]]:
        steps = job.rollouts * job.config.n_steps
        for task in job.tasks:
            yield {
                "task": task,
                "transitions": steps,
                "seconds": steps / 100,
                "late_return": float(task % 2),
            }

    monkeypatch.setattr(collect, "learn_tasks", learned)
    monkeypatch.setattr(collect, "LocalEngine", lambda workers: LocalEngine(1))


@pytest.mark.usefixtures("slow_baseline")
def test_both_sides_and_their_returns_are_in_the_record() -> None:
    record = bench_collect(CollectArguments(), Resources(workers=1), TINY)
    ours, theirs, returns = (record[name] for name in ("ours", "stable_baselines3", "returns"))
    assert ours["transitions"] == 80 * 384
    assert record["ratio"] == pytest.approx(ours["steady_rate"] / 100)
    assert record["ratio_of_whole_runs"] == pytest.approx(80 * 384 / ours["seconds"] / 100)
    tasks = [run["task"] for run in theirs["runs"]]
    assert len(set(tasks)) == 8
    assert set(tasks) <= set(SUITE.train_tasks)
    assert returns["stable_baselines3"] == [float(task % 2) for task in tasks]
    assert theirs["rate"] == pytest.approx(100)


@pytest.mark.usefixtures("slow_baseline")
def test_mazes_are_measured_on_the_sampled_tasks() -> None:
    asked = CollectArguments(env="maze-runner-15x15")
    record = bench_collect(asked, Resources(workers=1), TINY_RECURRENT)
    assert record["source"] == "ppo-lstm"
    assert record["ours"]["transitions"] == 8 * 832
    assert len(record["returns"]["sb3_contrib"]) == len(record["returns"]["ours"]) == 8


def test_without_returns_each_process_learns_one_task() -> None:
    asked = CollectArguments(rollouts=3, sb3_rollouts=1, skip_returns=True)
    record = bench_collect(asked, Resources(workers=1), TINY)
    assert record["returns"] is None
    runs = record["stable_baselines3"]["runs"]
    assert [run["transitions"] for run in runs] == [128]


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
    index, view = StateIndex(SUITE.spaces.state), network_view(SUITE.spaces.state)
    inputs = network_inputs(index, "unit")[:, :-1].numpy()
    env, raw = network_env(SUITE, 0, "unit"), network_env(SUITE, 0, "raw")
    seen, shown = raw.reset(seed=0)[0], env.reset(seed=0)[0]
    for action in (1, 2, 3):
        np.testing.assert_array_equal(shown, inputs[index.of(seen[None])[0]])
        np.testing.assert_array_equal(shown, view(seen[None])[0])
        seen, shown = raw.step(action)[0], env.step(action)[0]


@pytest.mark.parametrize(
    ("env", "config", "source", "finishes"),
    [
        (
            "dark-room-10x10",
            CollectConfig(n_steps=128, n_epochs=1, ent_coef=0.03, transitions=384),
            "ppo",
            True,
        ),
        ("maze-runner-15x15", replace(TINY_RECURRENT, units=8), "ppo-lstm", False),
    ],
)
def test_the_baseline_has_our_hyper_parameters_and_learns(
    env: str, config: Any, source: str, finishes: bool
) -> None:
    suite = SUITES[env]
    model = build_baseline(source, suite, 3, config)
    for name in ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef"):
        assert getattr(model, name) == getattr(config, name)
    assert model.policy.optimizer.defaults["eps"] == config.adam_epsilon
    assert model.clip_range(1.0) == config.clip_range
    if source == "ppo-lstm":
        ours = RecurrentLearner(suite, (3,), config).networks
        theirs = sum(weight.numel() for weight in model.policy.parameters())
        unused = (ours.heads.actions - 1) * (HIDDEN + 1)  # outputs of our value network
        assert ours.parameters.values.numel() - unused == theirs
    (run,) = learn_tasks(BaselineJob(suite, source, config, (3,), rollouts=2))
    assert (run["task"], run["transitions"]) == (3, 2 * config.n_steps)
    assert run["seconds"] > 0
    assert (run["late_return"] is not None) == finishes


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
