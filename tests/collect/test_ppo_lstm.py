"""Recurrent PPO on all tasks at once equals the textbook one on each task alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from radt.collect import CollectError, RecurrentConfig, Request, record_histories
from radt.collect.groups import group_jobs, next_wave, record_learning
from radt.collect.networks import POLICY, VALUE
from radt.collect.ppo_lstm import RecurrentLearner, cut_sequences
from radt.data import Dataset
from radt.engine import LocalEngine
from radt.envs.suite import SUITES
from tests.data.histories import assert_obeys
from tests.toys import TOY_ENCODED, TOY_IMAGE, TOY_REACH

TASKS, UNITS, STEPS, ENVS = (0, 2), 6, 15, 4
CONFIG = RecurrentConfig(
    envs_per_task=ENVS,
    units=UNITS,
    n_steps=STEPS,
    batch_size=2 * STEPS,
    n_epochs=2,
    ent_coef=0.02,
    learning_rate=0.01,
    transitions=10 * STEPS * ENVS,
)


class Twin(nn.Module):
    """One network of one task, as sb3-contrib builds it."""

    def __init__(self, learner: RecurrentLearner, task: int, which: int) -> None:
        super().__init__()
        inputs = learner.networks.inputs
        self.lstm = nn.LSTM(inputs, UNITS)
        self.layers = nn.ModuleList([nn.Linear(UNITS, 64), nn.Linear(64, 64), nn.Linear(64, 3)])
        blocks = learner.networks.parameters.blocks
        recurrent, *heads = (block[2 * task + which] for block in blocks)
        exit_, entry, forget, candidate = recurrent.chunk(4, dim=1)
        columns = torch.cat([entry, forget, candidate, exit_], dim=1)
        with torch.no_grad():
            self.lstm.weight_ih_l0.copy_(columns[:inputs].mT)
            self.lstm.bias_ih_l0.copy_(columns[inputs])
            self.lstm.bias_hh_l0.copy_(columns[inputs + 1])
            self.lstm.weight_hh_l0.copy_(columns[inputs + 2 :].mT)
            for layer, block in zip(self.layers, (heads[0].mT, heads[1].mT, heads[2]), strict=True):
                layer.weight.copy_(block[:, :-1])
                layer.bias.copy_(block[:, -1])

    def forward(self, states: torch.Tensor, begun: Any, hidden: Any, cells: Any) -> torch.Tensor:
        """Run one sequence [T, inputs] step by step; an episode begins with nothing remembered."""
        carried, outputs = (hidden, cells), []
        for state, anew in zip(states, begun, strict=True):
            if anew:
                carried = (torch.zeros_like(carried[0]), torch.zeros_like(carried[1]))
            output, carried = self.lstm(state[None], carried)
            outputs.append(output[0])
        out = torch.stack(outputs)
        for layer in self.layers[:2]:
            out = torch.tanh(layer(out))
        return self.layers[2](out)  # [T, actions]


def make_learner(config: RecurrentConfig = CONFIG) -> RecurrentLearner:
    return RecurrentLearner(TOY_ENCODED, TASKS, config)


def roll_out(learner: RecurrentLearner, seed: int = 0) -> Any:
    uniforms = np.random.default_rng(seed).random((STEPS, len(TASKS), ENVS))
    return learner.acting.rollout(uniforms)


def column(recorded: Any, task: int, env: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return what one environment showed, and where its episodes begin."""
    rows = np.arange(STEPS) * ENVS + env
    return recorded.inputs[task, rows], recorded.keep[task, rows].numpy() == 0


def test_acting_equals_a_network_of_its_own() -> None:
    learner = make_learner()
    roll_out(learner, seed=1)  # so that memories and episodes are in the middle
    before = learner.acting.carry
    recorded = roll_out(learner)
    rollout = recorded.rollout
    assert rollout.truncated.any()
    for task in range(len(TASKS)):
        policy, value = (Twin(learner, task, which) for which in (POLICY, VALUE))
        for env in range(ENVS):
            states, begun = column(recorded, task, env)
            slot = task * ENVS + env
            assert begun[1:].tolist() == rollout.ends[:-1, slot].tolist()
            own = [(part[2 * task + which, env][None]) for which in (0, 1) for part in before]
            odds = policy(states, begun, *own[:2]).softmax(dim=1)
            taken = odds[torch.arange(STEPS), torch.from_numpy(rollout.actions[:, slot])]
            np.testing.assert_allclose(
                taken.detach(), recorded.probabilities[:, task, env], rtol=1e-4, atol=1e-6
            )
            values = value(states, begun, *own[2:])[:, 0]
            np.testing.assert_allclose(values.detach(), recorded.values[:, task, env], atol=1e-5)


