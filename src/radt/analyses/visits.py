"""Where an agent goes: which cells, how many, and whether it stops once the task is solved.

The paper shows maps of three goals: an agent visits nearly all cells until it finds the goal, and
then stops exploring. Here both are numbers over all tasks, with maps of three of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from radt.analyses.shared import (
    Finding,
    RolledOut,
    draw_heat,
    draw_room,
    over_tasks,
    percent,
    sum_by_cell,
)
from radt.metrics import Interval, late_score
from radt.plots import style

SHOWN_TASKS, SPANS = 3, 4  # maps: so many tasks, each with its trials in so many parts and together


@dataclass(frozen=True)
class Visits:
    """How often each task's trials were in each cell."""

    counts: NDArray[np.float64]  # [task, trial, height, width]
    open_cells: NDArray[np.int64]  # [task] how many cells can be entered
    solved: NDArray[np.bool_]  # [task, trial]

    @property
    def share_by_trial(self) -> NDArray[np.float64]:
        """The share of cells that some trial so far has visited, [task, trial]."""
        seen = np.cumsum(self.counts, axis=1) > 0
        return np.asarray(seen.sum(axis=(2, 3)) / self.open_cells[:, None])

    @property
    def cells_of_a_trial(self) -> NDArray[np.float64]:
        """The share of cells that each trial visits, [task, trial]."""
        return np.asarray((self.counts > 0).sum(axis=(2, 3)) / self.open_cells[:, None])

    @property
    def after_success(self) -> NDArray[np.bool_]:
        """Which trials come after the first that solved their task, [task, trial]."""
        found = np.cumsum(self.solved, axis=1) > 0
        return np.asarray(np.pad(found[:, :-1], ((0, 0), (1, 0))))


def count_visits(done: RolledOut) -> Visits:
    """Count the visits of every trial."""
    views = [done.room(slot) for slot in range(len(done.episodes))]
    counts = [
        [sum_by_cell(done.cells(trial), view) for trial in task]
        for task, view in zip(done.episodes, views, strict=True)
    ]
    open_cells = [view.width * view.height - len(view.walls) for view in views]
    return Visits(np.array(counts), np.array(open_cells), done.solved)


def analyse_visits(done: RolledOut, path: Path) -> Finding:
    """Measure and draw where an agent goes."""
    visits = count_visits(done)
    share = visits.share_by_trial  # [task, trial]
    after, each = visits.after_success, visits.cells_of_a_trial
    kinds = {"before_success": ~after, "after_success": after}
    pace = {  # tasks without such trials are left out
        name: over_tasks(
            float(row[mask].mean()) for row, mask in zip(each, chosen, strict=True) if mask.any()
        )
        for name, chosen in kinds.items()
    }
    first, last = over_tasks(share[:, 0]), over_tasks(share[:, -1])
    draw_visits(done, visits, path)
    numbers = {
        "method": done.method,
        "share_visited_by_trial": share.mean(axis=0).tolist(),
        "share_visited_in_first_trial": first,
        "share_visited_in_all_trials": last,
        "share_of_a_trial": pace,
        "by_task": dict(zip(map(str, done.trials.tasks), share[:, -1].tolist(), strict=True)),
    }
    return Finding("visits", say_visits(done, first, last, pace), numbers, done.trials, path)


def say_visits(
    done: RolledOut,
    first: Interval | None,
    last: Interval | None,
    pace: dict[str, Interval | None],
) -> str:
    """Say how much of a room is visited, and whether finding the goal changes it."""
    text = (
        f"`{done.method}` visits {percent(first)} of a room's cells in trial 1 and "
        f"{percent(last)} in {done.trials.count} trials together."
    )
    before, after = pace["before_success"], pace["after_success"]
    if before is None or after is None:
        return f"{text} No task was solved, so nothing changes." if after is None else text
    change = "it stops exploring" if after.high < before.low else "it goes on exploring"
    return (
        f"{text} A trial before the first success visits {percent(before)} of the cells, one after "
        f"it {percent(after)}: {change}."
    )


def draw_visits(done: RolledOut, visits: Visits, path: Path) -> Path:
    """Draw maps of some tasks, and the share of cells visited by trial."""
    spans, shown = trial_spans(done.trials.count), shown_tasks(done)
    figure = style.canvas(2.05 * (len(spans) + 1.7), 2.2 * len(shown))
    grid = figure.add_gridspec(len(shown), len(spans) + 1, width_ratios=[1.0] * len(spans) + [1.7])
    for row, slot in enumerate(shown):
        axes = [figure.add_subplot(grid[row, column]) for column in range(len(spans))]
        draw_maps(axes, done, visits, slot)
    draw_share(figure.add_subplot(grid[:, -1]), visits)
    title = f"Where {done.method} goes on {done.trials.suite.name}"
    note = (
        "maps: visits of the tasks with the lowest, the median and the highest score, darker is "
        "more often; circle: start, diamond: hidden goal; line: mean over tasks, thin: tasks"
    )
    return style.save(figure, path, title, note)


def trial_spans(count: int) -> list[tuple[int, int]]:
    """Cut the trials into a few parts, and add all of them together at the end."""
    edges = np.unique(np.linspace(0, count, min(SPANS, count) + 1).round().astype(int)).tolist()
    parts = list(pairwise(edges))
    return [*parts, (0, count)] if len(parts) > 1 else parts


def shown_tasks(done: RolledOut) -> list[int]:
    """Choose the tasks with the lowest, the median and the highest score."""
    order = np.argsort(late_score(done.returns), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(SHOWN_TASKS, len(order))).astype(int))
    return [int(order[place]) for place in places]


def draw_maps(panels: Sequence[Axes], done: RolledOut, visits: Visits, slot: int) -> None:
    """Draw one task: a map for each part of its trials."""
    for axes, (start, stop) in zip(panels, trial_spans(done.trials.count), strict=True):
        amount = visits.counts[slot, start:stop].sum(axis=0)
        name = f"trial {stop}" if stop - start == 1 else f"trials {start + 1}-{stop}"
        head = f"task {done.trials.tasks[slot]}, {name}" if start == 0 else name
        draw_room(axes, done.room(slot), head)
        draw_heat(axes, np.log1p(amount))


def draw_share(axes: Axes, visits: Visits) -> None:
    """Draw the share of cells visited so far, by trial."""
    share = visits.share_by_trial  # [task, trial]
    trial = np.arange(1, share.shape[1] + 1)
    axes.plot(trial, share.T, color=style.FAINT, linewidth=0.8)
    axes.plot(trial, share.mean(axis=0), color=style.colour_of("ra-dt+"), linewidth=1.9)
    style.plain_axes(axes, "share of cells visited so far", "trial")
    axes.set_xlim(1, max(2, len(trial)))
    axes.set_ylim(0.0, 1.05)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
