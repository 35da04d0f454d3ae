"""What all grids share: seeds, moves, ends, autoreset and rendering, for one task or many.

A grid says in small methods what a step earns, what is hidden and when a task is done; everything
else is here. `GridVec` plays many tasks at once by the rules of a `World`, `GridEnv` one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from radt.envs.render import Cell, GridView, draw_grid, print_grid

Mask = NDArray[np.bool_]  # [N] slots
Observations = NDArray[Any]  # (row, column) in the last axis, and what a world shows beside it


class World(Protocol):
    """The rules and tables that an environment plays by; a cell is `row * width + column`."""

    @property
    def width(self) -> int:
        """How many columns there are."""

    @property
    def horizon(self) -> int:
        """The most steps of an episode."""

    @property
    def actions(self) -> tuple[str, ...]:
        """What the actions are called."""

    @property
    def is_noisy(self) -> bool:
        """Whether episodes depend on chance."""

    @property
    def end(self) -> Literal["terminated", "truncated"]:
        """How the end of the horizon is reported."""

    @property
    def moves(self) -> NDArray[np.int64]:
        """The next cell of each cell and action."""

    @property
    def observations(self) -> Observations:
        """What is seen in each place; integers from 0 up, or shares from 0 to 1."""

    def begin(self, rng: np.random.Generator) -> tuple[int, NDArray[np.int8]]:
        """Draw an episode's start cell and, for each step, the action forced by a slip or -1."""