def test_what_was_cut_off_is_valued_by_its_last_state() -> None:
    learner = make_learner()
    recorded = roll_out(learner)
    rollout = recorded.rollout
    for task in range(len(TASKS)):
        value = Twin(learner, task, VALUE)
        for env in range(ENVS):
            states, begun = column(recorded, task, env)
            slot = task * ENVS + env
            blank = torch.zeros(1, UNITS)
            for step in range(STEPS):
                if step + 1 < STEPS and not rollout.ends[step, slot]:
                    expected = recorded.values[step + 1, task, env]
                elif not rollout.ends[step, slot]:
                    continue
                else:
                    last = torch.from_numpy(rollout.next_states[step, slot])[None]
                    shown = torch.cat([states[: step + 1], last])
                    anew = [*begun[: step + 1], False]
                    expected = value(shown, anew, blank, blank)[-1, 0].item()
                found = recorded.values_after[step, task, env]
                assert found == pytest.approx(expected, abs=1e-5)


def plain_loss(twins: list[Twin], recorded: Any, experience: Any, batch: Any, task: int) -> Any:
    """PPO's loss of one task, sequence by sequence, as sb3-contrib writes it."""
    ratios, entropies, squares, gains = [], [], [], []
    advantage = torch.from_numpy(experience.advantages[task, batch.rows]).float()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain_of = dict(zip(batch.rows.tolist(), advantage, strict=True))
    laid = batch.rows.reshape(STEPS, -1)  # [steps, lanes]
    ranges = pairwise((*batch.starts, STEPS))
    for (begin, stop), lane in product(ranges, range(laid.shape[1])):
        start, own = batch.starts[begin], laid[begin:stop, lane]
        states, begun = recorded.inputs[task, own], recorded.keep[task, own] == 0
        outputs = []
        for which, twin in enumerate(twins):
            net, env = 2 * task + which, start.envs[lane]
            kept = [part[start.step, net, env][None] for part in recorded.carry]
            outputs.append(twin(states, begun, *kept))
        policy = torch.distributions.Categorical(logits=outputs[POLICY])
        actions = torch.from_numpy(experience.actions[task, own])
        old = torch.from_numpy(experience.probabilities[task, own]).float().log()
        ratios.append((policy.log_prob(actions) - old).exp())
        entropies.append(policy.entropy())
        targets = torch.from_numpy(experience.returns[task, own]).float()
        squares.append((outputs[VALUE][:, 0] - targets).square())
        gains.append(torch.stack([gain_of[row] for row in own.tolist()]))
    ratio, gain = torch.cat(ratios), torch.cat(gains)
    assert len(ratio) == CONFIG.batch_size
    clipped = ratio.clamp(1 - CONFIG.clip_range, 1 + CONFIG.clip_range)
    loss = -torch.min(gain * ratio, gain * clipped).mean()
    loss = loss - CONFIG.ent_coef * torch.cat(entropies).mean()
    return loss + CONFIG.vf_coef * torch.cat(squares).mean()


def flat(twin: Twin) -> list[torch.Tensor]:
    """Return a twin's gradients as ours lie."""
    cells = twin.lstm
    rows = [cells.weight_ih_l0.grad.mT, cells.bias_ih_l0.grad[None]]
    rows += [cells.bias_hh_l0.grad[None], cells.weight_hh_l0.grad.mT]
    entry, forget, candidate, exit_ = torch.cat(rows).chunk(4, dim=1)
    layers = [torch.cat([x.weight.grad, x.bias.grad[:, None]], dim=1) for x in twin.layers]
    lstm = torch.cat([exit_, entry, forget, candidate], dim=1)
    return [lstm, layers[0].mT, layers[1].mT, layers[2]]


@pytest.mark.parametrize("place", [0, 4, STEPS + 9, 3 * STEPS])
def test_one_update_equals_a_plain_one_per_task(place: int) -> None:
    learner = make_learner()
    roll_out(learner, seed=1)
    recorded = roll_out(learner)
    for _ in range(3):  # away from the acting policy, so that ratios are clipped
        drifted = recorded.experience(CONFIG.gamma, CONFIG.gae_lambda)
        for batch in cut_sequences(STEPS, ENVS, CONFIG.batch_size, 7):
            learner.update(recorded, drifted, batch)
    experience = recorded.experience(CONFIG.gamma, CONFIG.gae_lambda)
    for batch in cut_sequences(STEPS, ENVS, CONFIG.batch_size, place):
        twins = [[Twin(learner, task, which) for which in (POLICY, VALUE)] for task in (0, 1)]
        for task, pair in enumerate(twins):
            plain_loss(pair, recorded, experience, batch, task).backward()
            nn.utils.clip_grad_norm_([p for twin in pair for p in twin.parameters()], 0.5)
        learner.update(recorded, experience, batch)
        for task, pair in enumerate(twins):
            for which, twin in enumerate(pair):
                blocks = learner.networks.parameters.gradient_blocks
                for mine, theirs in zip(blocks, flat(twin), strict=True):
                    own = mine[2 * task + which]
                    torch.testing.assert_close(own, theirs, rtol=2e-3, atol=2e-6)


