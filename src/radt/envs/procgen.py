"""Procgen: sixteen video games seen as images, twelve to learn from and four unseen (section 4.5).

A task is a game on one level, the same at every trial: the twelve games on level 1, which the data
show too, and on level 200, which they do not, and the four unseen games on level 200. In training
data an episode is on one of the levels 0 to 199, which it tells as `level`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from radt.envs import recipes
from radt.envs.pools import PROCGEN, PROCGEN_RANGE, PoolSuite, PoolVec, normalised
from radt.envs.suite import Recipe, Scoring
from radt.envs.vector import Slots, TaskEnv, check_tasks
from radt.errors import MissingError
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

PG4 = ("climber", "ninja", "plunder", "jumper")
PG12 = tuple(game for game in sorted(PROCGEN) if game not in PG4)
SEEN, UNSEEN = 1, 200  # levels
TRAINING_LEVELS = 200  # from level 0 on
LEVELS = (*((game, SEEN) for game in PG12), *((game, UNSEEN) for game in (*PG12, *PG4)))
NAMES = tuple(
    f"{game}-unseen" if level == UNSEEN and game in PG12 else game for game, level in LEVELS
)  # a task is a place here
SPACES = TaskSpaces(
    state=StateSpace("image", (3, 64, 64)),
    action=ActionSpace("discrete", 15),
    horizon=400,
    return_scale=10.0,
)


class ProcgenVec(PoolVec):
    """Many games at once, one slot each."""

    ends_early = True

    def __init__(
        self,
        tasks: Sequence[int],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        same_level: bool = True,
    ) -> None:
        check_tasks(tasks, len(NAMES), "procgen")
        names = [f"{game.capitalize()}Easy-v0" for game, _ in LEVELS]
        super().__init__(tasks, names, SPACES, autoreset_mode, same_start=False)
        self._same_level = same_level

    def _own_settings(self, slot: int) -> dict[str, Any]:
        if self._same_level:
            return {"num_levels": 1, "start_level": LEVELS[self.tasks[slot]][1]}
        return {"num_levels": TRAINING_LEVELS, "start_level": 0}

    def _begin(self, slots: Slots) -> NDArray[Any]:
        try:
            return super()._begin(slots)
        except ImportError as error:
            raise MissingError(
                f"Procgen draws its games with Qt ({error}): make setup as root installs it, else "
                "apt-get install libqt5gui5"
            ) from error

    def _read(self, slot: int, observed: Any) -> NDArray[Any]:
        return np.asarray(observed[0])

    def _known(self, info: dict[str, Any]) -> dict[str, float]:
        return {"level": float(info["level_seed"][0])}

    def render(self) -> tuple[Any, ...]:
        """Return the frame that each slot observed last, [64, 64, 3]."""
        return tuple(self._states.transpose(0, 2, 3, 1).copy())


class Procgen(TaskEnv):
    """One game."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(self, vec: ProcgenVec, render_mode: str | None) -> None:
        super().__init__(vec)
        self.render_mode = render_mode

    def render(self) -> Any:
        return self.vec.render()[0]  # type: ignore[index]


@dataclass(frozen=True)
class ProcgenSuite(PoolSuite):
    """PG12 on a level of the data and on another one, and PG4."""

    names = NAMES

    name: str = "procgen"
    same_level: bool = True  # at every trial; otherwise each episode is on one of the data's levels
    train_tasks: tuple[int, ...] = tuple(range(len(PG12)))
    eval_tasks: tuple[int, ...] = tuple(range(2 * len(PG12), len(NAMES)))
    trials: int = 30
    target_return: tuple[float, float] = (10.0, 0.0)  # where there are no data to take it from
    task_targets: str = "data"
    spaces: TaskSpaces = SPACES
    source: str = "sb3"
    recipes: tuple[Recipe, ...] = field(default=recipes.PROCGEN, compare=False)

    @property
    def for_data(self) -> ProcgenSuite:
        """The same games, every episode on a level of its own."""
        return replace(self, same_level=False)

    @property
    def splits(self) -> dict[str, tuple[int, ...]]:
        """The twelve games on a level of the data, and on one that is not in them."""
        games = len(PG12)
        return {"seen": self.train_tasks, "unseen": tuple(range(games, 2 * games))}

    @property
    def twins(self) -> Mapping[int, int]:
        """The training task that is the same game on another level."""
        return dict(zip(self.splits["unseen"], self.train_tasks, strict=True))

    @cached_property
    def scoring(self) -> Scoring:
        """0 is no progress, 1 the best that can be reached, which the paper calls a human's."""
        return normalised("human-normalised", [PROCGEN_RANGE[game] for game, _ in LEVELS])

    @cached_property
    def data_scoring(self) -> Scoring:
        """0 is a random policy, 1 the authors' data."""
        return normalised("data-normalised", [PROCGEN[game][:2] for game, _ in LEVELS])

    def make(self, task: int, render_mode: str | None = None) -> Procgen:
        return Procgen(self.make_vec([task], AutoresetMode.DISABLED), render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> ProcgenVec:
        return ProcgenVec(tasks, autoreset_mode, self.same_level)

    def describe(self, task: int) -> str:
        game, level = LEVELS[task]
        return f"{game}, level {level}" if self.same_level else game
