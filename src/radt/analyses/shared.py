"""What the analyses share: the trials of a run once more, rooms on a figure, and what is found.

An agent draws its noise from its seed, its task and its trial, so what is rolled out here is what
was measured, as far as it goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from radt.agent import Agent
from radt.envs.render import GridView
from radt.envs.suite import DrawnSuite, success_threshold
from radt.files import atomic_write
from radt.icl import Observer
from radt.methods import Method
from radt.methods.exploration import exploration_of
from radt.methods.ra_dt import RADT
from radt.metrics import Interval, crossed_interval
from radt.plots.style import FAINT, INK, PALE
from radt.runs.roll_out import Trials, roll_out
from radt.runs.run import RunError
from radt.track import Tracker
from radt.trajectory import Trajectory
from radt.version import code_version

RESAMPLES = 2000
FLOOR, WALL, GOAL = "#F8F9FB", "#9A9EAA", "#E0A100"


@dataclass(frozen=True)
class Finding:
    """What came out of an analysis: a picture, the numbers behind it, and a verdict in words."""

    analysis: str
    verdict: str
    numbers: Mapping[str, Any]
    trials: Trials
    picture: Path

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with what they were measured on."""
        values = {
            "analysis": self.analysis,
            "verdict": self.verdict,
            "env": self.trials.suite.name,
            "tasks": list(self.trials.tasks),
            "trials": self.trials.count,
            "seed": self.trials.seed,
            **self.numbers,
            "code_version": code_version(),
        }
        return dict(json.loads(json.dumps(values, default=asdict)))  # intervals, too

    def write(self) -> Path:
        """Write the numbers and the verdict beside the picture."""
        path = self.picture.with_suffix(".json")
        atomic_write(path, (json.dumps(self.to_json(), indent=1) + "\n").encode())
        return path


def over_tasks(scores: Iterable[float]) -> Interval | None:
    """Average one score a task, with 95 % over tasks; None where there is no task."""
    known = np.array(list(scores), dtype=np.float64)[None]  # [1, task]
    if not known.size:
        return None
    return crossed_interval(known, np.random.default_rng(0), RESAMPLES)  # the same each time


def mean_by(task: NDArray[Any], values: NDArray[np.float64]) -> list[float]:
    """Average values [N] within each task [N], so that each task counts once."""
    return [float(values[task == one].mean()) for one in np.unique(task)]


