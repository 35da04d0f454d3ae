"""What a user sees: the agent, the goal, the start and the way between them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from radt.envs.dark_room import DarkRoom, Room
from radt.envs.render import AGENT, GOAL, REWARDED, GridView, draw_grid, print_grid

VIEW = GridView(4, 3, agent=(1, 2), goal=(2, 3), start=(0, 0), trail=((0, 0), (0, 1), (1, 2)))


def middle(image: NDArray[np.uint8], cell: tuple[int, int], side: int) -> tuple[int, ...]:
    return tuple(image[cell[0] * side + side // 2, cell[1] * side + side // 2].tolist())


def test_picture_shows_everything_in_its_place() -> None:
    image = draw_grid(VIEW, pixels=80)
    assert image.shape == (60, 80, 3)
    assert image.dtype == np.uint8
    assert middle(image, VIEW.agent, 20) == AGENT
    assert middle(image, VIEW.goal, 20) == GOAL
    floor, trail = middle(image, (2, 0), 20), middle(image, (0, 1), 20)
    assert sum(trail) > sum(floor)


def test_older_steps_are_darker() -> None:
    row = tuple((0, col) for col in range(8))
    image = draw_grid(GridView(8, 1, (0, 7), (0, 7), (0, 0), row), pixels=160)
    light = [sum(middle(image, cell, 20)) for cell in row[1:7]]
    assert light == sorted(light)
    assert len(set(light)) == 6
    assert middle(image, (0, 7), 20) == REWARDED


@pytest.mark.parametrize("size", [(10, 10), (20, 20), (40, 20)])
def test_environment_renders_both_ways(size: tuple[int, int]) -> None:
    env = DarkRoom(83, Room(*size), render_mode="rgb_array")
    env.reset()
    env.step(1)
    side = 320 // max(size)
    assert env.render().shape == (size[1] * side, size[0] * side, 3)
    env.render_mode = "ansi"
    text = env.render()
    assert len(text.splitlines()) == size[1] + 3
    assert text.endswith(f"task 83  step 1/{size[0] * size[1]}  return 0")


def test_text_without_colours() -> None:
    assert print_grid(VIEW, colour=False).splitlines() == [
        "┌─────────┐",
        "│ ○ • · · │",
        "│ · · ● · │",
        "│ · · · ◆ │",
        "└─────────┘",
    ]
    assert re.sub(r"\x1b\[[\d;]*m", "", print_grid(VIEW)) == print_grid(VIEW, colour=False)


def test_render_needs_a_mode_and_an_episode() -> None:
    with pytest.raises(ValueError, match="human"):
        DarkRoom(render_mode="human")
    with pytest.raises(ResetNeeded):
        DarkRoom(render_mode="ansi").render()
    with pytest.warns(UserWarning, match="render_mode"):
        assert DarkRoom().render() is None
