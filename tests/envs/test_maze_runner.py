"""MazeRunner: hidden goals in order, an early end, one maze or many, and how it looks."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from radt.envs import SUITES, MazeRunnerSuite
from radt.envs.maze import DIRECTIONS, build_maze
from radt.envs.maze_runner import MazeRunner, MazeRunnerVec
from radt.envs.render import AGENT, GOAL, REWARDED, WALL, draw_grid, print_grid
from radt.envs.suite import DrawnSuite, Oracle
from radt.spaces import StateSpace
from tests.contracts import env as contract
from tests.envs.tours import shortest_tour

WEST, NORTH, EAST, SOUTH, NONE = range(5)
SUITE = SUITES["maze-runner-15x15"]
assert isinstance(SUITE, MazeRunnerSuite)


def way(task: int) -> list[int]:
    """Return the actions of a shortest tour."""
    tour, names = np.array(shortest_tour(build_maze(task))), list(DIRECTIONS.values())
    return [names.index((int(down), int(right))) for down, right in np.diff(tour, axis=0)]


def walk(env: MazeRunner, actions: list[int]) -> list[tuple[Any, ...]]:
    env.reset(seed=0)
    return [env.step(action)[1:4] for action in actions]


def test_the_suite_is_the_papers() -> None:
    assert SUITE.trials == 30
    assert SUITE.target_return == (3.0, 0.0)
    assert SUITE.eval_tasks == tuple(range(300, 320))
    assert SUITE.train_tasks[:300] == tuple(range(300))
    assert len(SUITE.train_tasks) == 1000
    assert min(SUITE.splits["fresh"]) == 2000
    assert SUITE.make_vec(SUITE.splits["fresh"]).num_envs == 40
    assert SUITE.spaces.state == StateSpace("vector", (6,))
    assert (SUITE.spaces.action.size, SUITE.spaces.horizon) == (5, 400)
    assert isinstance(SUITE, Oracle)
    assert isinstance(SUITE, DrawnSuite)


def test_gymnasium_makes_the_maze_of_any_seed() -> None:
    env = gym.make("radt/MazeRunner-15x15-v0", task=301)
    assert isinstance(env.unwrapped, MazeRunner)
    assert env.unwrapped.room is build_maze(301)
    assert env.unwrapped.room.goals == ((1, 1), (11, 2))
    assert gym.make("radt/MazeRunner-15x15-v0", task=12345).reset(seed=0)[0].shape == (6,)
    many = gym.make_vec("radt/MazeRunner-15x15-v0", tasks=[301, 302])
    assert many.num_envs == 2
    contract.check_checkers(gym.make("radt/MazeRunner-15x15-v0", task=300).unwrapped)


@pytest.mark.parametrize("task", [320 + 700, 2040, -1])
def test_the_suite_plays_only_its_own_tasks(task: int) -> None:
    with pytest.raises(ValueError, match=f"has no task {task}"):
        SUITE.make_vec([300, task])


@pytest.mark.parametrize("task", [0, 1, 3, 300])
def test_each_goal_pays_once_and_the_last_one_ends_the_episode(task: int) -> None:
    env, actions = MazeRunner(task), way(task)
    steps = walk(env, actions)
    assert (
        sum(reward for reward, _, _ in steps) == len(env.room.goals) == SUITE.optimal_return(task)
    )
    assert [terminated for _, terminated, _ in steps] == [False] * (len(steps) - 1) + [True]
    assert not any(truncated for _, _, truncated in steps)
    with pytest.raises(ResetNeeded):
        env.step(NONE)


def test_a_goal_pays_only_in_its_turn() -> None:
    env, (first, second) = MazeRunner(301), build_maze(301).goals
    assert (first, second) == ((1, 1), (11, 2))
    early = [NORTH, NORTH, NORTH, *[WEST] * 5, SOUTH]  # over the second goal, then away
    assert env.reset()[0].tolist()[:2] == pytest.approx([13 / 15, 7 / 15])
    for action in early:
        state, reward, *_ = env.step(action)
        assert reward == 0.0
    assert tuple((state[:2] * 15).round().astype(int)) == second


def test_an_episode_is_cut_after_400_steps() -> None:
    steps = walk(MazeRunner(300), [NONE] * 400)
    assert steps[:-1] == [(0.0, False, False)] * 399
    assert steps[-1] == (0.0, False, True)


def test_an_unknown_action_is_refused_by_name() -> None:
    env = MazeRunner(300)
    env.reset()
    with pytest.raises(ValueError, match=r"0 \(west\), 1 \(north\), 2 \(east\), 3 \(south\)"):
        env.step(5)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_early_ends_are_the_same_alone_and_side_by_side(mode: AutoresetMode) -> None:
    tasks = [0, 3, 301, 300, 0]
    ours = MazeRunnerVec(tasks, mode)
    reference: SyncVectorEnv[Any, Any] = SyncVectorEnv(
        [partial(MazeRunner, task) for task in tasks], autoreset_mode=mode
    )
    ways, at = [way(task) for task in tasks], np.zeros(5, int)
    contract.assert_same(ours.reset(seed=1), reference.reset(seed=1))
    ended = 0
    for _ in range(150):
        actions = np.array(
            [own[place] if place >= 0 else NONE for own, place in zip(ways, at, strict=True)]
        )
        result = ours.step(actions)
        contract.assert_same(result, reference.step(actions))
        ended += int(result[2].sum())
        at = np.where(result[2], -1 if mode is AutoresetMode.NEXT_STEP else 0, at + 1)
        if mode is AutoresetMode.DISABLED and result[2].any():
            with pytest.raises(ResetNeeded, match=str(np.flatnonzero(result[2])[0])):
                ours.step(actions)
            mask = result[2].copy()
            options = [{"reset_mask": mask.copy()} for _ in range(2)]
            contract.assert_same(
                ours.reset(options=options[0]), reference.reset(options=options[1])
            )
    assert ended >= 10


def episode(task: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the states and rewards of a shortest tour."""
    env = MazeRunner(task)
    states, rewards = [env.reset()[0]], []
    for action in way(task):
        state, reward, *_ = env.step(action)
        states.append(state)
        rewards.append(reward)
    return np.array(states), np.array(rewards)


