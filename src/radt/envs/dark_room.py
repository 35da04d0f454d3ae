"""Dark-Room: find a goal that cannot be seen, then stay on it (the paper's first environment).

`DarkRoom` plays one task and `DarkRoomVec` many tasks at once, both by the rules of one `Room`;
`DarkRoomSuite` names the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from radt.envs.render import GridView, draw_grid, print_grid
from radt.envs.tasks import ACTIONS, EVAL_TASKS, TRAIN_TASKS, Room
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

Observations = NDArray[np.uint8]  # (row, column) in the last axis


class DarkRoom(gym.Env[Observations, np.int64]):
    """One task of a dark room: see (row, column), earn 1 with each step that ends on the goal."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 12}  # noqa: RUF012

    def __init__(
        self, task: int = 0, room: Room | None = None, render_mode: str | None = None, **rules: Any
    ) -> None:
        """Build the room of `task`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is 'rgb_array', 'ansi' or None, not {render_mode!r}")
        self.room = replace(room or Room(), **rules)
        self.task = task
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(self.room)
        self._goal = self.room.goal(task)
        self._cell = -1
        self._elapsed = self.room.horizon  # no episode has begun
        self._forced = np.zeros(0, np.int8)
        self._trail: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._cell, self._forced = self.room.begin(self.np_random)
        self._elapsed = 0
        self._trail = [self._cell]
        return self.room.observations[self._cell].copy(), {}

    def step(
        self, action: np.int64 | int
    ) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Move, and be paid for standing on the goal."""
        room = self.room
        if self._elapsed >= room.horizon:
            raise ResetNeeded("the episode is over or has not begun; call reset() first")
        _check_actions(np.asarray(action), ())
        forced = int(self._forced[self._elapsed])
        self._cell = int(room.moves[self._cell, action if forced < 0 else forced])
        self._elapsed += 1
        self._trail.append(self._cell)
        over = self._elapsed == room.horizon
        ends = (over, False) if room.end == "terminated" else (False, over)
        return room.observations[self._cell].copy(), float(self._cell == self._goal), *ends, {}

    def optimal_return(self) -> float:
        """Return the best expected return of one episode."""
        return self.room.optimal_return(self._goal)

    def optimal_action(self, state: ArrayLike) -> int:
        """Return a best action in `state` for the steps that are left of this episode."""
        left = self.room.horizon - self._elapsed
        return int(self.room.optimal_actions(self._goal, state, left))

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
        """Describe the present moment for rendering."""
        trail = tuple(divmod(cell, self.room.width) for cell in self._trail)
        found = sum(cell == self._goal for cell in self._trail[1:])
        return GridView(
            width=self.room.width,
            height=self.room.height,
            agent=trail[-1],
            goal=divmod(self._goal, self.room.width),
            start=trail[0],
            trail=trail,
            caption=f"task {self.task}  step {self._elapsed}/{self.room.horizon}  return {found}",
        )


