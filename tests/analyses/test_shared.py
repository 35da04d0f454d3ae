"""Rolling out trials again: the same trials, written down as they were."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from radt.agent import Agent, Target
from radt.analyses.shared import Recorder, RolledOut, drawable, record_trials
from radt.analyses.visits import Visits
from radt.icl import in_context_learning
from radt.runs.roll_out import roll_out
from radt.runs.run import RunError
from radt.track import Tracker
from tests.analyses.made_up import GOALS, TASKS, episode, maze_trials, rolled_out, toy_trials
from tests.contracts.method import build_method
from tests.contracts.unequal import SPACES, diaries, unequal_envs
from tests.toys import TOY_GRID, TOY_REACH

UNEQUAL = (0, 1, 2, 5)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_trial_is_written_down_as_it_was(mode: AutoresetMode) -> None:
    agent = Agent(build_method("dt", SPACES), Target(5.0), slots=4, autoreset_mode=mode)
    env, recorder = unequal_envs(UNEQUAL, mode), Recorder(3)
    in_context_learning(agent, env, 3, 0, recorder.after_step)
    for lived, diary in zip(recorder.episodes(UNEQUAL), diaries(env), strict=True):
        assert len(lived) == 3
        for trial, steps in zip(lived, diary, strict=False):
            states, actions, rewards = zip(*steps, strict=True)
            assert trial.states.tolist() == list(states)
            assert trial.actions.tolist() == list(actions)
            assert trial.rewards.tolist() == list(rewards)


@pytest.mark.parametrize("name", ["ra-dt", "replay"])
def test_the_same_trials_are_lived_again(name: str) -> None:
    method, trials = build_method(name, TOY_GRID.spaces), toy_trials(3)
    measured = roll_out(method, trials, Tracker()).returns
    rolled = record_trials(method, trials)
    np.testing.assert_array_equal(rolled.returns, measured)
    assert rolled.method == name
    assert [trial.task for trial in rolled.episodes[1]] == [TASKS[1]] * 3
    np.testing.assert_array_equal(rolled.solved, measured > 0)


def test_a_goal_is_found_in_mazes_of_any_number_of_goals() -> None:
    walk = [(0, 0)] * 4
    tasks = (
        (episode(walk), episode(walk, paid=range(int(goals))), episode(walk)) for goals in GOALS
    )
    rolled = RolledOut("dt", maze_trials(3), tuple(tasks))
    assert rolled.solved.tolist() == [[False, True, False]] * 3
    visits = Visits(np.zeros((3, 3, 1, 1)), np.ones(3, np.int64), rolled.solved)
    assert visits.after_success.tolist() == [[False, False, True]] * 3


def test_cells_are_those_of_the_states() -> None:
    path = [(0, 0), (0, 1), (1, 1)]
    done = rolled_out([episode(path)])
    assert done.cells(done.episodes[0][0]).tolist() == [list(cell) for cell in path]


def test_what_cannot_be_drawn_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(RunError, match="the cells of a room, which toy-reach has not"):
        drawable(replace(toy_trials(1), suite=TOY_REACH))
