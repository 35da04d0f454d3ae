"""Chunks that are shown subgoal by subgoal, at training and while acting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from radt.data import Dataset
from radt.memory.entries import blank
from radt.memory.memory import Memory, MemoryConfig
from radt.methods.decision_cache import MovingWindow
from radt.methods.ra_dt import RADT, RADTActor, RADTOptions
from radt.methods.training_contexts import RetrievalTraining
from radt.methods.transforms import (
    SUBGOALS,
    HeldSubgoals,
    draw_subgoals,
    show_subgoal,
    subgoals_of_windows,
)
from radt.methods.trials import RunningTrials
from radt.methods.windows import WindowOptions, WindowSampler, rewards_before
from radt.trajectory import Trajectory
from tests.memory.toy_data import toy_embedder, write_toys
from tests.model.batches import small_model
from tests.toys import TOY_GRID

CONTEXT = 4
REWARDS = (0, 1, 0, 0, 1, 1, 0, 1)


def rewarded(rng: np.random.Generator, length: int) -> Trajectory:
    """Wander, and be rewarded now and then."""
    states = rng.integers(TOY_GRID.spaces.state.bins, size=(length, 2)).astype(np.uint8)
    actions = rng.integers(TOY_GRID.spaces.action.size, size=length).astype(np.uint8)
    rewards = (rng.random(length) < 0.3).astype(np.float32)
    return Trajectory(states, actions, rewards, 0, 0)


@pytest.fixture
def dataset(tmp_path: Path, rng: np.random.Generator) -> Dataset:
    tasks = TOY_GRID.train_tasks[:2]
    lived = {task: [rewarded(rng, TOY_GRID.spaces.horizon) for _ in range(4)] for task in tasks}
    return write_toys(tmp_path, TOY_GRID, lived)


@pytest.mark.parametrize(
    ("subgoal", "shown"),
    [(0, [0, 1, 2]), (1, [2, 3, 4, 5]), (2, [5, 6]), (3, [6, 7])],
)
def test_a_leg_leads_to_the_next_reward_and_to_its_place(subgoal: int, shown: list[int]) -> None:
    whole = blank(TOY_GRID.spaces, 1, len(REWARDS))
    whole = replace(whole, rewards=torch.tensor([REWARDS]).float(), mask=~whole.mask)
    mask = show_subgoal(whole, torch.tensor([subgoal])).mask[0]
    assert mask.nonzero().flatten().tolist() == shown


def test_every_step_of_a_window_knows_its_leg(dataset: Dataset, rng: np.random.Generator) -> None:
    sampler = WindowSampler(dataset, CONTEXT, WindowOptions())
    windows = sampler.draw(40, rng)
    recent = sampler.read(windows)
    subgoals = subgoals_of_windows(dataset, windows.episode, recent)
    zeros = np.zeros_like(windows.start)
    whole = dataset.windows(windows.episode, zeros, TOY_GRID.spaces.horizon)
    before = rewards_before(whole.rewards).clamp_max(SUBGOALS - 1)
    for row in range(40):
        at = recent.timesteps[row][recent.mask[row]]
        assert subgoals[row][recent.mask[row]].tolist() == before[row][at].tolist()


def test_legs_are_drawn_by_the_root_of_their_steps(rng: np.random.Generator) -> None:
    subgoals = torch.tensor([0] * 4 + [1] * 16 + [3] * 5).repeat(4000, 1)
    targets = subgoals < 3
    drawn = draw_subgoals(subgoals, targets, rng)
    assert set(drawn.tolist()) == {0, 1}  # only what has targets
    assert abs((drawn == 0).double().mean() - 1 / 3) < 0.03


@pytest.mark.parametrize(
    "options",
    [
        {"subgoals": True},
        {"subgoals": True, "memory": MemoryConfig(retrieve_every=0, top_k=2)},
        {"training": RetrievalTraining(truncated_chunks=0.5), "memory": MemoryConfig(top_k=2)},
        {"training": RetrievalTraining(truncated_chunks=1.5)},
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"need|share"):
        RADTOptions(**options)


def test_targets_are_on_the_leg_that_is_shown(dataset: Dataset, rng: np.random.Generator) -> None:
    options = RADTOptions(
        memory=MemoryConfig(context_len=CONTEXT, retrieve_every=0),
        training=RetrievalTraining(start_chunks=True),
        subgoals=True,
    )
    method = RADT(TOY_GRID.spaces, options, 0, toy_embedder(TOY_GRID.spaces))
    method.prepare(dataset)
    examples = method.draw(64, rng)
    assert examples.targets.any(1).all()
    assert (examples.targets <= examples.recent.mask).all()
    assert (examples.targets.sum(1) < examples.recent.mask.sum(1)).any()  # others are elsewhere


@torch.no_grad()
def test_an_agent_turns_to_the_next_leg_with_a_reward(rng: np.random.Generator) -> None:
    spaces, everyone = TOY_GRID.spaces, np.arange(2)
    config = MemoryConfig(context_len=CONTEXT, retrieve_every=0)
    memory = Memory(toy_embedder(spaces), spaces, config)
    past = [replace(rewarded(rng, 8), task=slot) for slot in (0, 1)]
    past = [replace(trial, rewards=np.array(REWARDS, np.float32)) for trial in past]
    memory.write(past)
    window = MovingWindow(small_model(spaces, retrieves=True), 2, CONTEXT, 1)
    held = HeldSubgoals(window.policy, memory.chunks(torch.full((2, 1), -1)))
    actor = RADTActor(window, memory, held)
    trials = RunningTrials(spaces, 2)
    trials.begin_task(everyone)
    trials.begin_trial(everyone, np.zeros(2, np.float32))
    trials.see(everyone, np.stack([trial.states[0] for trial in past]))
    actor.begin_trials(everyone)
    seen = []
    for paid in ((0, 0), (1, 0), (0, 1)):
        actor.decide(trials, everyone)
        seen.append(actor.reading.mask.clone())
        trials.record(everyone, np.zeros(2, np.int64), np.array(paid, np.float32))
        trials.see(everyone, np.stack([trial.states[0] for trial in past]))
    actor.decide(trials, everyone)
    seen.append(actor.reading.mask.clone())
    for slot in everyone.tolist():  # the next trial begins with the first subgoal of the same chunk
        trials.finish(slot)
    trials.begin_trial(everyone, np.zeros(2, np.float32))
    trials.see(everyone, np.stack([trial.states[0] for trial in past]))
    actor.begin_trials(everyone)
    actor.decide(trials, everyone)
    seen.append(actor.reading.mask.clone())
    for mask, stages in zip(seen, ((0, 0), (0, 0), (1, 0), (1, 1), (0, 0)), strict=True):
        assert torch.equal(mask, show_subgoal(held.whole, torch.tensor(stages)).mask)
        assert mask.any(1).all()
