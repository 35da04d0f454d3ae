from __future__ import annotations

import numpy as np

from radt.methods.reference import CERTAIN, loop_erased
from radt.methods.trials import RunningTrials
from radt.trajectory import Trajectory
from tests.contracts.method import build_method, live
from tests.toys import TOY_GRID

UP, RIGHT, DOWN, LEFT, WAIT = range(5)


def trial(cells: list[tuple[int, int]], actions: list[int], rewards: list[float]) -> Trajectory:
    return Trajectory(np.array(cells), np.array(actions), np.array(rewards, np.float32), 0, 0)


def test_loops_are_erased_up_to_the_first_reward() -> None:
    walked = trial(
        [(0, 0), (0, 1), (0, 0), (1, 0), (1, 0), (1, 1)],
        [RIGHT, LEFT, DOWN, WAIT, RIGHT, WAIT],
        [0, 0, 0, 0, 1, 1],
    )
    assert loop_erased(walked) == [((0, 0), DOWN), ((1, 0), RIGHT)]


def decided(name: str, finished: list[Trajectory], cell: tuple[int, int]) -> list[float]:
    actor = build_method(name, TOY_GRID.spaces).actor(1)
    actor.remember(finished)
    trials, slot = RunningTrials(TOY_GRID.spaces, 1), np.array([0])
    trials.begin_trial(slot, np.zeros(1, np.float32))
    trials.see(slot, np.array([cell]))
    return actor.decide(trials, slot)[0].tolist()


def test_replay_repeats_by_time_and_retrace_by_place() -> None:
    long = trial([(0, 0), (1, 0), (2, 0)], [DOWN, DOWN, RIGHT], [0, 0, 1])
    short = trial([(0, 0), (0, 1)], [RIGHT, DOWN], [0, 1])
    assert decided("replay", [long, short], (0, 0)) == [0, CERTAIN, 0, 0, 0]
    assert decided("replay", [long, short], (2, 2)) == [0, CERTAIN, 0, 0, 0]
    assert decided("retrace", [long, short], (0, 1)) == [0, 0, CERTAIN, 0, 0]
    assert decided("retrace", [long, short], (2, 2)) == [0] * 5
    assert decided("replay", [], (0, 0)) == [0] * 5


def test_sweep_finds_every_goal_and_then_walks_straight() -> None:
    tasks = tuple(range(12))
    result, _, _ = live(build_method("sweep", TOY_GRID.spaces), TOY_GRID, tasks, trials=4)
    best = [TOY_GRID.optimal_return(task) for task in tasks]
    np.testing.assert_array_equal(result.returns[:, -1], best)


def test_a_forgotten_task_leaves_nothing_behind() -> None:
    way = trial([(0, 0)], [RIGHT], [1])
    for name in ("replay", "retrace"):
        actor = build_method(name, TOY_GRID.spaces).actor(2)
        actor.remember([way])
        actor.forget(np.array([0]))
        trials, slots = RunningTrials(TOY_GRID.spaces, 2), np.arange(2)
        trials.begin_trial(slots, np.zeros(2, np.float32))
        trials.see(slots, np.zeros((2, 2)))
        assert not actor.decide(trials, slots).any()
