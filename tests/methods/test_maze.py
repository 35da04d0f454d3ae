"""Methods in a maze: states that are no grid's, several goals, episodes that end early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from radt.agent import Agent, Target
from radt.data import Dataset
from radt.envs import SUITES, MazeRunnerSuite
from radt.envs.suite import success_threshold
from radt.icl import in_context_learning
from radt.methods.exploration import ExplorationBonus, ExplorationConfig
from radt.methods.trials import RunningTrials
from radt.trajectory import Trajectory
from tests.contracts.method import LEARNING, build_method, toy_dataset

SUITE = SUITES["maze-runner-15x15"]
assert isinstance(SUITE, MazeRunnerSuite)
FEW = replace(SUITE, train_tasks=(0, 1, 3))


def best_trial(task: int) -> Trajectory:
    """Roll out a shortest tour."""
    env = SUITE.make(task)
    states, actions, rewards, over = [env.reset()[0]], [], [], False
    while not over:
        best = SUITE.optimal_actions(task, np.array(states), np.array([*rewards, 0.0]))
        state, reward, over, _, _ = env.step(best[-1])
        states.append(state)
        actions.append(best[-1])
        rewards.append(reward)
    return Trajectory(np.array(states[:-1]), np.array(actions), np.array(rewards, np.float32), 0, 0)


@pytest.mark.parametrize("task", [0, 1, 3])
@pytest.mark.parametrize("name", ["replay", "retrace"])
def test_references_repeat_a_tour_of_all_goals(name: str, task: int) -> None:
    agent = Agent(build_method(name, SUITE.spaces), Target(3.0))
    known = best_trial(task)
    agent.actor.remember([known])
    env = SUITE.make(task)
    for _ in range(2):
        state, earned, steps, over = env.reset()[0], 0.0, 0, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(agent.act(state))
            agent.observe(reward, terminated, truncated)
            earned, steps, over = earned + reward, steps + 1, terminated or truncated
        assert (earned, steps) == (known.total_return, len(known))


def test_who_needs_a_grid_refuses_a_maze() -> None:
    with pytest.raises(ValueError, match="needs discrete states"):
        build_method("sweep", SUITE.spaces)


def test_places_of_a_maze_recur_and_are_counted() -> None:
    count_bonus, trials, slot = (
        ExplorationBonus(SUITE.spaces, 1, ExplorationConfig(2.0)),
        RunningTrials(SUITE.spaces, 1),
        [0],
    )
    here = np.array(slot)
    env = SUITE.make(300)
    state = env.reset()[0]
    for action in (0, 0, 4):  # into the wall twice, and wait
        trials.see(here, state[None])
        count_bonus.adjust(torch.zeros(1, 5), trials, here)
        state, reward, *_ = env.step(action)
        trials.record(here, np.array([action]), np.array([reward], np.float32))
    trials.see(here, state[None])
    logits = count_bonus.adjust(torch.zeros(1, 5), trials, here)
    torch.testing.assert_close(logits[0], -2 * torch.log1p(torch.tensor([2.0, 0, 0, 0, 1])))


def test_any_goal_counts_as_found_where_some_mazes_have_fewer_than_three() -> None:
    assert success_threshold(SUITE, SUITE.eval_tasks) == 0.0
    assert success_threshold(SUITE, [3]) == 2.0  # three goals
    assert success_threshold(SUITES["dark-key-door-10x10"], range(80, 100)) == 1.0


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return toy_dataset(FEW, tmp_path_factory.mktemp("maze"), episodes=2)


@pytest.mark.long
@pytest.mark.parametrize("name", LEARNING)
def test_every_method_learns_and_acts_in_mazes(name: str, dataset: Dataset) -> None:
    method: Any = build_method(name, SUITE.spaces)
    method.prepare(dataset)
    method.loss(method.draw(4, np.random.default_rng(0))).backward()
    env = SUITE.make_vec([300, 301])
    mode = env.autoreset_mode
    agent = Agent(method, Target(3.0), slots=2, autoreset_mode=mode, tasks=[300, 301])
    assert in_context_learning(agent, env, trials=2, seed=0).returns.shape == (2, 2)
