"""The rules of Dark-Room, its Gymnasium ids, and what happens to a careless caller."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from radt.envs import SUITES, register_envs
from radt.envs.dark_room import DarkRoom, DarkRoomVec, Room


def walk(env: DarkRoom, actions: list[int]) -> list[tuple[list[int], float]]:
    env.reset(seed=0)
    return [(state.tolist(), reward) for state, reward, *_ in map(env.step, actions)]


def test_moves() -> None:
    path = [state for state, _ in walk(DarkRoom(task=80), [1, 2, 4, 2, 3, 0])]
    assert path == [[0, 1], [1, 1], [1, 1], [2, 1], [2, 0], [1, 0]]


def test_walls_cost_a_step() -> None:
    env = DarkRoom(task=5, room=Room(3, 2))
    path = [state for state, _ in walk(env, [0, 3, 2, 2, 1])]
    assert path == [[0, 0], [0, 0], [1, 0], [1, 0], [1, 1]]
    assert env.step(1)[2], "all six steps of a 3x2 room are used up"


def test_reward_is_paid_on_every_step_on_the_goal() -> None:
    rewards = [reward for _, reward in walk(DarkRoom(task=0), [1, 1, 4, 0, 1, 3])]  # x=2, y=0
    assert rewards == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_the_end_is_reported_as_asked(end: Any) -> None:
    single, vector = DarkRoom(room=Room(10, 10, end=end)), DarkRoomVec([0, 1], end=end)
    single.reset()
    vector.reset()
    for step in range(1, 101):
        *_, terminated, truncated, _ = single.step(4)
        *_, terminations, truncations, _ = vector.step(np.array([4, 4]))
        assert terminated == (step == 100 and end == "terminated")
        assert truncated == (step == 100 and end == "truncated")
        assert terminations.tolist() == [terminated] * 2
        assert truncations.tolist() == [truncated] * 2


def test_horizons_and_targets() -> None:
    names = [f"dark-room-{size}" for size in ("10x10", "20x20", "40x20")]
    assert [SUITES[name].spaces.horizon for name in names] == [100, 400, 800]
    assert SUITES[names[2]].spaces.state.bins == (20, 40)
    assert [SUITES[name].target_return for name in names] == [(90, 5), (370, 10), (500, 10)]
    assert {SUITES[name].trials for name in names} == {40}


def test_ids_take_tasks_and_rules() -> None:
    env = gym.make("radt/DarkRoom-40x20-v0", task=83, slip=0.1)
    assert isinstance(env.unwrapped, DarkRoom)
    assert env.unwrapped.task == 83
    assert env.unwrapped.room == Room(40, 20, slip=0.1)
    by_number = gym.make_vec("radt/DarkRoom-10x10-v0", num_envs=3)
    by_name = gym.make_vec("radt/DarkRoom-10x10-v0", tasks=[80, 81], autoreset_mode="SameStep")
    assert isinstance(by_number, DarkRoomVec)
    assert isinstance(by_name, DarkRoomVec)
    assert (by_number.tasks, by_name.tasks) == ((0, 1, 2), (80, 81))
    assert by_name.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    with pytest.raises(ValueError, match="num_envs=3"):
        gym.make_vec("radt/DarkRoom-10x10-v0", num_envs=3, tasks=[1, 2])


def test_registering_again_changes_nothing() -> None:
    before = dict(gym.registry)
    register_envs()
    assert gym.registry == before


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="tasks 0 to 99, got task 100"):
        gym.make("radt/DarkRoom-10x10-v0", task=100)
    with pytest.raises(ValueError, match="got task -1"):
        DarkRoomVec([0, -1])
    with pytest.raises(ValueError, match="at least one task"):
        DarkRoomVec([])
    with pytest.raises(KeyError, match="dark-room-10x10"):
        SUITES["dark-room-10"]


@pytest.mark.parametrize("action", [5, -1, 1.0, [1], np.array([1, 2])])
def test_impossible_actions_are_refused(action: Any) -> None:
    env = DarkRoom()
    env.reset()
    with pytest.raises(ValueError, match=r"0 \(up\), 1 \(right\)"):
        env.step(action)


@pytest.mark.parametrize("actions", [[0, 5], [-1, 0], [0.0, 1.0], [0], [[0, 1]]])
def test_impossible_vector_actions_are_refused(actions: Any) -> None:
    env = DarkRoomVec([0, 1])
    env.reset()
    with pytest.raises(ValueError, match=r"of shape \(2,\)"):
        env.step(np.array(actions))


def test_a_reset_is_asked_for() -> None:
    env = DarkRoom()
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    for _ in range(100):
        env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vector_asks_for_its_first_reset(mode: AutoresetMode) -> None:
    with pytest.raises(ResetNeeded, match=r"\[0, 1\]"):
        DarkRoomVec([0, 1], autoreset_mode=mode).step(np.array([0, 0]))


def test_disabled_autoreset_names_the_slots_that_wait() -> None:
    env = DarkRoomVec([0, 1], Room(2, 2), AutoresetMode.DISABLED)
    env.reset()
    env.step(np.array([0, 0]))
    env.reset(options={"reset_mask": np.array([False, True])})
    for _ in range(3):
        *_, over, _, _ = env.step(np.array([0, 0]))
    assert over.tolist() == [True, False]
    with pytest.raises(ResetNeeded, match=r"slots \[0\]"):
        env.step(np.array([0, 0]))


@pytest.mark.parametrize("mask", [[True, False], np.array([1, 0]), np.zeros(2, bool)])
def test_impossible_masks_are_refused(mask: Any) -> None:
    with pytest.raises(ValueError, match="reset_mask"):
        DarkRoomVec([0, 1]).reset(options={"reset_mask": mask})


def test_as_many_seeds_as_slots() -> None:
    with pytest.raises(ValueError, match="3 seeds for 2 slots"):
        DarkRoomVec([0, 1]).reset(seed=[1, 2, 3])


def test_random_starts_cover_the_room() -> None:
    env = DarkRoomVec([0] * 500, random_start=True)
    first, _ = env.reset(seed=0)
    cells = env.room.cells(first)
    assert len(np.unique(cells)) > 95
    assert not np.array_equal(env.reset()[0], first), "later episodes start elsewhere"
    assert np.array_equal(env.reset(seed=0)[0], first)
