"""What all grids share: moves, slips, ends and rendering, for one task or many.

A grid says in small methods what a step earns, what is hidden and when a task is done. `GridVec`
plays many tasks at once, `GridEnv` one of them. Both play by the rules and tables of a `Room` or a
`Maze`, in which a cell is `row * width + column`: `horizon`, `actions`, `is_noisy`, `end`, `moves`
(the next cell of each cell and action), `observations` (what is seen in each place) and `begin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs.render import Cell, GridView, draw_grid, print_grid
from radt.envs.vector import Floats, Infos, Mask, Slots, TaskEnv, TaskVec

if TYPE_CHECKING:
    from radt.envs.dark_room import Room
    from radt.envs.maze import Maze

Observations = NDArray[Any]  # (row, column) in the last axis, and what a world shows beside it


class GridVec(TaskVec):
    """Many tasks of a grid at once, one slot each, in NumPy."""

    goals: NDArray[np.int64]  # [N] the cells that pay, or the first of them

    def __init__(
        self,
        tasks: Sequence[int] | None,
        room: Room | Maze,
        autoreset_mode: AutoresetMode | str,
        num_envs: int,
    ) -> None:
        """Build `tasks`, or else tasks 0 to `num_envs` - 1, as `gymnasium.make_vec` asks for."""
        tasks = range(num_envs) if tasks is None else tasks
        if num_envs not in (1, len(tasks)):  # make_vec passes 1 when nothing is said
            raise ValueError(f"num_envs={num_envs} does not fit {len(tasks)} tasks; leave it out")
        super().__init__(tasks, *_spaces(room), room.horizon, autoreset_mode)
        self.room = room
        self._starts = np.zeros(self.num_envs, np.int64)  # [N] cells, unless drawn anew
        self._moves = room.moves.ravel()  # [cells * actions]
        self._observations = room.observations  # [places, coordinates]
        self._slots = np.arange(self.num_envs)
        self._forced = np.full((self.num_envs, room.horizon + 1), -1, np.int8)  # by slips
        self._cells = np.zeros(self.num_envs, np.int64)  # [N]

    def _earn(self, slots: Slots) -> Floats:
        """Return what the step earned in some slots, [n]."""
        raise NotImplementedError

    def _hide(self, slots: Slots) -> None:
        """Make what is hidden ready for an episode in some slots."""

    def _done(self, slots: Slots) -> Mask:
        """Say where nothing is left to earn, so that episodes end before their horizon, [n]."""
        return np.zeros(len(slots), np.bool_)

    def _places(self, slots: Slots) -> NDArray[np.int64]:
        """Return the rows of `room.observations` that are seen now, [n]."""
        return np.asarray(self._cells[slots])

    def checked(self, actions: Any, slots: tuple[int, ...]) -> NDArray[Any]:
        """Refuse what is not one whole number below the number of known actions for each slot."""
        given, known = np.asarray(actions), self.room.actions
        fits = given.shape == slots and given.dtype.kind in "iu"
        if not fits or given.min() < 0 or given.max() >= len(known):
            names = ", ".join(f"{number} ({name})" for number, name in enumerate(known))
            raise ValueError(f"expected integers {names} of shape {slots}, got {actions!r}")
        return given

    def _begin(self, slots: Slots) -> Observations:
        self._hide(slots)
        self._cells[slots] = self._starts[slots]
        if self.room.is_noisy:
            for slot in slots.tolist():  # once an episode: each slot has its own stream
                start, forced = self.room.begin(self._streams[slot])
                self._cells[slot], self._forced[slot] = start, forced
        return self._observations.take(self._places(slots), axis=0)

    def _act(self, slots: Slots, actions: NDArray[Any]) -> tuple[Observations, Floats, Infos]:
        if self.room.is_noisy:
            forced = self._forced[slots, self._elapsed[slots]]  # [n]
            actions = np.where(forced < 0, actions, forced)
        moves = self._cells[slots] * len(self.room.actions) + actions
        self._cells[slots] = self._moves.take(moves)
        rewards = self._earn(slots)
        self._ended[slots] = self._done(slots)
        if self.room.end == "terminated":
            self._ended[slots] |= self._elapsed[slots] + 1 >= self.horizon
        return self._observations.take(self._places(slots), axis=0), rewards, {}

    def cell(self, slot: int) -> Cell:
        return divmod(int(self._cells[slot]), self.room.width)


class GridEnv(TaskEnv):
    """One task of a grid: a vector environment of one slot, and how it looks."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}  # noqa: RUF012
    vec: GridVec

    def __init__(self, vec: GridVec, render_mode: str | None) -> None:
        """Show the one slot of a vector environment whose autoreset is disabled."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is 'rgb_array', 'ansi' or None, not {render_mode!r}")
        super().__init__(vec)
        self.room, self.render_mode = vec.room, render_mode
        self._trail: list[Cell] = []
        self._earned = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        first = super().reset(seed=seed)
        self._trail, self._earned = [self.vec.cell(0)], 0.0
        return first

    def step(self, action: Any) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        told = super().step(action)
        self._trail.append(self.vec.cell(0))
        self._earned += told[1]
        return told

    def render(self) -> Any:
        if self.render_mode is None:
            gym.logger.warn("nothing to render: pass render_mode='rgb_array' or 'ansi'")
            return None
        if not self._trail:
            raise ResetNeeded("there is nothing to render yet; call reset() first")
        view = self.view()
        return draw_grid(view) if self.render_mode == "rgb_array" else print_grid(view)

    def view(self) -> GridView:
        room, trail = self.room, tuple(self._trail)
        when = f"task {self.task}  step {len(trail) - 1}/{room.horizon}"
        return GridView(
            width=room.width,
            height=len(room.moves) // room.width,
            agent=trail[-1],
            goal=divmod(int(self.vec.goals[0]), room.width),
            start=trail[0],
            trail=trail,
            caption=f"{when}  return {self._earned:.0f}",
        )


def _spaces(room: Room | Maze) -> tuple[gym.spaces.Space[Any], gym.spaces.Discrete]:
    seen = room.observations  # [places, coordinates]
    most = seen.max(axis=0) if seen.dtype.kind in "iu" else np.ones(seen.shape[1:], seen.dtype)
    box = gym.spaces.Box(np.zeros_like(most), most, dtype=seen.dtype.type)
    return box, gym.spaces.Discrete(len(room.actions))
