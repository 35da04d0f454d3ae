"""What all tasks share: seeds, ends and autoreset, for many tasks at once or for one.

A family says in two methods how episodes begin and what actions bring, for some slots at once; all
else is here. `TaskVec` plays many tasks, `TaskEnv` one: a vector environment of one slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from radt.spaces import TaskSpaces, value_problem

Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]  # [N] slots
Slots = NDArray[np.int64]
States = NDArray[Any]
Infos = dict[str, Floats]  # by name, one number a slot


class TaskVec(VectorEnv[States, NDArray[Any], NDArray[Any]]):
    """Many tasks at once, one slot each; an episode takes its whole horizon, or ends before."""

    def __init__(
        self,
        tasks: Sequence[int],
        state: gym.Space[Any],
        action: gym.Space[Any],
        horizon: int,
        autoreset_mode: AutoresetMode | str,
    ) -> None:
        if not tasks:
            raise ValueError("a vector environment needs at least one task, got none")
        self.tasks, self.horizon, self.num_envs = tuple(tasks), horizon, len(tasks)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.single_observation_space, self.single_action_space = state, action
        self.observation_space = batch_space(state, self.num_envs)
        self.action_space = batch_space(action, self.num_envs)
        self._streams = [seeding.np_random()[0] for _ in tasks]
        self._states: States = np.zeros((self.num_envs, *(state.shape or ())), state.dtype)
        self._elapsed = np.zeros(self.num_envs, np.int64)  # [N]
        self._ended = np.zeros(self.num_envs, np.bool_)  # [N] terminated
        self._over = np.ones(self.num_envs, np.bool_)  # [N]
        self._was_reset = False

    def _begin(self, slots: Slots) -> States:
        """Begin an episode in some slots and return their states, [n, *shape]."""
        raise NotImplementedError

    def _act(self, slots: Slots, actions: NDArray[Any]) -> tuple[States, Floats, Infos]:
        """Act in some slots; return their states, rewards [n] and what else is known.

        A slot whose episode terminates here is marked in `_ended`.
        """
        raise NotImplementedError

    def checked(self, actions: Any, slots: tuple[int, ...]) -> NDArray[Any]:
        """Refuse what are no actions of so many slots, (N,), or of one, ()."""
        raise NotImplementedError

    def _seeded(self, slot: int, seed: int) -> None:
        """Take note that a slot begins anew with a seed."""

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[States, dict[str, Any]]:
        """Begin an episode in every slot, or in those of `options["reset_mask"]`."""
        mask = reset_mask(options, self.num_envs)
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seed = [int(seed) + slot for slot in range(self.num_envs)]
        if seed is not None and len(seed) != self.num_envs:
            raise ValueError(f"got {len(seed)} seeds for {self.num_envs} slots")
        for slot, own in enumerate(seed or ()):
            if mask[slot] and own is not None:
                self._streams[slot] = seeding.np_random(own)[0]
                self._seeded(slot, int(own))
        self._restart(mask)
        self._was_reset = True
        return self._states.copy(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[States, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Act in every slot; a slot whose episode is over begins anew as the mode says."""
        actions = self.checked(actions, (self.num_envs,))
        acting, rewards = np.flatnonzero(~self._over), np.zeros(self.num_envs)
        told: Infos = {}
        if len(acting) < self.num_envs:
            self._check_autoreset()
            self._restart(self._over)
        if acting.size:
            self._states[acting], rewards[acting], told = self._act(acting, actions[acting])
        self._elapsed[acting] += 1
        ended, cut = self._ended.copy(), ~self._ended & (self._elapsed >= self.horizon)
        self._over = ended | cut
        infos: dict[str, Any] = {}
        last, ends_here = self._states, list[int]()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            last, ends_here = self._states.copy(), np.flatnonzero(self._over).tolist()
            self._restart(self._over)
        for row, slot in enumerate(acting.tolist() if told or ends_here else ()):
            info: dict[str, Any] = {name: float(values[row]) for name, values in told.items()}
            if slot in ends_here:
                info = {"final_obs": last[slot], "final_info": info}
            infos = self._add_info(infos, info, slot)
        return self._states.copy(), rewards, ended, cut, infos

    def _restart(self, mask: Mask) -> None:
        slots = np.flatnonzero(mask)
        self._states[slots] = self._begin(slots)
        self._elapsed[slots], self._ended[slots] = 0, False
        self._over = self._over & ~mask

    def _check_autoreset(self) -> None:
        """Refuse to step slots that the caller has to reset."""
        if not self._was_reset or self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"slots {np.flatnonzero(self._over).tolist()} are over or have not begun; call "
                'reset(), or reset(options={"reset_mask": mask}) for some slots only'
            )


class ControlVec(TaskVec):
    """Many simulated tasks: their spaces, and actions that are checked and clipped."""

    def __init__(
        self,
        tasks: Sequence[int],
        spaces: TaskSpaces,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        bound: float = np.inf,  # of the numbers of a state
    ) -> None:
        self.spaces = spaces
        own = spaces.state.in_gymnasium(bound), spaces.action.in_gymnasium()
        super().__init__(tasks, *own, spaces.horizon, autoreset_mode)

    def checked(self, actions: Any, slots: tuple[int, ...]) -> Floats:
        """Refuse actions of another shape or type, outside of their range or not finite."""
        given: NDArray[Any] = np.asarray(actions)
        shape = (*slots, *self.spaces.action.shape)
        discrete = self.spaces.action.kind == "discrete"
        words, kinds, usual = (
            ("integers", "iu", "int64") if discrete else ("floats", "f", "float32")
        )
        if given.shape != shape or given.dtype.kind not in kinds:
            raise ValueError(
                f"expected actions as {words} of shape {shape}, got {given.dtype} of shape "
                f"{given.shape}; build them as np.zeros({shape}, np.{usual})"
            )
        rows = given.reshape(-1, *self.spaces.action.shape)
        if problem := value_problem("actions", rows, self.spaces, "slot"):
            mend = "" if discrete else "; clip actions to [-1, 1] and find out where NaN comes from"
            raise ValueError(f"{problem}{mend}")
        return given if discrete else np.asarray(np.clip(given, -1.0, 1.0))


class TaskEnv(gym.Env[States, Any]):
    """One task."""

    def __init__(self, vec: TaskVec) -> None:
        self.vec, self.task = vec, vec.tasks[0]
        self.observation_space = vec.single_observation_space
        self.action_space = vec.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[States, dict[str, Any]]:
        super().reset(seed=seed)
        return self.vec.reset(seed=[seed])[0][0], {}

    def step(self, action: Any) -> tuple[States, float, bool, bool, dict[str, Any]]:
        action = self.vec.checked(action, ())
        states, rewards, terminated, truncated, infos = self.vec.step(action[None])
        info = {name: float(of[0]) for name, of in infos.items() if not name.startswith("_")}
        return states[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def close(self) -> None:
        self.vec.close()


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


def check_tasks(tasks: Sequence[int], known: int, name: str) -> None:
    """Refuse numbers that are no task."""
    for task in tasks:
        if not 0 <= task < known:
            raise ValueError(f"{name} has tasks 0 to {known - 1}, not {task}")