class GridVec(VectorEnv[Observations, NDArray[np.integer[Any]], NDArray[Any]]):
    """Many tasks of a grid at once, one slot each, in NumPy."""

    goals: NDArray[np.int64]  # [N] the cells that pay, or the first of them

    def __init__(
        self,
        tasks: Sequence[int] | None,
        room: World,
        autoreset_mode: AutoresetMode | str,
        num_envs: int,
    ) -> None:
        """Build `tasks`, or else tasks 0 to `num_envs` - 1, as `gymnasium.make_vec` asks for."""
        self.room, self.tasks = room, tuple(range(num_envs) if tasks is None else tasks)
        if not self.tasks:
            raise ValueError("a vector environment needs at least one task, got none")
        if num_envs not in (1, len(self.tasks)):  # make_vec passes 1 when nothing is said
            given = len(self.tasks)
            raise ValueError(f"num_envs={num_envs} does not fit {given} tasks; leave it out")
        self.num_envs = len(self.tasks)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.single_observation_space, self.single_action_space = _spaces(room)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._starts = np.zeros(self.num_envs, np.int64)  # [N] cells, unless drawn anew
        self._moves = room.moves.ravel()  # [cells * actions]
        self._observations = room.observations  # [places, coordinates]
        self._slots = np.arange(self.num_envs)
        self._streams: list[np.random.Generator | None] = [None] * self.num_envs
        self._forced = np.full((self.num_envs, room.horizon + 1), -1, np.int8)  # by slips
        self._cells = np.zeros(self.num_envs, np.int64)  # [N]
        self._elapsed = np.full(self.num_envs, room.horizon)  # [N]
        self._over = np.ones(self.num_envs, np.bool_)  # [N]
        self._until_end = 0  # steps until the first slot is over; spares a comparison per step
        self._was_reset = False

    def _earn(self, anew: Mask | None) -> NDArray[np.float64]:
        """Return what the step earns in each slot; those of `anew` do not act but begin again."""
        raise NotImplementedError

    def _hide(self, mask: Mask, new_life: bool) -> None:
        """Make what is hidden ready for an episode in the slots of `mask`."""

    def _done(self) -> Mask | None:
        """Say where nothing is left to earn, so that episodes end before their horizon."""
        return None

    def _places(self) -> NDArray[np.int64]:
        """Return the rows of `room.observations` that are seen now, [N]."""
        return self._cells

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every slot, or in those of `options["reset_mask"]`."""
        mask = reset_mask(options, self.num_envs)
        self._seed(seed, mask)
        self._begin(mask)
        self._was_reset = True
        return self._observations.take(self._places(), axis=0), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Move in every slot; a slot whose episode is over begins anew as the mode says."""
        actions = np.asarray(actions)
        _check_actions(actions, (self.num_envs,), self.room.actions)
        anew = self._over if self._until_end <= 0 else None
        if anew is not None:
            self._check_autoreset()
        if self.room.is_noisy:
            forced = self._forced[self._slots, self._elapsed]  # [N]
            actions = np.where(forced < 0, actions, forced)
        self._cells = self._moves.take(self._cells * len(self.room.actions) + actions)
        self._elapsed += 1
        self._until_end -= 1
        rewards = self._earn(anew)
        if anew is not None:
            self._begin(anew)
            rewards[anew] = 0.0
        return self._report(rewards)

    def _report(
        self, rewards: NDArray[np.float64]
    ) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Say what the step led to, and begin anew at once where the mode says so."""
        infos: dict[str, Any] = {}
        over = np.zeros(self.num_envs, np.bool_)
        done = self._done()
        if done is not None and done.any():
            self._elapsed[done], self._until_end = self.room.horizon, 0  # no step is left
        observations = self._observations.take(self._places(), axis=0)  # [N, coordinates]
        if self._until_end <= 0:
            over = self._elapsed >= self.room.horizon
            self._over = over.copy()
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = _final_infos(observations, over)
                self._begin(over)
                observations = self._observations.take(self._places(), axis=0)
        terminated = np.zeros(self.num_envs, np.bool_) if done is None else done
        if self.room.end == "terminated":
            terminated = over
        return observations, rewards, terminated, over & ~terminated, infos

    def _begin(self, mask: Mask) -> None:
        """Begin an episode in the slots of `mask`."""
        self._hide(mask, new_life=False)
        self._cells[mask] = self._starts[mask]
        self._elapsed[mask] = 0
        if self.room.is_noisy:
            for slot in np.flatnonzero(mask):  # once an episode: each slot has its own stream
                stream = self._streams[slot] or seeding.np_random()[0]
                self._streams[slot] = stream
                self._cells[slot], self._forced[slot] = self.room.begin(stream)
        self._over = self._over & ~mask
        self._until_end = self.room.horizon - int(self._elapsed.max())

    def cell(self, slot: int) -> Cell:
        """Return the (row, column) in which a slot stands."""
        return divmod(int(self._cells[slot]), self.room.width)

    def _check_autoreset(self) -> None:
        """Refuse to step slots that the caller has to reset."""
        if not self._was_reset or self.autoreset_mode is AutoresetMode.DISABLED:
            slots = np.flatnonzero(self._over).tolist()
            raise ResetNeeded(
                f"slots {slots} are over or have not begun; call reset(), or "
                'reset(options={"reset_mask": mask}) for some slots only'
            )

    def _seed(self, seed: int | Sequence[int | None] | None, mask: Mask) -> None:
        """Give slot i the seed `seed + i`, or the i-th of a list, as Gymnasium does."""
        if seed is None:
            return
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seed = [int(seed) + slot for slot in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"got {len(seed)} seeds for {self.num_envs} slots")
        self._hide(mask & np.array([own is not None for own in seed]), new_life=True)
        if self.room.is_noisy:
            for slot, own in enumerate(seed):
                if mask[slot] and own is not None:
                    self._streams[slot] = seeding.np_random(own)[0]


class GridEnv(gym.Env[Observations, np.int64]):
    """One task of a grid: a vector environment of one slot, and how it looks."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}  # noqa: RUF012

    def __init__(self, slot: GridVec, render_mode: str | None) -> None:
        """Show the one slot of a vector environment whose autoreset is disabled."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is 'rgb_array', 'ansi' or None, not {render_mode!r}")
        self._slot, self.room, self.render_mode = slot, slot.room, render_mode
        (self.task,) = slot.tasks
        self.observation_space = slot.single_observation_space
        self.action_space = slot.single_action_space
        self._trail: list[Cell] = []
        self._earned = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        super().reset(seed=seed)
        observations, _ = self._slot.reset(seed=[seed])
        self._trail, self._earned = [self._slot.cell(0)], 0.0
        return observations[0], {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Move, and be paid for where it led."""
        seen, earned, terminated, truncated, _ = self._slot.step(np.asarray(action)[None])
        self._trail.append(self._slot.cell(0))
        self._earned += earned[0]
        return seen[0], float(earned[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        """Return the picture or the text that `render_mode` asks for."""
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
            goal=divmod(int(self._slot.goals[0]), room.width),
            start=trail[0],
            trail=trail,
            caption=f"{when}  return {self._earned:.0f}",
        )


def _spaces(room: World) -> tuple[gym.spaces.Space[Any], gym.spaces.Discrete]:
    """Return the observation space and the action space of one task."""
    seen = room.observations  # [places, coordinates]
    most = seen.max(axis=0) if seen.dtype.kind in "iu" else np.ones(seen.shape[1:], seen.dtype)
    box = gym.spaces.Box(np.zeros_like(most), most, dtype=seen.dtype.type)
    return box, gym.spaces.Discrete(len(room.actions))


def _check_actions(actions: NDArray[Any], shape: tuple[int, ...], known: tuple[str, ...]) -> None:
    """Refuse what is not one whole number below the number of known actions for each slot."""
    fits = actions.shape == shape and actions.dtype.kind in "iu"
    if not fits or actions.min() < 0 or actions.max() >= len(known):
        names = ", ".join(f"{number} ({name})" for number, name in enumerate(known))
        raise ValueError(f"expected integers {names} of shape {shape}, got {actions!r}")


def reset_mask(options: dict[str, Any] | None, num_envs: int) -> Mask:
    """Read which slots to reset: all, unless a mask is given."""
    if options is None or "reset_mask" not in options:
        return np.ones(num_envs, np.bool_)
    mask = options["reset_mask"]
    is_bool = isinstance(mask, np.ndarray) and mask.dtype == np.bool_
    if not is_bool or mask.shape != (num_envs,) or not mask.any():
        raise ValueError(
            f"reset_mask must be a NumPy array of {num_envs} bools, at least one of them True, "
            f"got {mask!r}"
        )
    return np.array(mask)


def _final_infos(observations: Observations, over: Mask) -> dict[str, Any]:
    """Hand over the last observations of episodes in Gymnasium's layout."""
    final = np.full(len(over), None, dtype=object)
    for slot in np.flatnonzero(over):
        final[slot] = observations[slot]
    masks = {"_final_obs": over.copy(), "_final_info": over.copy()}
    return {"final_obs": final, "final_info": {}, **masks}