class DarkRoomVec(VectorEnv[Observations, NDArray[np.integer[Any]], NDArray[Any]]):
    """Many tasks of a dark room at once, one slot each, in NumPy."""

    def __init__(
        self,
        tasks: Sequence[int],
        room: Room | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **rules: Any,
    ) -> None:
        """Build a slot for each of `tasks`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        self.room = replace(room or Room(), **rules)
        self.tasks = tuple(tasks)
        if not self.tasks:
            raise ValueError("a vector environment needs at least one task, got none")
        self.num_envs = len(self.tasks)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.single_observation_space, self.single_action_space = _spaces(self.room)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._goals = np.array([self.room.goal(task) for task in self.tasks])  # [N]
        self._moves = self.room.moves.ravel()  # [cells * actions]
        self._observations = self.room.observations  # [cells, 2]
        self._slots = np.arange(self.num_envs)
        self._streams: list[np.random.Generator | None] = [None] * self.num_envs
        self._forced = np.full((self.num_envs, self.room.horizon + 1), -1, np.int8)  # by slips
        self._cells = np.zeros(self.num_envs, np.int64)  # [N]
        self._elapsed = np.full(self.num_envs, self.room.horizon)  # [N]
        self._over = np.ones(self.num_envs, np.bool_)  # [N]
        self._until_end = 0  # steps until the first slot is over; spares a comparison per step
        self._was_reset = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every slot, or in those of `options["reset_mask"]`."""
        mask = _reset_mask(options, self.num_envs)
        self._seed(seed, mask)
        self._begin(mask)
        self._was_reset = True
        return self._observations.take(self._cells, axis=0), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Move in every slot; a slot whose episode is over begins anew as the mode says."""
        actions = np.asarray(actions)
        _check_actions(actions, (self.num_envs,))
        anew = self._over if self._until_end <= 0 else None
        if anew is not None:
            self._check_autoreset()
        if self.room.slip > 0.0:
            forced = self._forced[self._slots, self._elapsed]  # [N]
            actions = np.where(forced < 0, actions, forced)
        self._cells = self._moves.take(self._cells * len(ACTIONS) + actions)
        self._elapsed += 1
        self._until_end -= 1
        rewards = (self._cells == self._goals).astype(np.float64)
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
        observations = self._observations.take(self._cells, axis=0)  # [N, 2]
        if self._until_end <= 0:
            over = self._elapsed >= self.room.horizon
            self._over = over.copy()
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = _final_infos(observations, over)
                self._begin(over)
                observations = self._observations.take(self._cells, axis=0)
        never = np.zeros(self.num_envs, np.bool_)
        ends = (over, never) if self.room.end == "terminated" else (never, over)
        return observations, rewards, *ends, infos

    def _begin(self, mask: NDArray[np.bool_]) -> None:
        """Begin an episode in the slots of `mask`."""
        self._cells[mask] = 0
        self._elapsed[mask] = 0
        if self.room.is_noisy:
            for slot in np.flatnonzero(mask):  # once an episode: each slot has its own stream
                stream = self._streams[slot] or seeding.np_random()[0]
                self._streams[slot] = stream
                self._cells[slot], self._forced[slot] = self.room.begin(stream)
        self._over = self._over & ~mask
        self._until_end = self.room.horizon - int(self._elapsed.max())

    def _check_autoreset(self) -> None:
        """Refuse to step slots that the caller has to reset."""
        if not self._was_reset or self.autoreset_mode is AutoresetMode.DISABLED:
            slots = np.flatnonzero(self._over).tolist()
            raise ResetNeeded(
                f"slots {slots} are over or have not begun; call reset(), or "
                'reset(options={"reset_mask": mask}) for some slots only'
            )

    def _seed(self, seed: int | Sequence[int | None] | None, mask: NDArray[np.bool_]) -> None:
        """Give slot i the seed `seed + i`, or the i-th of a list, as Gymnasium does."""
        if seed is None:
            return
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seed = [int(seed) + slot for slot in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"got {len(seed)} seeds for {self.num_envs} slots")
        if self.room.is_noisy:
            for slot, own in enumerate(seed):
                if mask[slot] and own is not None:
                    self._streams[slot] = seeding.np_random(own)[0]


def make_dark_rooms(
    num_envs: int = 1, tasks: Sequence[int] | None = None, **options: Any
) -> DarkRoomVec:
    """Build the vector environment for `gymnasium.make_vec`: `tasks`, or tasks 0 to num_envs-1."""
    if tasks is None:
        tasks = range(num_envs)
    elif num_envs not in (1, len(tasks)):  # 1 is what make_vec passes when nothing is said
        raise ValueError(f"num_envs={num_envs} does not fit {len(tasks)} tasks; leave it out")
    return DarkRoomVec(tasks, **options)


def _spaces(room: Room) -> tuple[gym.spaces.Space[Any], gym.spaces.Discrete]:
    """Return the observation space and the action space of one task."""
    high = np.array([room.height - 1, room.width - 1], np.uint8)
    box = gym.spaces.Box(np.zeros(2, np.uint8), high, dtype=np.uint8)
    return box, gym.spaces.Discrete(len(ACTIONS))


def _check_actions(actions: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse what is not one whole number from 0 to 4 for each slot."""
    fits = actions.shape == shape and actions.dtype.kind in "iu"
    if not fits or actions.min() < 0 or actions.max() >= len(ACTIONS):
        names = ", ".join(f"{number} ({name})" for number, name in enumerate(ACTIONS))
        raise ValueError(f"expected integers {names} of shape {shape}, got {actions!r}")


def _reset_mask(options: dict[str, Any] | None, num_envs: int) -> NDArray[np.bool_]:
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


def _final_infos(observations: Observations, over: NDArray[np.bool_]) -> dict[str, Any]:
    """Hand over the last observations of episodes in Gymnasium's layout."""
    final = np.full(len(over), None, dtype=object)
    for slot in np.flatnonzero(over):
        final[slot] = observations[slot]
    masks = {"_final_obs": over.copy(), "_final_info": over.copy()}
    return {"final_obs": final, "final_info": {}, **masks}


@dataclass(frozen=True)
class DarkRoomSuite:
    """The hundred goals of one kind of dark room, as the authors split them."""

    name: str
    room: Room
    target_return: tuple[float, float]
    trials: int = 40
    train_tasks: tuple[int, ...] = TRAIN_TASKS
    eval_tasks: tuple[int, ...] = EVAL_TASKS

    @cached_property
    def spaces(self) -> TaskSpaces:
        """What a model needs to know of these tasks."""
        return TaskSpaces(
            state=StateSpace("discrete", (2,), bins=(self.room.height, self.room.width)),
            action=ActionSpace("discrete", len(ACTIONS)),
            horizon=self.room.horizon,
            return_scale=float(self.room.horizon),
        )

    def make(self, task: int, render_mode: str | None = None) -> DarkRoom:
        """Build one environment."""
        return DarkRoom(task, self.room, render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> DarkRoomVec:
        """Build all `tasks` as one vector environment, one slot each."""
        return DarkRoomVec(tasks, self.room, autoreset_mode)

    def optimal_return(self, task: int) -> float:
        """Return the best expected return of one episode."""
        return self.room.optimal_return(self.room.goal(task))

    def optimal_action(
        self, task: int, states: ArrayLike, steps_left: int | None = None
    ) -> NDArray[np.int64]:
        """Return a best action for each of `states` [..., 2], by default as if just begun."""
        left = self.room.horizon if steps_left is None else steps_left
        return self.room.optimal_actions(self.room.goal(task), states, left)

    def describe(self, task: int) -> str:
        """Say in a few words what `task` asks for."""
        row, column = divmod(self.room.goal(task), self.room.width)
        return f"find the hidden goal in row {row}, column {column} and stay on it"
