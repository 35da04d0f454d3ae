"""Dark-Room: find a goal that cannot be seen, then stay on it (the paper's first environment).

A `Room` holds the rules: its goals, which of them are unseen, and what is best on each. A cell is
an integer, `row * width + column`, so that moving is a look-up in one small table. `DarkRoom` plays
one task and `DarkRoomVec` many tasks at once; `DarkRoomSuite` names the tasks.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, SupportsIndex

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from radt.envs.grid import GridEnv, GridVec
from radt.envs.render import Cell, GridView
from radt.envs.suite import Recipe, TaskSuite
from radt.envs.vector import Slots
from radt.spaces import ActionSpace, StateSpace, TaskSpaces

ACTIONS = ("up", "right", "down", "left", "wait")
TRAIN_TASKS = tuple(range(80))
EVAL_TASKS = tuple(range(80, 100))
FRESH_TASKS = tuple(range(100, 140))  # beyond the published split, where a room has more cells
PICKED = 0  # the one task of a suite whose cells somebody picked
GOAL_SEED = 43  # the authors' seed of the goal split


def goal_cells(width: int, height: int, seed: int = GOAL_SEED) -> NDArray[np.int64]:
    """Draw the cells (x, y) of tasks 0, 1, ... as the authors do; they use the first hundred."""
    cells = np.array([(x, y) for x in range(width) for y in range(height)])
    return cells[np.random.RandomState(seed).permutation(len(cells))]  # [cells, 2]


@lru_cache(maxsize=16)
def next_cells(width: int, height: int) -> NDArray[np.int64]:
    """Tabulate the cell after each action; a move into a wall stays where it is."""
    row, col = np.divmod(np.arange(width * height), width)
    moved = np.stack(
        [
            np.maximum(row - 1, 0) * width + col,
            row * width + np.minimum(col + 1, width - 1),
            np.minimum(row + 1, height - 1) * width + col,
            row * width + np.maximum(col - 1, 0),
            row * width + col,
        ],
        axis=1,
    )
    moved.setflags(write=False)
    return moved  # [cells, actions]


def steps_until_on(width: int, height: int, cell: int) -> NDArray[np.int64]:
    """Return after how many steps from each cell a step can end in `cell`; 1 if there already."""
    row, col = np.divmod(np.arange(width * height), width)
    distance = abs(row - cell // width) + abs(col - cell % width)
    return np.asarray(np.maximum(distance, 1))  # [cells]


def straight_values(width: int, height: int, goal: int, steps_left: int) -> NDArray[np.float64]:
    """Return the best return from each cell when every move succeeds and `steps_left` remain."""
    # The first reward is paid by the step that reaches the goal, or by waiting on it.
    return np.asarray(np.maximum(steps_left + 1.0 - steps_until_on(width, height, goal), 0.0))


@lru_cache(maxsize=256)
def slippery_values(
    width: int, height: int, goal: int, slip: float, after: tuple[float, ...] | None = None
) -> NDArray[np.float64]:
    """Solve a slippery grid backwards from its end; row h holds the values with h steps left.

    Every step that ends on `goal` pays 1; with `after` only the first, and `after[h]` is what the
    h steps left are worth then.
    """
    moved = next_cells(width, height)  # [cells, actions]
    values = np.zeros((width * height + 1, width * height))
    for left in range(1, len(values)):
        arrived = values[left - 1].copy()
        arrived[goal] = 1.0 + (arrived[goal] if after is None else after[left - 1])
        outcome = arrived[moved]  # [cells, actions]
        values[left] = (1.0 - slip) * outcome.max(axis=1) + slip * outcome.mean(axis=1)
    values.setflags(write=False)
    return values  # [horizon + 1, cells]


@dataclass(frozen=True)
class Room:
    """The rules of one kind of room; its horizon is its number of cells."""

    width: int = 10
    height: int = 10
    random_start: bool = False  # start each episode in a uniformly random cell, not in (0, 0)
    slip: float = 0.0  # with this probability a uniformly random action is executed instead
    end: Literal["terminated", "truncated"] = "terminated"  # how the end of the horizon is reported

    actions: ClassVar[tuple[str, ...]] = ACTIONS

    def __post_init__(self) -> None:
        if not (1 <= self.width <= 256 and 1 <= self.height <= 256):
            raise ValueError(f"a room is 1 to 256 cells wide and high, not {self.label}")
        if not 0.0 <= self.slip <= 1.0:
            raise ValueError(f"slip is a probability from 0 to 1, not {self.slip}")
        if self.end not in ("terminated", "truncated"):
            raise ValueError(f"end is 'terminated' or 'truncated', not {self.end!r}")

    @property
    def label(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def horizon(self) -> int:
        return self.width * self.height

    @property
    def bins(self) -> tuple[int, ...]:
        return self.height, self.width

    @property
    def solved_above(self) -> float:
        """The return that only a trial which found its goal can exceed."""
        return 0.0

    @property
    def is_noisy(self) -> bool:
        return self.random_start or self.slip > 0.0

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        x, y = goal_cells(self.width, self.height).T
        return np.asarray(y * self.width + x)  # [tasks]

    @cached_property
    def observations(self) -> NDArray[np.uint8]:
        pairs = np.divmod(np.arange(self.horizon), self.width)
        table = np.stack(pairs, axis=1).astype(np.uint8)
        table.setflags(write=False)
        return table  # [cells, 2]

    @property
    def moves(self) -> NDArray[np.int64]:
        return next_cells(self.width, self.height)  # [cells, actions]

    def goal(self, task: SupportsIndex) -> int:
        index = operator.index(task)
        if not 0 <= index < len(self.goals):
            raise ValueError(
                f"a {self.label} room has tasks 0 to {len(self.goals) - 1}, got task {index}; "
                "the suite lists them as train_tasks and eval_tasks"
            )
        return int(self.goals[index])

    def goals_of(self, tasks: Sequence[SupportsIndex]) -> NDArray[np.int64]:
        return np.array([self.goal(task) for task in tasks])  # [tasks]

    def cells(self, states: ArrayLike) -> NDArray[np.int64]:
        """Return the cells of observations [..., 2]."""
        pairs = np.asarray(states).astype(np.int64)
        if (
            pairs.shape[-1:] != (2,)
            or (pairs < 0).any()
            or (pairs >= (self.height, self.width)).any()
        ):
            raise ValueError(f"expected (row, column) inside {self.label}, got {states!r}")
        return np.asarray(pairs[..., 0] * self.width + pairs[..., 1])  # [...]

    def begin(self, rng: np.random.Generator) -> tuple[int, NDArray[np.int8]]:
        start = int(rng.integers(self.horizon)) if self.random_start else 0
        forced = np.full(self.horizon + 1, -1, np.int8)  # one more, for the step after the end
        if self.slip > 0.0:
            slips = rng.random(self.horizon) < self.slip
            draws = rng.integers(len(ACTIONS), size=self.horizon)
            forced[:-1] = np.where(slips, draws, -1)
        return start, forced

    def best_values(self, goal: int, steps_left: int) -> NDArray[np.float64]:
        """Return the best expected return from each cell with `steps_left` actions to go."""
        if self.slip > 0.0:
            values = slippery_values(self.width, self.height, goal, self.slip)
            return np.asarray(values[steps_left])
        return straight_values(self.width, self.height, goal, steps_left)  # [cells]

    def optimal_return(self, goal: int) -> float:
        values = self.best_values(goal, self.horizon)
        return float(values.mean() if self.random_start else values[0])

    def optimal_actions(self, goal: int, states: ArrayLike, steps_left: int) -> NDArray[np.int64]:
        """Return a best action for each observation with `steps_left` actions to go."""
        later = self.best_values(goal, max(steps_left - 1, 0))
        value = later + (np.arange(self.horizon) == goal)  # [cells] of arriving there
        return np.asarray(value[self.moves[self.cells(states)]].argmax(axis=-1))  # [...]


@dataclass(frozen=True)
class PickedRoom(Room):
    """A room of one task, whose goal somebody put somewhere."""

    goal_cell: int = 0

    @cached_property
    def goals(self) -> NDArray[np.int64]:
        return np.array([self.goal_cell])


class DarkRoomVec(GridVec):
    """Many tasks of a dark room at once, one slot each."""

    room: Room
    rules: ClassVar[type[Room]] = Room

    def __init__(
        self,
        tasks: Sequence[int] | None = None,
        room: Room | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_envs: int = 1,
        **rules: Any,
    ) -> None:
        """Build a slot for each of `tasks`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        super().__init__(tasks, replace(room or self.rules(), **rules), autoreset_mode, num_envs)
        self.goals = self.room.goals_of(self.tasks)

    def _earn(self, slots: Slots) -> NDArray[np.float64]:
        return np.asarray(self._cells[slots] == self.goals[slots], np.float64)

    @cached_property
    def _ways(self) -> NDArray[np.int64]:
        """The best action of each slot in each cell, as if its episode had just begun."""
        room, cells = self.room, self.room.observations
        return np.stack([room.optimal_actions(g, cells, room.horizon) for g in self.goals])

    def optimal_actions(self) -> NDArray[np.int64]:
        return np.asarray(self._ways[self._slots, self._cells])


