from __future__ import annotations

import numpy as np
import pytest
import torch

from radt.methods.heuristic import CERTAIN
from radt.methods.nearest import distance, state_scale
from radt.methods.trials import RunningTrials
from radt.trajectory import Trajectory
from tests.contracts.method import build_method
from tests.toys import TOY_GRID, TOY_IMAGE, TOY_REACH

ONE = np.array([0])


def trial(states: list[list[float]], actions: list[object], total: float) -> Trajectory:
    rewards = np.zeros(len(states), np.float32)
    rewards[-1] = total
    return Trajectory(np.array(states), np.array(actions), rewards, 0, 0)


def decide(finished: list[Trajectory], cell: list[int]) -> list[float]:
    actor = build_method("nearest", TOY_GRID.spaces).actor(1)
    actor.remember(finished)
    trials = RunningTrials(TOY_GRID.spaces, 1)
    trials.begin_trial(ONE, np.zeros(1, np.float32))
    trials.see(ONE, np.array([cell]))
    return actor.decide(trials, ONE)[0].tolist()


def test_the_last_visit_of_the_best_trial_is_copied() -> None:
    worst = trial([[0, 0], [0, 0]], [3, 3], 0)
    good = trial([[0, 0], [1, 0]], [4, 4], 1)
    best = trial([[0, 0], [0, 1], [0, 0]], [1, 3, 2], 2)
    assert decide([worst, best, good], [0, 0]) == [0, 0, CERTAIN, 0, 0]
    assert decide([worst, best, good], [1, 0]) == [0, 0, 0, 0, CERTAIN]


@pytest.mark.parametrize("finished", [[], [trial([[0, 0]], [1], 1)], [trial([[0, 0]], [1], 0)] * 2])
def test_without_a_better_trial_it_acts_at_random(finished: list[Trajectory]) -> None:
    assert decide(finished, [0, 0]) == [0] * 5


def test_continuous_random_actions_follow_the_noise_of_the_trial() -> None:
    spaces = TOY_REACH.spaces
    actor, trials = build_method("random", spaces).actor(1), RunningTrials(spaces, 1)
    trials.noise[0, 0] = 0.75
    torch.testing.assert_close(actor.decide(trials, ONE), torch.full((1, spaces.action.size), 0.5))


def test_distances_are_normalised() -> None:
    states = np.array([[0.0, 0.0], [2.0, 200.0]])
    scale = state_scale([states])
    np.testing.assert_allclose(scale, [1, 100])
    np.testing.assert_allclose(distance(states / scale, np.array([0.0, 0.0])), [0, 2])


def test_images_are_compared_coarsely() -> None:
    spaces = TOY_IMAGE.spaces
    actor, trials = build_method("nearest", spaces).actor(1), RunningTrials(spaces, 1)
    images = np.zeros((2, *spaces.state.shape), np.uint8)
    images[1, :, :, 32:] = 255
    for total, actions in ((0.0, [0, 0]), (1.0, [2, 1])):
        rewards = np.array([0, total], np.float32)
        actor.remember([Trajectory(images, np.array(actions), rewards, 0, 0)])
    trials.begin_trial(ONE, np.zeros(1, np.float32))
    for row, action in ((0, 2), (1, 1)):
        seen = images[row].copy()
        seen[0, 0, 0] ^= 1
        trials.see(ONE, seen[None])
        assert int(actor.decide(trials, ONE)[0].argmax()) == action


def test_continuous_replay_repeats_its_best_trial_up_to_the_reward_and_rests() -> None:
    spaces = TOY_REACH.spaces
    actor, trials = build_method("replay", spaces).actor(1), RunningTrials(spaces, 1)
    moves = [np.full(spaces.action.size, value, np.float32) for value in (0.1, 0.2, 0.3)]
    states = [[0.0] * spaces.state.shape[0]] * 3

    def acted(step: int) -> list[float]:
        trials.step[0], trials.noise[0] = step, 0.75
        return actor.decide(trials, ONE)[:, 0].tolist()

    failure, success = (trial(states, moves, total) for total in (0.0, 1.0))
    success.rewards[:] = (0.0, 1.0, 1.0)
    actor.remember([failure])
    assert acted(0) == pytest.approx([0.5])  # at random
    actor.remember([success, failure])
    assert [acted(step) for step in range(3)] == [pytest.approx([v]) for v in (0.1, 0.2, 0.0)]
    actor.forget(ONE)
    assert acted(0) == pytest.approx([0.5])
