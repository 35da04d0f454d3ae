"""What is retrieved: from whom, how similar, how good, and how that changes from trial to trial.

At work an agent searches only its own trials of the task. To see whether its keys would
find the task by themselves, the same question is also asked of the memories of all tasks together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from radt.agent import Agent
from radt.analyses.shared import (
    Finding,
    RolledOut,
    mean_by,
    nothing_retrieved,
    over_tasks,
    percent,
    record_trials,
    retrieving,
)
from radt.memory.memory import Memory
from radt.methods import Method
from radt.methods.ra_dt import RADTActor
from radt.metrics import Interval
from radt.plots import style
from radt.runs.roll_out import Trials
from radt.track import Tracker
from radt.trajectory import Retrieval

MIDDLE = (0.1, 0.9)
EVERY = 7  # of the searches at so many steps of a trial one is looked at
BANDED = ("relevance", "earned")
LINES = (style.colour_of("ra-dt+"), style.colour_of("dt"))


@dataclass(frozen=True)
class Searches:
    """What searches found, one row each."""

    task: NDArray[Any]  # [N]
    trial: NDArray[Any]  # [N] from 0
    own: NDArray[Any]  # [N] 1 where the choice is of the own task
    own_if_free: NDArray[Any]  # [N] the same, had all tasks been searched
    relevance: NDArray[Any]  # [N] of the choice
    found_relevance: NDArray[Any]  # [N] mean of all that was found
    earned: NDArray[Any]  # [N] return of the trial that the choice is from
    found_earned: NDArray[Any]  # [N] mean of all that was found
    best_earned: NDArray[Any]  # [N] the best that the own memory holds
    ago: NDArray[Any]  # [N] trials between the choice and now

    def __len__(self) -> int:
        return len(self.task)

    @property
    def is_best(self) -> NDArray[Any]:
        """Where nothing in the own memory earned more than the choice, [N]."""
        return np.asarray(self.earned >= self.best_earned, dtype=np.float64)

    def overall(self, name: str) -> Interval | None:
        """Average a column, each task counting once, with 95 % over tasks."""
        return over_tasks(mean_by(self.task, getattr(self, name)))

    def by_trial(self, name: str, trials: int) -> NDArray[np.float64]:
        """Average a column over the searches of each trial, [trial]; nan where there is none."""
        return np.array(
            [values.mean() if values.size else np.nan for values in self._of(name, trials)]
        )

    def spread(self, name: str, trials: int) -> NDArray[np.float64]:
        """Return the bounds of the middle 80 % of a column in each trial, [2, trial]."""
        none = np.full(2, np.nan)
        parts = self._of(name, trials)
        return np.array([np.quantile(v, MIDDLE) if v.size else none for v in parts]).T

    def _of(self, name: str, trials: int) -> list[NDArray[Any]]:
        values = getattr(self, name)
        return [values[self.trial == trial] for trial in range(trials)]


class SearchKeeper:
    """Keeps what searches found at every seventh step of every trial."""

    def __init__(self, context_len: int, trials: int) -> None:
        self.context_len, self.trials = context_len, trials
        self.rows: list[dict[str, NDArray[Any]]] = []

    def after_step(self, step: int, agent: Agent, obs: NDArray[Any], rewards: NDArray[Any]) -> None:
        retrieval, memory = agent.retrieval, agent.memory
        if retrieval is None or memory is None:
            return
        steps = agent.trials.step[agent.query_slots]
        due = agent.is_acting[agent.query_slots] & (steps % EVERY == 0)
        due &= (retrieval.chosen[:, -1] >= 0).numpy()
        due &= agent.trials.trial[agent.query_slots] < self.trials  # who is early goes on unseen
        if due.any():
            self.rows.append(self._look(agent, retrieval, memory, np.flatnonzero(due)))

    def _look(
        self, agent: Agent, retrieval: Retrieval, memory: Memory, rows: NDArray[np.int64]
    ) -> dict[str, NDArray[Any]]:
        entries, slots = memory.entries, agent.query_slots[rows]
        ids, chosen = retrieval.ids[rows], retrieval.chosen[rows, -1]  # [B, m], [B] the best of k
        present = ids >= 0
        count = present.sum(dim=1)
        earned = entries.total_return[ids.clamp_min(0)] * present
        relevance = torch.where(present, retrieval.relevance[rows], 0.0)
        is_chosen = present & (ids == chosen[:, None])
        mine = torch.from_numpy(slots)
        best = [entries.total_return[entries.task == slot].max() for slot in mine]
        columns = {
            "own": entries.task[chosen] == mine,
            "own_if_free": self._free_choice(agent, memory, slots) == mine,
            "relevance": (relevance * is_chosen).sum(dim=1) / is_chosen.sum(dim=1),
            "found_relevance": relevance.sum(dim=1) / count,
            "earned": entries.total_return[chosen],
            "found_earned": earned.sum(dim=1) / count,
            "best_earned": torch.stack(best),
            "ago": torch.from_numpy(agent.trials.trial[slots]) - entries.age[chosen],
        }
        facts = {"task": np.array(agent.tasks)[slots], "trial": agent.trials.trial[slots].copy()}
        return facts | {name: column.numpy().astype(np.float64) for name, column in columns.items()}

    def _free_choice(self, agent: Agent, memory: Memory, slots: NDArray[np.int64]) -> Tensor:
        """Return whose chunk each slot would choose if it searched the memories of all, [B]."""
        vectors = memory.embedder(agent.trials.recent(slots, self.context_len))
        mine, steps = (torch.from_numpy(c) for c in (slots, agent.trials.step[slots]))
        now = agent.actor.now(agent.trials, slots) if isinstance(agent.actor, RADTActor) else None
        found = memory.retrieve(vectors, mine, steps, own_task_only=False, now=now)
        chosen = found.chosen[:, -1]
        return memory.entries.task[chosen]

    def searches(self) -> Searches:
        names = Searches.__dataclass_fields__
        return Searches(**{n: np.concatenate([row[n] for row in self.rows]) for n in names})


def retrieval_numbers(done: RolledOut, searches: Searches) -> dict[str, Any]:
    """Put what was found into plain values."""
    trials = done.trials
    names = [n for n in (*Searches.__dataclass_fields__, "is_best") if n not in ("task", "trial")]
    return {
        "method": done.method,
        "searches": len(searches),
        "chance_of_own_task": 1.0 / len(trials.tasks),
        **{name: searches.overall(name) for name in names},
        "by_trial": {name: _known(searches.by_trial(name, trials.count)) for name in names},
        "middle_80_by_trial": {
            name: [_known(bound) for bound in searches.spread(name, trials.count)]
            for name in BANDED
        },
    }


def _known(means: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(mean) else float(mean) for mean in means]


def say_retrieval(done: RolledOut, searches: Searches) -> str:
    """Say from whom chunks come, how similar and how good they are, and how that changes."""
    tasks, trials = len(done.trials.tasks), done.trials.count
    own, free, best = (searches.overall(name) for name in ("own", "own_if_free", "is_best"))
    means = (searches.by_trial(name, trials) for name in ("earned", "relevance"))
    earned, similar = (mean[~np.isnan(mean)] for mean in means)
    return (
        f"`{done.method}` retrieves from its own task in {percent(own)} of {len(searches):,} "
        f"searches, as it searches no other; among the memories of all {tasks} tasks it would in "
        f"{percent(free)} ({1 / tasks:.0%} by chance). The chosen chunk is of the best trial so "
        f"far in {percent(best)}. Its return goes from {earned[0]:.1f} to {earned[-1]:.1f} over "
        f"the trials, its similarity from {similar[0]:.2f} to {similar[-1]:.2f}."
    )


def analyse_retrieval(
    method: Method, trials: Trials, path: Path, tracker: Tracker | None = None
) -> Finding:
    """Measure and draw what is retrieved."""
    keeper = SearchKeeper(retrieving(method).options.memory.context_len, trials.count)
    done = record_trials(method, trials, tracker, keeper)
    if not keeper.rows:
        raise nothing_retrieved(trials)
    searches = keeper.searches()
    draw_retrieval(done, searches, path)
    numbers = retrieval_numbers(done, searches)
    return Finding("retrieval", say_retrieval(done, searches), numbers, trials, path)


def draw_retrieval(done: RolledOut, searches: Searches, path: Path) -> Path:
    """Draw four panels: whose chunks, how similar, how good, and how old."""
    figure = style.canvas(11.2, 6.2)
    (whose, similar), (good, old) = figure.subplots(2, 2)
    trials = done.trials.count
    draw_columns(whose, searches, trials, {"own": "own memory", "own_if_free": "all memories"})
    whose.axhline(
        1.0 / len(done.trials.tasks), color=style.INK, linewidth=0.9, linestyle=style.OPTIMUM
    )
    style.plain_axes(whose, "share of choices from the own task, by what is searched", "trial")
    whose.yaxis.set_major_formatter("{x:.0%}")
    whose.set_ylim(0.0, 1.08)
    draw_columns(similar, searches, trials, {"relevance": "chosen", "found_relevance": "found"})
    style.plain_axes(similar, "cosine similarity to the query", "trial")
    draw_columns(good, searches, trials, {"earned": "chosen", "found_earned": "found"})
    best = searches.by_trial("best_earned", trials)
    good.plot(
        np.arange(1, trials + 1), best, color=style.INK, linewidth=0.9, linestyle=style.OPTIMUM
    )
    style.plain_axes(
        good, "return of the trial that a chunk is from (dashes: best in memory)", "trial"
    )
    draw_ages(old, searches, trials)
    title = f"What {done.method} retrieves on {done.trials.suite.name}"
    note = (
        "lines: mean over searches and tasks; bands: the middle 80 % of what is chosen; found: all "
        "candidates of a search; upper left, dashes: chance; lower right: darker is more often"
    )
    return style.save(figure, path, title, note)


def draw_columns(axes: Axes, searches: Searches, trials: int, names: dict[str, str]) -> None:
    """Draw the means of some columns by trial, each named at its end, and how they spread."""
    trial, ends = np.arange(1, trials + 1), []
    for (name, label), colour in zip(names.items(), LINES, strict=True):
        mean, (low, high) = searches.by_trial(name, trials), searches.spread(name, trials)
        if name in BANDED:
            axes.fill_between(trial, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.plot(trial, mean, color=colour, linewidth=1.9)
        ends.append(style.End(label, trials, float(mean[~np.isnan(mean)][-1]), colour))
    axes.set_xlim(1, max(2, trials))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    style.name_ends(axes, ends)


def draw_ages(axes: Axes, searches: Searches, trials: int) -> None:
    """Draw from which trial chunks are taken in each trial."""
    counts = np.zeros((trials, trials))  # [from, now]
    source = (searches.trial - searches.ago).astype(int)
    np.add.at(counts, (source, searches.trial.astype(int)), 1.0)
    share = counts / np.maximum(counts.sum(axis=0, keepdims=True), 1.0)
    shown = np.ma.masked_equal(share, 0.0)
    extent = (0.5, trials + 0.5, 0.5, trials + 0.5)
    axes.imshow(
        shown, cmap="Blues", vmin=-0.1, vmax=1.0, origin="lower", extent=extent, aspect="auto"
    )
    style.plain_axes(axes, "the trial that the chosen chunk is from", "trial")
    axes.grid(visible=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True))