def percent(interval: Interval | None, digits: int = 0) -> str:
    """Write a share with its interval, in percent."""
    if interval is None:
        return "-"
    mean, low, high = (f"{x:.{digits}%}" for x in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


@dataclass(frozen=True)
class RolledOut:
    """All trials that a method rolled out, task by task."""

    method: str
    trials: Trials
    episodes: tuple[tuple[Trajectory, ...], ...]  # [task][trial]

    @property
    def returns(self) -> NDArray[np.float64]:
        """What every trial earned, [task, trial]."""
        return np.array([[trial.total_return for trial in task] for task in self.episodes])

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Which trials succeeded, as scores count it, [task, trial]; all where none can."""
        above = success_threshold(self.trials.suite, self.trials.tasks)
        return np.asarray(self.returns > (-np.inf if above is None else above))

    @property
    def suite(self) -> DrawnSuite:
        return drawable(self.trials)

    def room(self, slot: int) -> GridView:
        """Describe a task's room before anything has happened in it."""
        first = self.episodes[slot][0]
        return self.suite.view(first.task, first.states[:1], first.rewards[:0])

    def cells(self, episode: Trajectory) -> NDArray[np.int64]:
        """Return the cell (row, column) of every state of an episode, [T, 2]."""
        return np.array(self.suite.view(episode.task, episode.states, episode.rewards[:-1]).trail)


def record_trials(
    method: Method, trials: Trials, tracker: Tracker | None = None, *others: Observer
) -> RolledOut:
    """Roll out trials again, write them down, and let others look on."""
    recorder = Recorder(trials.count, others)
    roll_out(method, trials, tracker or Tracker(), recorder)
    return RolledOut(method.name, trials, recorder.episodes(trials.tasks))


class Recorder:
    """Writes down what every slot sees, does and earns."""

    def __init__(self, count: int, others: Sequence[Observer] = ()) -> None:
        """Record the first `count` trials of each slot; others look on, too."""
        self.count, self.others = count, others
        self._steps: list[tuple[NDArray[Any], ...]] = []  # counts, trial, state, action, reward

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        running = agent.trials
        counts = agent.is_acting & (running.trial < self.count)
        now = np.where(counts, running.step, 0)
        states = running.states[np.arange(agent.slots), now]
        self._steps.append((counts, running.trial.copy(), states, agent.actions, rewards.copy()))
        for observer in self.others:
            observer.after_step(step, agent, obs, rewards)

    def episodes(self, tasks: Sequence[int]) -> tuple[tuple[Trajectory, ...], ...]:
        """Cut what was written into trials, [task][trial]."""
        counts, *others = (np.stack(column) for column in zip(*self._steps, strict=True))
        return tuple(
            _cut(task, *(column[counts[:, slot], slot] for column in others))  # each [N, ...]
            for slot, task in enumerate(tasks)
        )


def _cut(
    task: int,
    trial: NDArray[np.int64],
    states: NDArray[Any],
    actions: NDArray[Any],
    rewards: NDArray[Any],
) -> tuple[Trajectory, ...]:
    """Cut the steps of one task [N] where a new trial begins."""
    where = np.flatnonzero(np.diff(trial)) + 1
    parts = (np.split(column, where) for column in (states, actions, rewards.astype(np.float32)))
    return tuple(
        Trajectory(seen, done, earned, task, number)
        for number, (seen, done, earned) in enumerate(zip(*parts, strict=True))
    )


def drawable(trials: Trials) -> DrawnSuite:
    """Return the suite as one that can be drawn, or refuse it."""
    if not isinstance(trials.suite, DrawnSuite):
        raise RunError(
            f"this analysis looks at the cells of a room, which {trials.suite.name} has not; it "
            "works where `radt demo` draws, such as dark-room-10x10"
        )
    return trials.suite


def retrieving(method: Method) -> RADT:
    """Return a method that reads what it retrieves, or refuse it."""
    plain, _ = exploration_of(method)
    if not isinstance(plain, RADT):
        raise RunError(
            f"{method.name} retrieves nothing, so there is nothing to look at; give a run of a "
            "method with a memory, such as ra-dt"
        )
    return plain


def nothing_retrieved(trials: Trials) -> RunError:
    """Say that there was nothing to look at."""
    return RunError(
        f"nothing was retrieved in {trials.count} trials, so there is nothing to look at; give "
        "more of them with --trials"
    )


def draw_room(axes: Axes, view: GridView, title: str) -> None:
    """Draw the floor, the walls, the start and the goals of a room."""
    axes.set_title(title, loc="left", fontsize=8.5, color=INK)
    axes.set_xlim(-0.5, view.width - 0.5)
    axes.set_ylim(view.height - 0.5, -0.5)  # row 0 is on top
    axes.set_aspect("equal")
    axes.set_facecolor(FLOOR)
    axes.set_xticks(np.arange(0.5, view.width - 1), minor=True)
    axes.set_yticks(np.arange(0.5, view.height - 1), minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.6)
    axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set(color=WALL, linewidth=0.8)
    for row, column in view.walls:
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=WALL, linewidth=0))
    draw_mark(axes, view.start, "o", PALE, hollow=True)
    draw_mark(axes, view.goal, "D", GOAL)
    for goal in view.other_goals:
        draw_mark(axes, goal, "D", GOAL, hollow=True)
    if view.key is not None:
        draw_mark(axes, view.key, "s", GOAL, hollow=True)


def draw_mark(
    axes: Axes, cell: tuple[float, float], sign: str, colour: str, hollow: bool = False
) -> None:
    """Draw a sign at a place (row, column)."""
    face, (row, column) = "none" if hollow else colour, cell
    look: dict[str, Any] = {
        "markerfacecolor": face,
        "markeredgecolor": colour,
        "markeredgewidth": 1.2,
    }
    axes.plot(column, row, marker=sign, markersize=5, linestyle="none", zorder=5, **look)


def draw_heat(axes: Axes, amount: NDArray[np.float64]) -> None:
    """Colour the cells by amount [height, width]; what is 0 stays as the floor is."""
    shown, top = np.ma.masked_less_equal(amount, 0.0), float(amount.max())
    axes.imshow(shown, cmap="Blues", norm=Normalize(-0.25 * top, top), zorder=1)


def draw_path(axes: Axes, path: NDArray[Any], colour: str, width: float = 1.4) -> None:
    """Draw the cells (row, column) that were passed, in order, and where they end."""
    rows, columns = path.T
    axes.plot(columns, rows, color=colour, linewidth=width, solid_joinstyle="round", zorder=3)
    axes.plot(columns[-1], rows[-1], marker="o", color=colour, markersize=3 * width, zorder=4)


def sum_by_cell(
    path: NDArray[np.int64], view: GridView, amount: NDArray[Any] | float = 1.0
) -> NDArray[np.float64]:
    """Add up an amount for each cell of a room that is in a path [T, 2]: [height, width]."""
    total = np.zeros((view.height, view.width))
    np.add.at(total, (path[:, 0], path[:, 1]), amount)
    return total
