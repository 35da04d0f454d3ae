from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from radt.methods.exploration import exploring
from radt.methods.trials import RunningTrials, last_real
from radt.spaces import ActionSpace, StateSpace, TaskSpaces
from radt.trajectory import Batch

HORIZON = 9
SPACES = {
    "discrete": TaskSpaces(
        StateSpace("discrete", (2,), (50, 50)),
        ActionSpace("discrete", 4),
        HORIZON,
        1.0,
        solved_above=0.0,
    ),
    "continuous": TaskSpaces(
        StateSpace("vector", (3,)), ActionSpace("continuous", 2), HORIZON, 1.0
    ),
}


class Naive:
    """Keeps the running trials of each slot as plain lists."""

    def __init__(self, spaces: TaskSpaces, slots: int) -> None:
        self.spaces, self.steps, self.now = spaces, [[] for _ in range(slots)], [None] * slots
        self.target = [0.0] * slots

    def row(self, slot: int, context_len: int) -> dict[str, list]:
        steps = self.steps[slot]
        rewards = [reward for _, _, reward in steps]
        blank = np.zeros(self.spaces.action.shape)
        rows = [*steps, (self.now[slot], blank, 0.0)]
        shown = range(max(0, len(rows) - context_len), len(rows))
        return {
            "states": [rows[t][0] for t in shown],
            "actions": [rows[t][1] for t in shown],
            "rewards": [rows[t][2] for t in shown],
            "returns_to_go": [self.target[slot] - sum(rewards[:t]) for t in shown],
            "timesteps": list(shown),
        }


def lived(
    spaces: TaskSpaces, slots: int, rng: np.random.Generator, moments: int
) -> tuple[RunningTrials, Naive]:
    """Roll out random trials of unequal lengths; every slot ends with a state it is in."""
    trials, naive = RunningTrials(spaces, slots), Naive(spaces, slots)
    everyone = np.arange(slots)
    for slot in everyone:
        begin(trials, naive, slot, rng)
    for moment in range(moments):
        see(trials, naive, rng)
        if moment == moments - 1:
            break
        acting = everyone[rng.random(slots) < 0.8]
        actions = random_actions(spaces, len(acting), rng)
        rewards = rng.normal(size=len(acting)).astype(np.float32)
        trials.record(acting, actions, rewards)
        for slot, action, reward in zip(acting, actions, rewards, strict=True):
            naive.steps[slot].append((naive.now[slot], action, float(reward)))
        for slot in acting:
            if len(naive.steps[slot]) == HORIZON or rng.random() < 0.15:
                check_finished(trials, naive, slot)
                begin(trials, naive, slot, rng)
    return trials, naive


def begin(trials: RunningTrials, naive: Naive, slot: int, rng: np.random.Generator) -> None:
    target = np.float32(rng.normal(5, 1))
    trials.begin_trial(np.array([slot]), np.array([target]))
    naive.target[slot], naive.steps[slot] = float(target), []


def see(trials: RunningTrials, naive: Naive, rng: np.random.Generator) -> None:
    shape = trials.spaces.state.shape
    states = rng.integers(0, 50, (trials.slots, *shape))
    trials.see(np.arange(trials.slots), states)
    naive.now = list(states)


def random_actions(spaces: TaskSpaces, count: int, rng: np.random.Generator) -> np.ndarray:
    if spaces.action.kind == "discrete":
        return rng.integers(1, 4, count)
    return rng.uniform(0.1, 1, (count, *spaces.action.shape)).astype(np.float32)