@pytest.mark.parametrize("task", [0, 3, 301])
def test_the_oracle_knows_which_goal_is_next(task: int) -> None:
    states, rewards = episode(task)
    assert SUITE.optimal_actions(task, states[:-1], rewards).tolist() == way(task)
    lost = SUITE.optimal_actions(task, states[:-1], np.zeros_like(rewards))
    first = int(np.argmax(rewards)) + 1
    assert lost[:first].tolist() == way(task)[:first]


TEXT = """
┌───────────────────────────────┐
│ █████████████████████████████ │
│ █ · · · █ · · ◆ ◇ · · · · · █ │
│ █████ · █ · █ · █████ · █████ │
│ █ · █ · █ · █ · █ · █ · · · █ │
│ █ · █ · █████████ · █████ · █ │
│ █ · █ · · · · · · · · · █ · █ │
│ █ · █ · █ · █████ · █████ · █ │
│ █ · █ · · · · · · · █ · · · █ │
│ █ · █████████ · █████ · █ · █ │
│ █ · · · · · █ · █ · · · █ · █ │
│ █ • • • ● • • • · · · · · · █ │
│ █ ◇ · · · · █ • █ · · · · · █ │
│ █ · · · · · █ • █ · · · · · █ │
│ █ · · · · · █ ○ █ · · · · · █ │
│ █████████████████████████████ │
└───────────────────────────────┘
step  14  return 1"""


def test_text_shows_walls_goals_the_active_goal_and_the_trail() -> None:
    states, rewards = episode(3)
    view = SUITE.view(3, states[:15], rewards[:14])
    assert "\n" + print_grid(view, colour=False) == TEXT
    env = MazeRunner(3, render_mode="ansi")
    walk(env, way(3)[:14])
    assert env.view().goal == view.goal == (1, 7)
    assert env.render().endswith("task 3  step 14/400  return 1")


def test_picture_shows_walls_and_goals() -> None:
    env = MazeRunner(3, render_mode="rgb_array")
    actions = way(3)
    walk(env, actions[:14])
    image = env.render()
    side = len(image) // 15
    middle = image[side // 2 :: side, side // 2 :: side]  # [15, 15, 3]
    assert np.array_equal((middle == WALL).all(axis=-1), env.room.walls == 1)
    assert tuple(middle[1, 7]) == GOAL
    assert tuple(middle[10, 4]) == AGENT
    corner = image[11 * side : 12 * side, side : 2 * side].reshape(-1, 3)
    assert (corner == GOAL).all(axis=-1).any()  # a reached goal is an outline
    assert tuple(middle[11, 1]) != GOAL
    for action in actions[14:]:
        env.step(action)
    assert (draw_grid(env.view()) == REWARDED).all(axis=-1).any()
    assert env.view().caption == "task 3  step 39/400  return 3"
