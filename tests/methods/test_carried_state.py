"""Deciding by a carried state answers as the policy does that reads the whole sequence at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.agent import Agent, Target
from radt.costs import flops_per_decision, random_answers, random_states
from radt.data import Dataset
from radt.envs.suite import TaskSuite
from radt.methods.ad import AD, ADOptions, SequenceActor
from radt.methods.decision_cache import CarriedState, HeldChunks
from radt.methods.trials import RunningTrials
from radt.model.policy import ModelConfig
from radt.model.recurrent import RECURRENCES
from radt.model.tokens import episodes_ago
from radt.runs.step_recorder import StepRecorder
from radt.trajectory import Batch
from tests.contracts.method import (
    OPTIONS,
    build_method,
    check_acting,
    check_learning,
    toy_dataset,
)
from tests.methods.test_held_chunks import chunks
from tests.model.batches import small_model
from tests.test_learn import CONFIG, KilledError, assert_same_state, kill_at, trained
from tests.toys import TOY_GRID, TOY_REACH, TOYS

SLOTS = 4
BACKBONES = pytest.mark.parametrize("backbone", RECURRENCES)
TOKENS = pytest.mark.parametrize("tokens", ["fused", "interleaved"])


def options_of(name: str, backbone: str, **model: Any) -> dict[str, Any]:
    return {**OPTIONS[name], "model": {**OPTIONS[name]["model"], "backbone": backbone, **model}}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(TOY_GRID, tmp_path_factory.mktemp("grid"), episodes=6)


@BACKBONES
@pytest.mark.parametrize("name", ["dt", "ad", "dt-2ep", "ra-dt"])
def test_methods_keep_their_contracts(
    name: str, backbone: str, dataset: Dataset, tmp_path: Path
) -> None:
    options = options_of(name, backbone)
    check_learning(name, TOY_GRID, dataset, options)
    check_acting(name, TOY_GRID, tmp_path, options)


@BACKBONES
@pytest.mark.parametrize("suite", TOYS[1:], ids=lambda suite: suite.name)
def test_any_kind_of_state_is_acted_on(suite: TaskSuite, backbone: str, tmp_path: Path) -> None:
    check_acting("ad", suite, tmp_path, options_of("ad", backbone, tokens="interleaved"))


@BACKBONES
@pytest.mark.parametrize("name", ["ad", "ra-dt"])
def test_a_killed_run_ends_as_an_uninterrupted_one(
    name: str, backbone: str, dataset: Dataset, tmp_path: Path
) -> None:
    for folder, kills in (("whole", ()), ("killed", (2, 5))):
        for draws in (*kills, 100):
            method = build_method(name, TOY_GRID.spaces, options_of(name, backbone, dropout=0.2))
            method.prepare(dataset)
            kill_at(method, draws)
            try:
                trained(method, tmp_path / folder, CONFIG)
            except KilledError:
                torch.manual_seed(draws)
    assert_same_state(tmp_path / "whole", tmp_path / "killed")


def joined(parts: list[Batch]) -> Batch:
    """Put sequences [1, L] behind each other."""
    return Batch(*(torch.cat([getattr(one, f.name) for one in parts], 1) for f in fields(Batch)))


@BACKBONES
@TOKENS
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
@torch.no_grad()
def test_decisions_are_those_of_the_whole_sequence(
    suite: TaskSuite, across: bool, tokens: str, backbone: str, rng: np.random.Generator
) -> None:
    policy = small_model(suite.spaces, backbone=backbone, tokens=tokens)
    carried, trials = CarriedState(policy, SLOTS), RunningTrials(suite.spaces, SLOTS)
    everyone, between = np.arange(SLOTS), np.ones(SLOTS, bool)
    trials.begin_task(everyone)
    running: dict[int, Batch] = {}
    earlier: list[list[Batch]] = [[] for _ in everyone]
    for _ in range(70):
        starting = everyone[between]
        trials.begin_trial(starting, np.full(len(starting), 3, np.float32))
        carried.begin_trials(starting)
        between[:] = False
        slots = np.sort(rng.choice(everyone, 3, replace=False))
        trials.see(slots, random_states(suite.spaces, len(slots), rng))
        for _ in range(rng.integers(1, 3)):  # asking twice changes nothing
            decided = carried.decide(trials, slots)
        for row, slot in enumerate(slots.tolist()):
            running[slot] = trials.recent(np.array([slot]), suite.spaces.horizon)
            whole = policy(joined([*earlier[slot], running[slot]]))[0, -1]
            torch.testing.assert_close(decided[row], whole, rtol=0, atol=1e-4)
        actions, _ = random_answers(suite.spaces, len(slots), rng)
        trials.record(slots, actions, rng.random(len(slots)).astype(np.float32))
        over = slots[(trials.step[slots] == suite.spaces.horizon) | (rng.random(3) < 0.2)]
        for slot in over.tolist():
            ended = trials.finish(slot)
            if across:
                running[slot].actions[0, -1] = torch.as_tensor(ended.actions[-1])
                running[slot].rewards[0, -1] = float(ended.rewards[-1])
                earlier[slot].append(running[slot])
                carried.keep([ended])
            if across and rng.random() < 0.2:
                carried.forget(np.array([slot]))
                earlier[slot] = []
        broken = everyone[rng.random(SLOTS) < 0.05]  # broken off: they leave no trace
        between[over] = between[broken] = True


@BACKBONES
@TOKENS
@torch.no_grad()
def test_held_chunks_are_seen_from_now_on(
    tokens: str, backbone: str, rng: np.random.Generator
) -> None:
    policy = small_model(TOY_GRID.spaces, retrieves=True, backbone=backbone, tokens=tokens)
    held = HeldChunks(policy, chunks(TOY_GRID, rng, SLOTS))
    carried, trials = CarriedState(policy, SLOTS), RunningTrials(TOY_GRID.spaces, SLOTS)
    everyone = np.arange(SLOTS)
    trials.begin_task(everyone)
    trials.begin_trial(everyone, np.full(SLOTS, 3, np.float32))
    for step in range(6):
        trials.see(everyone, random_states(TOY_GRID.spaces, SLOTS, rng))
        if step == 4:
            held.hold(chunks(TOY_GRID, rng, SLOTS), torch.from_numpy(everyone))
        context = held.of(torch.from_numpy(everyone))
        decided = carried.decide(trials, everyone, context)
        same = torch.isclose(
            decided, policy.decide(trials.recent(everyone, 12), context), rtol=0, atol=1e-4
        )
        assert bool(same.all()) == (step < 4)  # then the state still knows the chunks before
        trials.record(everyone, *random_answers(TOY_GRID.spaces, SLOTS, rng))


@BACKBONES
def test_a_decision_costs_the_same_whatever_came_before(backbone: str) -> None:
    method = build_method("ad", TOY_GRID.spaces, options_of("ad", backbone))
    agent = Agent(method, Target(9.0))
    read: list[int] = []
    method.networks["policy"].trunk.blocks[0].norm_self.register_forward_hook(  # type: ignore[union-attr,index]
        lambda module, args, output: read.append(output.shape[1])
    )
    for step in range(30):
        agent.act([step % 3, step % 4])
        agent.observe(0.0, step % 12 == 11, False)
    assert read == [1] * 30
    assert isinstance(agent.actor, SequenceActor)
    assert flops_per_decision(method) > 0


@BACKBONES
def test_a_new_task_knows_of_no_trial(backbone: str) -> None:
    method = build_method("ad", TOY_GRID.spaces, options_of("ad", backbone))
    agent, fresh = (Agent(method, Target(9.0)) for _ in range(2))
    for step in range(12):
        agent.act([step % 3, 0])
        agent.observe(1.0, step == 11, False)
    agent.start_task()
    for one in (agent, fresh):
        one.act([0, 0])
    assert agent._decided is not None
    assert fresh._decided is not None
    torch.testing.assert_close(agent._decided, fresh._decided)


@BACKBONES
@TOKENS
def test_who_looks_on_changes_nothing_and_sees_the_deciding_token(
    tokens: str, backbone: str
) -> None:
    options = {**options_of("ra-dt", backbone, tokens=tokens)}
    agent, alone = (
        Agent(build_method("ra-dt", TOY_GRID.spaces, options), Target(9.0), slots=2)
        for _ in range(2)
    )
    recorder, ends = StepRecorder(agent), np.zeros(2, bool)
    for step in range(26):
        states = np.full((2, 2), step % 3)
        with recorder:
            actions = agent.act(states)
        recorder.see(np.ones(2))
        np.testing.assert_array_equal(actions, alone.act(states))
        ends = np.array([step % 12 == 11, step % 7 == 6])  # one begins while the other goes on
        for one in (agent, alone):
            one.observe(np.ones(2), ends, np.zeros(2, bool))
    looks = [look for look in recorder.take(1).attention if look is not None]
    assert looks


def test_sequences_of_training_may_have_more_episodes(dataset: Dataset) -> None:
    model = ModelConfig(1, 16, 2, return_to_go=False, backbone="mingru")
    options = ADOptions(model, episode_gap=1, earlier_episodes=3, context_dropout=0.2)
    method = AD(TOY_GRID.spaces, options, seed=0)
    method.prepare(dataset)
    recent = method.draw(64, np.random.default_rng(0)).recent
    assert method.context.input_steps == 4 * TOY_GRID.spaces.horizon
    assert method.policy.embed.episode is None
    earlier = episodes_ago(recent).amax(1)
    assert set(earlier.tolist()) == {0, 1, 2, 3}
    for row, count in enumerate(earlier.tolist()):
        starts = (recent.timesteps[row] == 0) & recent.mask[row]
        assert int(starts.sum()) == count + 1


def test_a_transformer_reads_one_earlier_episode() -> None:
    with pytest.raises(ValueError, match="a recurrent backbone"):
        ADOptions(earlier_episodes=2)
    with pytest.raises(ValueError, match="earlier_episodes must be"):
        ADOptions(earlier_episodes=0)