def check_finished(trials: RunningTrials, naive: Naive, slot: int) -> None:
    before = int(trials.trial[slot])
    trajectory = trials.finish(slot)
    states, actions, rewards = zip(*naive.steps[slot], strict=True)
    np.testing.assert_array_equal(trajectory.states, np.stack(states))
    np.testing.assert_array_equal(trajectory.actions, np.stack(actions))
    np.testing.assert_allclose(trajectory.rewards, rewards, rtol=1e-6)
    assert (trajectory.task, trajectory.episode) == (slot, before)
    assert trials.trial[slot] == before + 1


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("context_len", [1, 4, 50])
@pytest.mark.parametrize("moments", [1, 2, 7, 23, 40])
def test_recent_is_what_a_naive_list_says(kind: str, context_len: int, moments: int) -> None:
    rng = np.random.default_rng(moments)
    trials, naive = lived(SPACES[kind], 5, rng, moments)
    slots = np.array([3, 0, 4])
    batch = trials.recent(slots, context_len)
    for row, slot in enumerate(slots):
        expected = naive.row(slot, context_len)
        shown = batch.mask[row]
        assert int(shown.sum()) == len(expected["states"])
        assert bool(shown[: int(shown.sum())].all())
        for name, values in expected.items():
            found = getattr(batch, name)[row][shown].numpy()
            np.testing.assert_allclose(found, np.stack(values), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("moments", [1, 2, 23, 40])
def test_latest_carries_the_action_before(kind: str, moments: int) -> None:
    trials, naive = lived(SPACES[kind], 4, np.random.default_rng(moments), moments)
    slots = np.array([2, 1])
    no_action = 4 if kind == "discrete" else 0
    batch = trials.latest(slots, no_action)
    for row, slot in enumerate(slots):
        steps = naive.steps[slot]
        np.testing.assert_array_equal(batch.states[row, 0], naive.now[slot])
        before = steps[-1][1] if steps else np.full(SPACES[kind].action.shape, no_action)
        np.testing.assert_allclose(batch.actions[row, 0], before)
        assert batch.rewards[row, 0] == pytest.approx(steps[-1][2] if steps else 0.0)
        left = naive.target[slot] - sum(step[2] for step in steps)
        assert batch.returns_to_go[row, 0] == pytest.approx(left, abs=1e-4)
        assert batch.timesteps[row, 0] == len(steps)
    assert batch.mask.all()


def test_nothing_of_a_longer_trial_before_is_ever_seen() -> None:
    spaces, slot = SPACES["discrete"], np.array([0])
    fresh, used = RunningTrials(spaces, 1), RunningTrials(spaces, 1)
    used.begin_trial(slot, np.array([3.0], np.float32))
    for _ in range(HORIZON):
        used.see(slot, np.array([[49, 49]]))
        used.record(slot, np.array([3]), np.array([1e30], np.float32))
    used.finish(0)
    for trials in (fresh, used):
        trials.begin_trial(slot, np.array([8.0], np.float32))
    for step in range(HORIZON - 1):
        for trials in (fresh, used):
            trials.see(slot, np.array([[step, 1]]))
        assert_same(fresh.recent(slot, 4), used.recent(slot, 4))
        assert_same(fresh.recent(slot, 50), used.recent(slot, 50))
        assert_same(fresh.latest(slot, 4), used.latest(slot, 4))
        for trials in (fresh, used):
            trials.record(slot, np.array([1]), np.array([0.5], np.float32))
    np.testing.assert_array_equal(fresh.finish(0).rewards, used.finish(0).rewards)


def assert_same(one: Batch, other: Batch) -> None:
    for name in Batch.__dataclass_fields__:
        assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_a_trial_beyond_the_horizon_is_an_error() -> None:
    trials, slot = RunningTrials(SPACES["discrete"], 1), np.array([0])
    trials.begin_trial(slot, np.zeros(1, np.float32))
    for _ in range(HORIZON):
        trials.see(slot, np.array([[1, 1]]))
        trials.record(slot, np.array([1]), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="beyond the 9 steps"):
        trials.see(slot, np.array([[1, 1]]))


def test_a_new_task_knows_of_no_reward() -> None:
    trials, slots = RunningTrials(SPACES["discrete"], 2), np.array([0, 1])
    trials.begin_trial(slots, np.zeros(2, np.float32))
    trials.see(slots, np.ones((2, 2)))
    trials.record(slots, np.array([1, 1]), np.array([1.0, 1.0], np.float32))
    trials.finish(0)
    trials.begin_task(np.array([0]))
    assert trials.solved.tolist() == [False, True]
    assert trials.trial.tolist() == [0, 0]
    assert trials.step.tolist() == [0, 1]


def test_last_real_picks_before_the_padding() -> None:
    trials, _ = lived(SPACES["discrete"], 3, np.random.default_rng(0), 6)
    batch = trials.recent(np.arange(3), 4)
    values = torch.arange(batch.mask.numel()).view(*batch.mask.shape, 1)
    for row, picked in enumerate(last_real(batch, values)):
        assert picked == values[row][batch.mask[row]][-1]


def test_a_task_is_solved_by_a_trial_that_earns_more_than_its_bound() -> None:
    spaces = replace(SPACES["discrete"], solved_above=1.0)
    trials = RunningTrials(spaces, slots=1)
    slot, action = np.array([0]), np.array([0])
    for rewards, solved in (([1, 0], False), ([1, 1], True), ([0, 0], True)):
        trials.begin_trial(slot, np.zeros(1, np.float32))
        for reward in rewards:
            trials.see(slot, trials.states[:1, 0])
            trials.record(slot, action, np.array([reward], np.float32))
        assert trials.solved[0] == solved
        trials.finish(0)


def test_exploring_is_where_no_trial_got_farther_and_none_solved_the_task() -> None:
    trials = RunningTrials(replace(SPACES["discrete"], solved_above=1.0), slots=1)
    slot, action = np.array([0]), np.array([0])
    for rewards, expected in (
        ([0, 1, 0], [True, True, True]),  # all is new
        ([0, 1, 0], [False, True, True]),  # the way to the first reward is known
        ([0, 0, 0], [False, False, False]),
        ([0, 0, 0], [True, True, True]),  # it did not pay again, so that it is left alone
        ([0, 0, 0], [False, False, False]),  # for one trial
        ([0, 0, 0], [True, True, True]),
        ([0, 1, 0], [True, True, True]),  # for two, but here it pays
        ([0, 0, 0], [False, False, False]),
        ([0, 0, 0], [True, True, True]),
        ([0, 0, 0], [False, False, False]),
        ([1, 1, 0], [True, False, False]),  # solved
        ([0, 0, 0], [False, False, False]),
    ):
        trials.begin_trial(slot, np.zeros(1, np.float32))
        seen = []
        for reward in rewards:
            trials.see(slot, trials.states[:1, 0])
            trials.record(slot, action, np.array([reward], np.float32))
            seen.append(bool(exploring(trials, slot)[0]))
        assert seen == expected
        trials.finish(0)
    trials.begin_task(slot)
    assert exploring(trials, slot).all()