def test_networks_start_as_those_of_sb3_contrib() -> None:
    networks = make_learner(replace(CONFIG, units=64)).networks
    assert networks.lstms.abs().max() <= 1 / 8
    assert networks.lstms.std() == pytest.approx(1 / 8 / 3**0.5, rel=0.02)
    policy_head = networks.heads.weights[2][0]
    assert policy_head[:, :-1].norm(dim=1).tolist() == pytest.approx([0.01] * 3)


def test_other_tasks_do_not_matter() -> None:
    def play(tasks: tuple[int, ...]) -> np.ndarray:
        learner = RecurrentLearner(TOY_ENCODED, tasks, CONFIG)
        return np.stack([learner.advance().actions for _ in range(2)])

    together = play((0, 2))
    assert np.array_equal(together, play((0, 2)))
    assert np.array_equal(together[0, :, ENVS:], play((2, 3))[0, :, :ENVS])


def maze_config(**changes: Any) -> RecurrentConfig:
    options: dict[str, Any] = {"candidates": 3, "keep_above": None, "envs_per_task": 2, "units": 8}
    options |= {"n_steps": 50, "batch_size": 100, "n_epochs": 1, "transitions": 1700}
    return RecurrentConfig(**(options | changes))


def test_episodes_of_several_mazes_are_stored_as_they_were_lived(tmp_path: Path) -> None:
    suite = SUITES["maze-runner-15x15"]
    record_histories(suite, maze_config(), tmp_path, workers=1, quiet=True, source="ppo-lstm")
    dataset = Dataset.open(tmp_path)
    assert dataset.manifest.source == "ppo-lstm"
    assert dataset.tasks == (0, 1, 2)
    assert {entry.transitions for entry in dataset.manifest.files} == {1700}
    for task in dataset.tasks:
        history = dataset.history(task)
        assert len(history.lengths) >= 4
        assert_obeys(suite, history)  # rewards, too, where it was cut off


class OddTasksPay(RecurrentLearner):
    """Only agents of odd tasks are paid."""

    def advance(self) -> Any:
        rollout = super().advance()
        odd = np.repeat(self.tasks, ENVS) % 2
        return replace(rollout, rewards=np.zeros_like(rollout.rewards) + odd.astype(np.float32))


def select(folder: Path, **changes: Any) -> list[int]:
    options: dict[str, Any] = {"tasks_per_group": 1, "n_epochs": 1, "transitions": 120, **changes}
    config = replace(CONFIG, **options)
    request = Request(TOY_ENCODED, config, folder, LocalEngine(), lambda news: None)
    tasks = TOY_ENCODED.train_tasks
    above = -np.inf if config.keep_above is None else config.keep_above
    recorded = record_learning(request, OddTasksPay, tasks, config.tasks, above)
    return [history.task for history in recorded.histories]


def test_only_learned_tasks_are_kept_and_no_more_than_needed_are_tried(tmp_path: Path) -> None:
    assert TOY_ENCODED.train_tasks == (0, 1, 2, 3)
    assert select(tmp_path / "all") == [1, 3]
    assert select(tmp_path / "one", tasks=1) == [1]
    assert not list((tmp_path / "one").glob("group-002*"))  # task 0, and then task 1 was enough
    assert select(tmp_path / "any", tasks=3, keep_above=None) == [0, 1, 2]
    with pytest.raises(CollectError, match=r"none of 4 tasks.*above 99.*keep_above"):
        select(tmp_path / "none", keep_above=99.0)


@pytest.mark.parametrize(
    ("missing", "workers", "groups"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (1, 2, 2), (99, 2, 4)]
)
def test_a_wave_is_as_large_as_it_must_be(
    missing: int, workers: int, groups: int, tmp_path: Path
) -> None:
    config = replace(CONFIG, tasks_per_group=2)
    request = Request(TOY_ENCODED, config, tmp_path, LocalEngine(workers), lambda news: None)
    jobs = group_jobs(request, RecurrentLearner, range(8))
    assert [job.tasks for job in jobs] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert len(next_wave(jobs, missing, workers)) == groups


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 20}, "must hold whole rollouts"),
        ({"batch_size": 3 * STEPS}, "must hold whole rollouts of n_steps=15 and divide the 60"),
        ({"transitions": 1001}, "cannot be shared equally"),
        ({"candidates": 0}, "candidates must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **change)


def test_tasks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="not images"):
        record_histories(TOY_IMAGE, CONFIG, tmp_path, source="ppo-lstm")
    with pytest.raises(CollectError, match="discrete actions"):
        record_histories(TOY_REACH, CONFIG, tmp_path, source="ppo-lstm")
