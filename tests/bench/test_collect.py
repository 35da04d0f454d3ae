"""`radt bench collect`: what is measured and compared, at a size where speed says nothing."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from radt.bench import CollectArguments, Resources, collect
from radt.bench.collect import baseline_options, bench_collect
from radt.collect import CollectConfig, RecurrentConfig
from radt.collect.networks import HIDDEN
from radt.collect.ppo import network_inputs
from radt.collect.ppo_lstm import RecurrentLearner, network_view
from radt.collect.rollout import StateIndex, late_return
from radt.collect.sb3_learner import RecordedEnv, build, seen
from radt.envs import SUITES
from radt.errors import RadtError
from radt.runs.run import RunError

TINY = CollectConfig(n_steps=128, batch_size=64, n_epochs=1, transitions=384)
TINY_RECURRENT = RecurrentConfig(
    units=4, n_steps=32, batch_size=32, n_epochs=1, transitions=832, tasks_per_group=5
)
SUITE = SUITES["dark-room-10x10"]


@pytest.fixture(autouse=True)
def _few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "SAMPLED_TASKS", 1)


def test_both_sides_and_their_returns_are_in_the_record() -> None:
    record = bench_collect(CollectArguments(), Resources(workers=1), TINY)
    ours, theirs, returns = (record[name] for name in ("ours", "baseline", "returns"))
    assert (ours["transitions"], theirs["transitions"]) == (80 * 384, 384)
    assert theirs["algorithm"] == "PPO"
    assert record["ratio"] == pytest.approx(ours["steady_rate"] / theirs["rate"])
    assert record["ratio_of_whole_runs"] > 0
    assert len(returns["baseline"]) == len(returns["ours"]) == 1


def test_mazes_are_measured_on_the_sampled_tasks() -> None:
    asked = CollectArguments(env="maze-runner-15x15")
    record = bench_collect(asked, Resources(workers=1), TINY_RECURRENT)
    assert (record["source"], record["baseline"]["algorithm"]) == ("ppo-lstm", "RecurrentPPO")
    assert record["ours"]["transitions"] == record["baseline"]["transitions"] == 832


def test_without_returns_each_process_learns_one_task() -> None:
    asked = CollectArguments(rollouts=3, sb3_rollouts=1, skip_returns=True)
    record = bench_collect(asked, Resources(workers=1), TINY)
    assert record["returns"] is None
    assert (record["baseline"]["tasks"], record["baseline"]["transitions"]) == (1, 128)


def test_late_returns_are_those_of_the_last_whole_episodes_within_the_data() -> None:
    returns, lengths = np.arange(60.0), np.full(60, 10)
    assert late_return(returns, lengths, 555) == pytest.approx(np.mean(np.arange(5, 55)))
    assert late_return(returns, lengths, 9) is None


def test_too_few_rollouts_are_refused() -> None:
    with pytest.raises(RunError, match="at least 3"):
        bench_collect(CollectArguments(rollouts=2))


def test_a_missing_baseline_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("radt.collect.sb3_learner")
    monkeypatch.delitem(sys.modules, "radt.collect.sb3_learner")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(RadtError, match="pip install"):
        bench_collect(CollectArguments())


def test_the_baseline_sees_what_our_networks_see() -> None:
    space = SUITE.spaces.state
    index, view = StateIndex(space), network_view(space)
    inputs = network_inputs(index, "unit")[:, :-1].numpy()
    env = SUITE.make(0)
    state = env.reset(seed=0)[0]
    for action in (1, 2, 3):
        shown = seen(state[None], space)[0]
        np.testing.assert_array_equal(shown, inputs[index.of(state[None])[0]])
        np.testing.assert_array_equal(shown, view(state[None])[0])
        state = env.step(action)[0]


@pytest.mark.parametrize(
    ("env", "config", "source"),
    [
        ("dark-room-10x10", replace(TINY, ent_coef=0.03), "ppo"),
        ("maze-runner-15x15", replace(TINY_RECURRENT, units=8), "ppo-lstm"),
    ],
)
def test_the_baseline_has_our_hyper_parameters(env: str, config: Any, source: str) -> None:
    suite, options = SUITES[env], baseline_options(source, config, config.transitions)
    vector = RecordedEnv(suite, 3, [0], ("states",), keep=1)
    model: Any = build(suite, options, vector, seed=0)
    for name in ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef"):
        assert getattr(model, name) == getattr(config, name)
    assert model.policy.optimizer.defaults["eps"] == config.adam_epsilon
    assert model.clip_range(1.0) == config.clip_range
    if source == "ppo-lstm":
        ours = RecurrentLearner(suite, (3,), config).networks
        theirs = sum(weight.numel() for weight in model.policy.parameters())
        unused = (ours.heads.actions - 1) * (HIDDEN + 1)  # outputs of our value network
        assert ours.parameters.values.numel() - unused == theirs


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
