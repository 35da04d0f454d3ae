"""The goals are the authors' goals, and what is called best is best."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radt.envs import SUITES, KeyRoom
from radt.envs.dark_room import (
    EVAL_TASKS,
    DarkRoom,
    DarkRoomSuite,
    DarkRoomVec,
    Room,
    goal_cells,
    slippery_values,
    straight_values,
)


def suite_of(name: str) -> DarkRoomSuite:
    suite = SUITES[name]
    assert isinstance(suite, DarkRoomSuite)
    return suite


def test_goals_are_the_authors_goals() -> None:
    goals = goal_cells(10, 10).tolist()
    assert goals[:5] == [[2, 0], [0, 2], [1, 5], [2, 2], [5, 7]]
    assert goals[80:85] == [[9, 0], [8, 4], [3, 4], [6, 5], [7, 5]]
    assert len({tuple(goal) for goal in goals}) == 100


def test_goal_is_observed_as_row_and_column() -> None:
    env = DarkRoom(task=EVAL_TASKS[0])  # (x, y) = (9, 0)
    env.reset()
    for _ in range(9):
        state, reward, *_ = env.step(1)
    assert (state.tolist(), reward) == ([0, 9], 1.0)


@pytest.mark.parametrize("name", ["20x20", "40x20"])
def test_fresh_goals_are_none_of_the_published_split(name: str) -> None:
    suite = suite_of(f"dark-room-{name}")
    published = suite.room.goals_of((*suite.train_tasks, *suite.eval_tasks))
    fresh = suite.room.goals_of(suite.splits["fresh"])
    assert len({*fresh}) == 40
    assert not {*fresh} & {*published}
    assert suite.make_vec(suite.splits["fresh"]).num_envs == 40


def test_no_training_goal_lies_in_the_quadrant_that_is_held_out() -> None:
    suite = suite_of("dark-room-10x10-quadrant")
    train, unseen = (
        {divmod(int(goal), 10) for goal in suite.room.goals_of(tasks)}
        for tasks in (suite.train_tasks, suite.eval_tasks)
    )
    assert unseen == {(row, column) for row in range(5, 10) for column in range(5, 10)}
    assert len(train) == 75
    assert not train & unseen


@pytest.mark.parametrize(
    ("name", "train", "unseen"),
    [("10x10", 92.2, 91.1), ("20x20", 382.7, 378.3), ("40x20", 771.3, 774.2)],
)
def test_mean_optimal_returns(name: str, train: float, unseen: float) -> None:
    suite = suite_of(f"dark-room-{name}")
    assert (len(suite.train_tasks), len(suite.eval_tasks)) == (80, 20)
    means = [
        np.mean([suite.optimal_return(task) for task in tasks])
        for tasks in (suite.train_tasks, suite.eval_tasks)
    ]
    assert means == pytest.approx([train, unseen], abs=0.051)


@pytest.mark.parametrize("name", ["10x10", "20x20", "40x20", "10x10-random-start"])
def test_optimal_actions_earn_the_optimal_return(name: str) -> None:
    suite = suite_of(f"dark-room-{name}")
    for task in (suite.train_tasks[5], *suite.eval_tasks[:3]):
        env, room, goal = suite.make(task), suite.room, suite.room.goal(task)
        state, _ = env.reset(seed=task)
        best = suite.optimal_return(task)
        if room.random_start:
            best = float(room.best_values(goal, room.horizon)[room.cells(state)])
        earned = 0.0
        for left in range(room.horizon, 0, -1):
            state, reward, *_ = env.step(room.optimal_actions(goal, state, left))
            earned += reward
        assert earned == best


def test_goal_under_the_start_pays_for_waiting() -> None:
    room = Room(10, 10)
    task = int(np.flatnonzero(room.goals == 0)[0])
    env = DarkRoom(task, room)
    state, _ = env.reset()
    assert room.optimal_return(0) == 100.0
    assert env.step(room.optimal_actions(0, state, 100))[1] == 1.0


def test_without_slips_both_solutions_agree() -> None:
    for goal in (0, 7, 11):
        solved = slippery_values(4, 3, goal, slip=0.0)
        for left in range(13):
            assert np.array_equal(solved[left], straight_values(4, 3, goal, left))


def test_expected_optimum_of_a_slippery_room_is_what_the_optimal_policy_earns() -> None:
    room = Room(5, 4, random_start=True, slip=0.3)
    slots = 4000
    env = DarkRoomVec([3] * slots, room)
    states, _ = env.reset(seed=0)
    earned = np.zeros(slots)
    for left in range(room.horizon, 0, -1):
        actions = room.optimal_actions(room.goal(3), states, left)
        states, rewards, *_ = env.step(actions)
        earned += rewards
    error = earned.std() / np.sqrt(slots)
    assert abs(earned.mean() - room.optimal_return(room.goal(3))) < 4 * error


def test_slips_happen_as_often_as_said() -> None:
    _, forced = Room(100, 100, slip=0.1).begin(np.random.default_rng(0))
    assert np.mean(forced >= 0) == pytest.approx(0.1, abs=0.015)
    assert np.bincount(forced[forced >= 0], minlength=5).min() > 150


@given(
    width=st.integers(1, 6),
    height=st.integers(1, 6),
    task=st.integers(0, 35),
    start_seed=st.integers(0, 5),
    actions=st.lists(st.integers(0, 4), max_size=36),
)
def test_no_actions_beat_the_optimum_or_leave_the_room(
    width: int, height: int, task: int, start_seed: int, actions: list[int]
) -> None:
    room = Room(width, height, random_start=True)
    env = DarkRoom(task % room.horizon, room)
    state, _ = env.reset(seed=start_seed)
    best = room.best_values(room.goal(env.task), room.horizon)[room.cells(state)]
    earned = 0.0
    for action in actions[: room.horizon]:
        state, reward, *_ = env.step(action)
        assert env.observation_space.contains(state)
        earned += reward
    assert earned <= best
    assert best <= room.horizon


def test_suite_answers_many_states_at_once() -> None:
    suite = suite_of("dark-room-10x10")  # task 80 is at row 0, column 9
    states = np.array([[[0, 0], [5, 9]], [[0, 9], [0, 8]]])
    assert suite.optimal_actions(80, states, np.zeros((2, 2))).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="inside 10x10"):
        suite.optimal_actions(80, np.array([0, 10]), np.zeros(1))


def test_the_fields_of_rooms_stay_because_datasets_are_recognised_by_them() -> None:
    dark = {"width": 10, "height": 10, "random_start": False, "slip": 0.0, "end": "terminated"}
    assert asdict(Room()) == dark
    assert asdict(KeyRoom()) == {**dark, "persist_key": False, "show_key": False}


@pytest.mark.parametrize("rules", [{"width": 0}, {"height": 300}, {"slip": 1.5}, {"end": "done"}])
def test_impossible_rooms_are_refused(rules: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(rules.values())))):
        Room(**rules)  # type: ignore[arg-type]
