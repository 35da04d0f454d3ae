"""How trials are drawn: every suite shows something, grids all they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radt.envs.dark_room import PICKED, goal_cells_of, pick, pickable
from radt.envs.suite import SUITES, TaskSuite
from radt.viewer.scene import action_names, scene_of
from tests.toys import TOY_GRID, TOY_IMAGE, TOY_REACH, TOYS, roll


@pytest.mark.parametrize("suite", [*TOYS, *(SUITES[name] for name in SUITES.names())])
def test_every_suite_can_be_shown(suite: TaskSuite) -> None:
    task = suite.eval_tasks[0]
    episode = roll(suite, task, episode=0, seed=0)
    scene = scene_of(suite, task)
    ground = scene.ground(episode.states[0])
    frames = scene.frames(episode.states, episode.rewards, start=0)
    cells = frames["cells"]
    assert len(cells) == len(episode)
    if "size" in ground:
        bodies = np.array(frames["bodies"])
        assert bodies.shape == (len(episode), len(ground["radii"]), 4)
        assert len(ground["kinds"]) == len(ground["radii"])
        later = scene.frames(episode.states, episode.rewards, start=len(episode) - 2)
        assert later["bodies"] == frames["bodies"][-2:]
        assert later["centres"] == frames["centres"][-2:]
    if ground["kind"] == "grid":
        rows, columns = np.array(cells).T
        assert 0 <= rows.min() <= rows.max() < ground["height"]
        assert 0 <= columns.min() <= columns.max() < ground["width"]
        assert not {tuple(wall) for wall in ground["walls"]} & {tuple(cell) for cell in cells}
    assert 0 < len(action_names(suite, task)) <= suite.spaces.action.size


def test_a_grid_that_does_not_draw_itself_is_shown_from_its_coordinates() -> None:
    class Undrawn:
        name, spaces = "undrawn", TOY_GRID.spaces

    undrawn: Any = Undrawn()
    scene = scene_of(undrawn, 0)
    states = np.array([[0, 0], [0, 1]])
    assert scene.ground(states[0]) == {"kind": "grid", "width": 4, "height": 3, "walls": []}
    frames = scene.frames(states, np.zeros(2), start=0)
    assert frames == {"cells": [[0.0, 0.0], [0.0, 1.0]], "marks": []}


def test_other_states_are_points_in_a_plane_or_nothing() -> None:
    reach = roll(TOY_REACH, 4, 0, 0)
    scene = scene_of(TOY_REACH, 4)
    assert scene.ground(reach.states[0])["kind"] == "plane"
    np.testing.assert_allclose(
        scene.frames(reach.states, reach.rewards, 0)["cells"], reach.states[:, :2], atol=1e-3
    )
    assert scene_of(TOY_IMAGE, 4).ground(roll(TOY_IMAGE, 4, 0, 0).states[0]) == {"kind": "none"}


def test_marks_change_where_a_key_is_taken() -> None:
    suite = pick(SUITES["dark-key-door-10x10"], {"goal": (0, 3), "key": (0, 1)})
    states = np.array([[0, 0], [0, 1], [0, 2], [0, 3]])
    scene, rewards = scene_of(suite, PICKED), np.array([1.0, 0.0, 1.0, 1.0])
    frames = scene.frames(states, rewards, start=0)
    marks = frames["marks"]
    assert [(mark["step"], mark["marks"]["key"]) for mark in marks] == [(0, [0, 1]), (1, None)]
    assert frames["cells"] == states.tolist()
    later = scene.frames(states, rewards, start=2)["marks"]
    assert [(mark["step"], mark["marks"]["key"]) for mark in later] == [(2, None)]


@pytest.mark.parametrize("name", ["dark-room-10x10", "dark-room-20x20", "dark-room-40x20"])
def test_a_goal_lies_where_it_was_picked(name: str) -> None:
    suite = SUITES[name]
    picked = pick(suite, {"goal": (3, 2)})
    assert picked.spaces == suite.spaces
    assert picked.eval_tasks == (PICKED,)
    env = picked.make(PICKED)
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (2, 2, 2, 1, 1, 4)]  # down, right, wait
    assert rewards == [0, 0, 0, 0, 1, 1]
    assert "row 3, column 2" in picked.describe(PICKED)
    assert picked.optimal_return(PICKED) == suite.spaces.horizon - 5 + 1


def test_a_picked_goal_plays_as_the_task_that_has_it() -> None:
    suite = SUITES["dark-room-10x10"]
    (cell,) = goal_cells_of(suite, [81])
    picked = pick(suite, {"goal": cell})
    assert picked.optimal_return(PICKED) == suite.optimal_return(81)
    for seed in range(3):
        one, other = roll(suite, 81, 0, seed), roll(picked, PICKED, 0, seed)
        assert one.states[0].tolist() == other.states[0].tolist()


def test_key_and_door_lie_where_they_were_picked() -> None:
    suite = SUITES["dark-key-door-10x10"]
    assert pickable(suite) == ("goal", "key")
    env = pick(suite, {"goal": (0, 2), "key": (0, 1)}).make(PICKED)
    env.reset(seed=0)
    assert [env.step(1)[1] for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("cells", [{}, {"key": (0, 1)}, {"goal": (0, 1), "key": (0, 2)}])
def test_only_what_a_room_has_can_be_picked(cells: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="one can pick goal"):
        pick(SUITES["dark-room-10x10"], cells)


@pytest.mark.parametrize("cell", [(-1, 0), (0, -1), (10, 0), (0, 10)])
def test_a_goal_must_lie_inside(cell: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not inside"):
        pick(SUITES["dark-room-10x10"], {"goal": cell})


def test_mazes_are_as_they_are() -> None:
    suite = SUITES["maze-runner-15x15"]
    assert pickable(suite) == ()
    assert goal_cells_of(suite, [300]) == []
    with pytest.raises(ValueError, match="one can pick nothing"):
        pick(suite, {"goal": (1, 1)})
