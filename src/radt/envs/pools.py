"""Simulations: tasks of EnvPool, one pool of one environment for each slot.

Pools work in threads of their own, so all are sent to before any is received from. EnvPool checks
nothing of what it is given and begins anew by itself on the step after an episode's end; here
actions are checked before, and that step is never taken: a slot is reset, or its pool made anew.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode

from radt.envs.suite import Scoring
from radt.envs.vector import ControlVec, Floats, Infos, Slots, TaskEnv
from radt.errors import MissingError, RunError
from radt.spaces import TaskSpaces

ONLY = np.zeros(1, np.int32)  # the number of a pool's only environment
BOUND = 1e6  # of observations, which have none: checkers ask for one

# Reference returns of the authors, of Meta-World's second version, dm_control 1.0 and Procgen's
# easy mode; 200, 1,000 and 400 steps an episode. The paper normalises its scores by the first two,
# and its target returns are the third. Procgen's own authors normalise by a range: no progress, and
# the best that can be reached.
Table = dict[str, tuple[float, float, float]]  # random policy, mean of the data, best of the data
_TABLES: dict[str, Any] = {
    suite: {name: tuple(returns) for name, returns in table.items()}
    for suite, table in json.loads(
        Path(__file__).with_name("reference_scores.json").read_text()
    ).items()
}
META_WORLD: Table = _TABLES["meta-world"]
DM_CONTROL: Table = _TABLES["dm-control"]
PROCGEN: Table = _TABLES["procgen"]
PROCGEN_RANGE: dict[str, tuple[float, float]] = _TABLES["procgen-range"]


class PoolVec(ControlVec):
    """Many simulations at once, one slot each."""

    ends_early: ClassVar[bool] = False  # whether an episode may end before time is up

    def __init__(
        self,
        tasks: Sequence[int],
        names: Sequence[str],  # of all tasks in EnvPool
        spaces: TaskSpaces,
        autoreset_mode: AutoresetMode | str,
        same_start: bool,  # every episode after a seed begins alike, or by new random numbers
        **settings: Any,
    ) -> None:
        super().__init__(tasks, spaces, autoreset_mode, BOUND)
        self._make = module("envpool").make_gymnasium
        self._names, self._same_start = names, same_start
        self._settings = {"num_envs": 1, "max_episode_steps": spaces.horizon, **settings}
        self._pools: list[Any] = [None] * self.num_envs
        self._seeds: list[int | None] = [None] * self.num_envs

    def _read(self, slot: int, observed: Any) -> Floats:
        """Write what a pool shows as a state, [width]."""
        raise NotImplementedError

    def _own_settings(self, slot: int) -> dict[str, Any]:
        """Say what a slot's pool has of its own."""
        return {}

    def _known(self, info: dict[str, Any]) -> dict[str, float]:
        """Choose what is told beside the reward."""
        return {}

    def _seeded(self, slot: int, seed: int) -> None:
        self._seeds[slot] = None
        self._drop(slot)

    def _drop(self, slot: int) -> None:
        if self._pools[slot] is not None:
            self._pools[slot].close()
            self._pools[slot] = None

    def _begin(self, slots: Slots) -> Floats:
        for slot in slots.tolist():
            if self._same_start:
                self._drop(slot)
            if self._pools[slot] is None:
                seed = self._seeds[slot]
                if seed is None:
                    seed = self._seeds[slot] = int(self._streams[slot].integers(2**31))
                name = self._names[self.tasks[slot]]
                settings = self._settings | self._own_settings(slot)
                self._pools[slot] = self._make(name, seed=seed, **settings)
            self._pools[slot].async_reset()
        return self._states_of(slots, [self._received(slot)[0] for slot in slots.tolist()])

    def _act(self, slots: Slots, actions: Floats) -> tuple[Floats, Floats, Infos]:
        for slot, action in zip(slots.tolist(), actions, strict=True):
            pool = self._pools[slot]
            own = action[None]  # [1, *action_shape]
            if self.spaces.action.shape:
                own = own[:, : self.spaces.valid_action_dims(self.tasks[slot])]
            pool.send(own.astype(pool.action_space.dtype), ONLY)
        seen, rewards, ended, cut, infos = zip(*map(self._received, slots.tolist()), strict=True)
        last = self._elapsed[slots] + 1 == self.spaces.horizon  # [n]
        over = np.logical_or(ended, cut)[:, 0]
        early = over & ~last
        if self.ends_early:
            self._ended[slots] = over
        elif early.any():
            self._fail(int(slots[early][0]), "its episode ended early")
        known = [self._known(info) for info in infos]
        told = {name: np.array([one[name] for one in known]) for name in known[0]}
        return self._states_of(slots, seen), np.array(rewards, np.float64)[:, 0], told

    def _states_of(self, slots: Slots, seen: Sequence[Any]) -> Floats:
        states = np.stack([self._read(slot, one) for slot, one in zip(slots, seen, strict=True)])
        if not (finite := np.isfinite(states).reshape(len(states), -1).all(axis=1)).all():
            self._fail(int(slots[~finite][0]), "its observation is not finite")
        return states

    def _received(self, slot: int) -> Any:
        """Wait for a pool: observation, reward, ended, cut off, info."""
        try:
            return self._pools[slot].recv()
        except Exception as error:  # of a library in another language
            self._fail(slot, f"{type(error).__name__}: {error}", error)

    def _fail(self, slot: int, why: str, error: Exception | None = None) -> None:
        name, step = self._names[self.tasks[slot]], int(self._elapsed[slot])
        raise RunError(
            f"the simulation of {name} failed at step {step} of an episode ({why}); start the same "
            "command again: what is finished is kept"
        ) from error

    def close_extras(self, **named: Any) -> None:
        for slot in range(self.num_envs):
            self._drop(slot)


class PoolSuite:
    """What suites of simulations say of their tasks alike; a task is a place in `names`."""

    names: ClassVar[tuple[str, ...]]
    pools: ClassVar[tuple[str, ...]]  # their names in EnvPool
    reference: ClassVar[Table]  # returns, by name

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> PoolVec:
        raise NotImplementedError

    def make(self, task: int, render_mode: str | None = None) -> TaskEnv:
        return TaskEnv(self.make_vec([task], AutoresetMode.DISABLED))

    @cached_property
    def scoring(self) -> Scoring:
        """0 is a random policy, 1 the authors' data."""
        return normalised("data-normalised", [self.reference[name][:2] for name in self.names])

    def optimal_return(self, task: int) -> None:
        """Return None: it is not known."""

    def describe(self, task: int) -> str:
        return self.names[task]


def normalised(kind: Any, ends: Sequence[tuple[float, float]]) -> Scoring:
    """Score between two returns of each task."""
    low, high = (dict(enumerate(column)) for column in zip(*ends, strict=True))
    return Scoring(kind, low, high)


def module(name: str) -> Any:
    """Import a package of the extra `control`."""
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError) as error:  # so fails mujoco where its library is missing
        raise MissingError(
            f"Meta-World, DMControl and Procgen need {name.split('.')[0]} ({error}): make setup in "
            "a checkout, else pip install 'radt[control]'"
        ) from error


def pool_name(name: str) -> str:
    """Write a task's name as EnvPool does: finger-turn_easy is FingerTurnEasy."""
    return "".join(part.capitalize() for part in name.replace("_", "-").split("-"))
