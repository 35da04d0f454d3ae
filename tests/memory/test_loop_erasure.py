"""Remembering the way and not the wandering."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from radt.memory.loop_erasure import loop_erased, loop_erased_trial
from radt.trajectory import Trajectory

STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from((0, 0, 0, 1))), min_size=1)


def lived(cells: list[int], rewards: list[float]) -> Trajectory:
    """Walk through cells; the action says at which step it was taken."""
    actions = np.arange(len(cells))
    return Trajectory(
        np.array(cells, np.uint8)[:, None], actions, np.array(rewards, np.float32), 0, 0
    )


def test_a_loop_without_reward_is_left_out_and_its_last_action_stays() -> None:
    way = loop_erased_trial(lived([0, 1, 2, 1, 3], [0, 0, 0, 0, 1]))
    assert way.states[:, 0].tolist() == [0, 1, 3]
    assert way.actions.tolist() == [0, 3, 4]


def test_a_loop_in_a_loop_is_left_out_with_it() -> None:
    assert loop_erased("abcbdaef") == [5, 6, 7]


def test_a_way_back_after_a_reward_is_no_loop() -> None:
    fetched = lived([0, 1, 0, 2], [0, 1, 0, 1])
    assert loop_erased_trial(fetched).actions.tolist() == [0, 1, 2, 3]


def test_what_came_after_the_last_reward_is_left_out() -> None:
    assert loop_erased_trial(lived([0, 1, 2, 3], [0, 1, 0, 0])).actions.tolist() == [0, 1]
    assert loop_erased_trial(lived([0, 1, 0, 3], [0, 0, 0, 0])).actions.tolist() == [2, 3]


@given(STEPS)
def test_rewards_stay_in_order_and_no_state_comes_twice_between_two(
    steps: list[tuple[int, int]],
) -> None:
    trial = lived([cell for cell, _ in steps], [float(paid) for _, paid in steps])
    way = loop_erased_trial(trial)
    assert way.rewards[way.rewards > 0].tolist() == trial.rewards[trial.rewards > 0].tolist()
    legs = np.split(way.states[:, 0], np.flatnonzero(way.rewards) + 1)
    assert all(len(set(leg.tolist())) == len(leg) for leg in legs)
    assert (way.states == trial.states[way.actions]).all()  # steps are as they were lived


@given(STEPS)
def test_what_has_no_loops_stays_as_it_is(steps: list[tuple[int, int]]) -> None:
    once = loop_erased_trial(lived([cell for cell, _ in steps], [float(paid) for _, paid in steps]))
    assert loop_erased_trial(once).actions.tolist() == once.actions.tolist()
