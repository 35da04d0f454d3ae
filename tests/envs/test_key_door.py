"""Dark Key-Door: the authors' keys and doors, what a step earns, what stays hidden."""

from __future__ import annotations

import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

from radt.envs import SUITES
from radt.envs.dark_room import ACTIONS, Room, slippery_values
from radt.envs.key_door import KeyDoor, KeyDoorSuite, KeyDoorVec, KeyRoom
from radt.envs.render import AGENT, KEY, REWARDED, draw_grid, print_grid
from radt.envs.suite import PrivilegedSuite, privileged_suite

UP, RIGHT, DOWN, LEFT, WAIT = range(5)
SIZES = ("10x10", "20x20", "40x20")


def suite_of(name: str) -> KeyDoorSuite:
    suite = SUITES[f"dark-key-door-{name}"]
    assert isinstance(suite, KeyDoorSuite)
    return suite


def as_xy(room: Room, cells: np.ndarray) -> list[tuple[int, int]]:
    return [(cell % room.width, cell // room.width) for cell in cells.tolist()]


def route(room: KeyRoom, start: int, end: int) -> list[int]:
    """Walk from cell to cell, row first; wait if there already."""
    (row, col), (to_row, to_col) = (divmod(cell, room.width) for cell in (start, end))
    down, right = to_row - row, to_col - col
    steps = [DOWN if down > 0 else UP] * abs(down) + [RIGHT if right > 0 else LEFT] * abs(right)
    return steps or [WAIT]


def play(env: KeyDoor, actions: list[int], seed: int | None = None) -> list[float]:
    env.reset(seed=seed)
    return [float(env.step(action)[1]) for action in actions]


def test_keys_and_doors_are_the_authors() -> None:
    room = KeyRoom()
    assert np.array_equal(room.goals, Room().goals), "doors are where Dark-Room has its goals"
    keys, doors = as_xy(room, room.keys), as_xy(room, room.goals)
    drawn = [(place // 10, place % 10) for place in np.random.RandomState(42).permutation(100)]
    assert [task for task in range(100) if keys[task] != drawn[task]] == [81], "changed by hand"
    assert (drawn[81], keys[81], doors[81]) == ((8, 4), (3, 1), (8, 4))
    assert all(key != door for key, door in zip(keys, doors, strict=True))


@pytest.mark.parametrize(
    ("name", "train", "unseen"),
    [("10x10", 85.7, 87.0), ("20x20", 370.3, 368.3), ("40x20", 754.8, 745.9)],
)
def test_mean_optimal_returns(name: str, train: float, unseen: float) -> None:
    suite = suite_of(name)
    means = [
        np.mean([suite.optimal_return(task) for task in tasks])
        for tasks in (suite.train_tasks, suite.eval_tasks)
    ]
    assert means == pytest.approx([train, unseen], abs=0.051)


def test_where_the_key_persists_the_best_is_a_dark_rooms() -> None:
    for size in SIZES:
        persist, dark = suite_of(f"{size}-persist"), SUITES[f"dark-room-{size}"]
        for task in (0, 37, 99):
            assert persist.optimal_return(task) == dark.optimal_return(task)


def test_the_key_pays_once_and_the_door_only_with_it() -> None:
    env = KeyDoor(task=0)
    room, key, door = env.room, env.room.key(0), env.room.goal(0)
    first = play(env, [*route(room, 0, door), WAIT])
    assert sum(first) == 0, "the door pays nothing without the key"
    way = [*route(room, 0, key), WAIT, *route(room, key, door), WAIT, WAIT]
    rewards = play(env, way)
    taken, reached = len(route(room, 0, key)) - 1, len(way) - 3
    assert np.flatnonzero(rewards).tolist() == [taken, reached, reached + 1, reached + 2]
    assert sum(play(env, [*route(room, 0, door), WAIT])) == 0, "the key lies there again"


def test_a_key_that_persists_is_kept_until_a_seed() -> None:
    env = KeyDoor(task=0, persist_key=True)
    room, key, door = env.room, env.room.key(0), env.room.goal(0)
    to_door = [*route(room, 0, door), WAIT]
    assert sum(play(env, to_door, seed=0)) == 0
    assert sum(play(env, route(room, 0, key))) == 1
    assert sum(play(env, to_door)) == 2
    assert sum(play(env, route(room, 0, key))) == 0, "taken is taken"
    assert sum(play(env, to_door, seed=0)) == 0, "a seed begins a new life"


def test_a_key_under_the_start_is_taken_by_the_first_step_that_ends_there() -> None:
    task = int(np.flatnonzero(KeyRoom().keys == 0)[0])
    env = KeyDoor(task)
    env.reset()
    assert env.view().key == (0, 0)
    assert env.step(WAIT)[1] == 1.0
    assert env.step(WAIT)[1] == 0.0
    assert play(env, [UP]) == [1.0], "a wall leaves it where it is, too"
    assert play(env, [RIGHT, LEFT]) == [0.0, 1.0]
    assert (
        env.room.best_return(task, has_key=False)
        == 100 - 1 - len(route(env.room, 0, env.room.goal(task))) + 2
    )


def test_a_key_under_the_door_pays_for_the_key_first() -> None:
    room = KeyRoom(40, 20)
    same = np.flatnonzero(room.keys == room.goals).tolist()
    assert [task for task in same if task < 100] == [37], "the authors' 38th"
    assert as_xy(room, room.keys)[37] == (19, 18)
    way = route(room, 0, room.key(37))
    rewards = play(KeyDoor(37, room), [*way, WAIT, WAIT, UP, DOWN])
    assert rewards[len(way) - 1 :] == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert room.best_return(37, has_key=False) == 800 - len(way) + 1


@pytest.mark.parametrize("name", [*SIZES, "10x10-persist"])
def test_optimal_actions_earn_the_optimal_return(name: str) -> None:
    suite = suite_of(name)
    for task in (5, 37, *suite.eval_tasks[:2]):
        env, room, has_key = suite.make(task), suite.room, False
        for _ in range(2):  # where the key persists, the second episode begins with it
            state, _ = env.reset()
            best = room.best_return(task, has_key)
            states, rewards, actions = [], [], []
            for left in range(room.horizon, 0, -1):
                states.append(state)
                actions.append(int(room.best_actions(task, state, has_key, left)))
                state, reward, *_ = env.step(actions[-1])
                rewards.append(reward)
                has_key = has_key or reward > 0
            has_key = has_key and room.persist_key
            assert sum(rewards) == best
            derived = suite.optimal_actions(task, np.stack(states), np.array(rewards))
            assert derived.tolist() == actions


@given(
    task=st.integers(0, 8),
    actions=st.lists(st.integers(0, 4), min_size=9, max_size=9),
    persist=st.booleans(),
)
def test_no_actions_beat_the_optimum(task: int, actions: list[int], persist: bool) -> None:
    room = KeyRoom(3, 3, persist_key=persist)
    env, has_key = KeyDoor(task, room), False
    for _ in range(2):
        earned = sum(play(env, actions))
        assert earned <= room.best_return(task, has_key)
        has_key = persist and (has_key or earned > 0)


def test_the_optimum_of_a_small_room_is_that_of_all_action_sequences() -> None:
    room = KeyRoom(2, 2)
    for task in range(4):
        best = max(
            sum(play(KeyDoor(task, room), list(actions)))
            for actions in itertools.product(range(5), repeat=4)
        )
        assert room.best_return(task, has_key=False) == best


def test_without_slips_both_solutions_agree() -> None:
    room = KeyRoom(4, 3)
    for task in range(12):
        key, door = room.key(task), room.goal(task)
        held = tuple(float(room.best_values(door, left)[key]) for left in range(13))
        solved = slippery_values(4, 3, key, 0.0, after=held)
        for left in range(13):
            assert np.array_equal(solved[left], room.values(task, left, has_key=False))


def test_expected_optimum_of_a_slippery_room_is_what_the_optimal_policy_earns() -> None:
    room, task, slots = KeyRoom(4, 3, random_start=True, slip=0.3), 3, 3000
    env = KeyDoorVec([task] * slots, replace(room, show_key=True))
    states, _ = env.reset(seed=0)
    earned = np.zeros(slots)
    for left in range(room.horizon, 0, -1):
        to_key, to_door = (room.best_actions(task, states, has, left) for has in (False, True))
        states, rewards, *_ = env.step(np.where(states[:, 2] == 1, to_door, to_key))
        earned += rewards
    error = earned.std() / np.sqrt(slots)
    assert abs(earned.mean() - room.best_return(task, has_key=False)) < 4 * error


@pytest.mark.parametrize("persist", [False, True])
def test_has_key_is_derived_from_states_and_rewards(persist: bool) -> None:
    suite = KeyDoorSuite("small", KeyRoom(4, 3, persist_key=persist), (9.0, 1.0))
    rng = np.random.default_rng(0)
    unknown = 0
    for task in range(12):
        env = KeyDoor(task, replace(suite.room, show_key=True))
        for _ in range(20):
            state, _ = env.reset()
            states, rewards = [], []
            for _ in range(suite.room.horizon):
                states.append(state)
                state, reward, *_ = env.step(int(rng.integers(len(ACTIONS))))
                rewards.append(reward)
            seen = np.stack(states)
            derived = suite.has_key(task, seen[:, :2], np.array(rewards))
            if not np.array_equal(derived, seen[:, 2] == 1):
                unknown += 1
                assert persist
                assert seen[:, 2].all(), "only a key held all the time can be overlooked"
                under_the_door = suite.room.key(task) == suite.room.goal(task)
                assert under_the_door or not any(rewards[:-1])
    assert unknown < 120


def test_what_is_hidden_can_be_revealed() -> None:
    suite = suite_of("10x10")
    shown = privileged_suite(suite)
    assert isinstance(suite, PrivilegedSuite)
    assert (suite.spaces.state.bins, shown.spaces.state.bins) == ((10, 10), (10, 10, 2))
    hidden, open_ = suite.make_vec((0, 1)), shown.make_vec((0, 1))
    rng = np.random.default_rng(0)
    hidden.reset(seed=0)
    open_.reset(seed=0)
    for _ in range(300):
        actions = rng.integers(5, size=2)
        one, other = hidden.step(actions), open_.step(actions)
        assert np.array_equal(one[0], other[0][:, :2])
        assert np.array_equal(one[1], other[1])
    with pytest.raises(ValueError, match="'dark-room-10x10' hides nothing"):
        privileged_suite(SUITES["dark-room-10x10"])


@pytest.mark.parametrize("mode", AutoresetMode)
def test_the_step_that_resets_takes_no_key(mode: AutoresetMode) -> None:
    room = KeyRoom(3, 3, persist_key=True)
    task = int(np.flatnonzero(room.keys == 1)[0])  # one step to the right of the start
    env = KeyDoorVec([task], room, mode)
    env.reset(seed=0)
    for _ in range(9):
        env.step(np.array([WAIT]))
    if mode is AutoresetMode.DISABLED:
        env.reset(options={"reset_mask": np.array([True])})
    elif mode is AutoresetMode.NEXT_STEP:
        assert env.step(np.array([RIGHT]))[1].tolist() == [0.0]
    assert env.step(np.array([RIGHT]))[1].tolist() == [1.0]


def test_ids_take_tasks_and_rules() -> None:
    env = gym.make("radt/DarkKeyDoor-40x20-v0", task=83, persist_key=True)
    assert isinstance(env.unwrapped, KeyDoor)
    assert env.unwrapped.room == KeyRoom(40, 20, persist_key=True)
    vector = gym.make_vec("radt/DarkKeyDoor-10x10-v0", tasks=[80, 81], persist_key=True)
    assert isinstance(vector, KeyDoorVec)
    assert vector.tasks == (80, 81)
    with pytest.raises(ValueError, match="tasks 0 to 99, got task 100"):
        gym.make("radt/DarkKeyDoor-10x10-v0", task=100)


def test_horizons_and_targets_are_dark_rooms() -> None:
    for size in SIZES:
        for name in (size, f"{size}-persist"):
            suite, dark = suite_of(name), SUITES[f"dark-room-{size}"]
            assert suite.spaces == replace(dark.spaces, solved_above=1.0), "the key pays 1"
            assert (suite.target_return, suite.trials) == (dark.target_return, dark.trials)


def test_the_key_is_drawn_until_it_is_taken() -> None:
    env = KeyDoor(0, render_mode="rgb_array")
    room, key, door = env.room, env.room.key(0), env.room.goal(0)
    play(env, route(room, 0, door))
    view = env.view()
    assert view.key == divmod(key, 10)
    assert not view.is_paid, "the door does not pay yet"
    assert "◇" in print_grid(view)
    assert (draw_grid(view) == KEY).all(axis=-1).any()
    assert (draw_grid(view) == AGENT).all(axis=-1).any()
    play(env, [*route(room, 0, key), *route(room, key, door)])
    view = env.view()
    assert (view.key, view.is_paid) == (None, True)
    assert "◇" not in print_grid(view)
    assert not (draw_grid(view) == KEY).all(axis=-1).any()
    assert (draw_grid(view) == REWARDED).all(axis=-1).any()
    assert view.caption.endswith("return 2")