class DarkRoom(GridEnv):
    """One task of a dark room: see (row, column), earn 1 with each step that ends on the goal."""

    many: ClassVar[type[DarkRoomVec]] = DarkRoomVec

    def __init__(
        self, task: int = 0, room: Room | None = None, render_mode: str | None = None, **rules: Any
    ) -> None:
        """Build the room of `task`; `rules` change fields of `room`, e.g. `slip=0.1`."""
        super().__init__(self.many([task], room, AutoresetMode.DISABLED, **rules), render_mode)


@dataclass(frozen=True)
class DarkRoomSuite:
    """The hundred goals of one kind of dark room, as the authors split them."""

    name: str
    room: Room
    target_return: tuple[float, float]
    trials: int = 40
    train_tasks: tuple[int, ...] = TRAIN_TASKS
    eval_tasks: tuple[int, ...] = EVAL_TASKS
    recipes: tuple[Recipe, ...] = field(default=(), compare=False)
    splits: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False)

    pickable: ClassVar[tuple[str, ...]] = ("goal",)  # what one can put into a cell by hand
    picked_room: ClassVar[type[Room]] = PickedRoom
    single: ClassVar[type[DarkRoom]] = DarkRoom

    @cached_property
    def spaces(self) -> TaskSpaces:
        return TaskSpaces(
            state=StateSpace("discrete", (len(self.room.bins),), bins=self.room.bins),
            action=ActionSpace("discrete", len(ACTIONS)),
            horizon=self.room.horizon,
            return_scale=float(self.room.horizon),
            solved_above=self.room.solved_above,
        )

    def make(self, task: int, render_mode: str | None = None) -> GridEnv:
        return self.single(task, self.room, render_mode)

    def make_vec(
        self, tasks: Sequence[int], autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    ) -> GridVec:
        return self.single.many(tasks, self.room, autoreset_mode)

    def optimal_return(self, task: int) -> float:
        return self.room.optimal_return(self.room.goal(task))

    def optimal_actions(
        self, task: int, states: NDArray[Any], rewards: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Return a best action for each step of one episode [T], as if it had just begun there.

        Where too little time is left for the goal every action is as good; these still lead there.
        """
        return self.room.optimal_actions(self.room.goal(task), states, self.room.horizon)

    def view(self, task: int, states: NDArray[Any], rewards: NDArray[Any]) -> GridView:
        """Describe an episode so far for drawing; the goal is shown to us only."""
        room, goal = self.room, divmod(self.room.goal(task), self.room.width)
        trail = tuple((int(row), int(column)) for row, column in np.asarray(states)[:, :2])
        caption = f"step {len(rewards):3d}  return {np.sum(rewards):3.0f}"
        return GridView(room.width, room.height, trail[-1], goal, trail[0], trail, caption)

    def describe(self, task: int) -> str:
        row, column = divmod(self.room.goal(task), self.room.width)
        return f"find the hidden goal in row {row}, column {column} and stay on it"


def without_quadrant(suite: DarkRoomSuite) -> DarkRoomSuite:
    """Hold out all goals of a region from training: the quadrant farthest from the start."""
    room = suite.room
    row, column = np.divmod(room.goals, room.width)  # [tasks]
    far = (row >= room.height // 2) & (column >= room.width // 2)
    train, unseen = (tuple(np.flatnonzero(own).tolist()) for own in (~far, far))
    name = f"{suite.name}-quadrant"
    return replace(suite, name=name, train_tasks=train, eval_tasks=unseen, splits={})


def pickable(suite: TaskSuite) -> tuple[str, ...]:
    """Name what one can put into a cell of a suite's rooms; nothing where tasks are fixed."""
    return suite.pickable if isinstance(suite, DarkRoomSuite) else ()


def pick(suite: TaskSuite, cells: Mapping[str, Cell]) -> DarkRoomSuite:
    """Return a suite of one task, `PICKED`, with its goal, and key, in the given cells."""
    if not isinstance(suite, DarkRoomSuite) or set(cells) != set(suite.pickable):
        wanted = " and ".join(pickable(suite)) or "nothing"
        given = " and ".join(cells) or "nothing"
        raise ValueError(f"in {suite.name} one can pick {wanted}, not {given}")
    rules = {field.name: getattr(suite.room, field.name) for field in fields(suite.room)}
    for name, (row, column) in cells.items():
        if not (0 <= row < suite.room.height and 0 <= column < suite.room.width):
            label = suite.room.label
            raise ValueError(f"row {row}, column {column} is not inside a room of {label} cells")
        rules[f"{name}_cell"] = row * suite.room.width + column
    room = suite.picked_room(**rules)
    return replace(suite, room=room, train_tasks=(), eval_tasks=(PICKED,), splits={})


def goal_cells_of(suite: TaskSuite, tasks: Sequence[int]) -> list[Cell]:
    """Return the goals of tasks as cells, where a suite has rooms one can pick in."""
    if not isinstance(suite, DarkRoomSuite):
        return []
    return [divmod(suite.room.goal(task), suite.room.width) for task in tasks]
