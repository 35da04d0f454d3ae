"""What is retrieved, on a figure: whose chunks, how similar, how good, and how old."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from radt.analyses.finding import Finding
from radt.analyses.moments import retrieving
from radt.analyses.relive import Lives, relive
from radt.analyses.retrieval import Searches, SearchKeeper, numbers, verdict
from radt.experiments.evaluate import Trials
from radt.methods import Method
from radt.plots import style
from radt.plots.style import INK, OPTIMUM
from radt.track import Tracker

BANDED = ("relevance", "earned")
LINES = (style.colour_of("ra-dt+"), style.colour_of("dt"))


def analyse_retrieval(
    method: Method, trials: Trials, path: Path, tracker: Tracker | None = None
) -> Finding:
    """Measure and draw what is retrieved."""
    keeper = SearchKeeper(retrieving(method).options.memory.context_len)
    lives = relive(method, trials, tracker, keeper)
    searches = keeper.searches()
    draw(lives, searches, path)
    words = verdict(lives, searches)
    return Finding("retrieval", words, numbers(lives, searches), trials, path)


def draw(lives: Lives, searches: Searches, path: Path) -> Path:
    """Draw four panels: whose chunks, how similar, how good, and how old."""
    figure = style.canvas(11.2, 6.2)
    (whose, similar), (good, old) = figure.subplots(2, 2)
    trials = lives.trials.count
    draw_columns(whose, searches, trials, {"own": "own memory", "own_if_free": "all memories"})
    whose.axhline(1.0 / len(lives.trials.tasks), color=INK, linewidth=0.9, linestyle=OPTIMUM)
    style.plain_axes(whose, "share of choices from the own task, by what is searched", "trial")
    whose.yaxis.set_major_formatter("{x:.0%}")
    whose.set_ylim(0.0, 1.08)
    draw_columns(similar, searches, trials, {"relevance": "chosen", "found_relevance": "found"})
    style.plain_axes(similar, "cosine similarity to the query", "trial")
    draw_columns(good, searches, trials, {"earned": "chosen", "found_earned": "found"})
    best = searches.by_trial("best_earned", trials)
    good.plot(np.arange(1, trials + 1), best, color=INK, linewidth=0.9, linestyle=OPTIMUM)
    style.plain_axes(
        good, "return of the trial that a chunk is from (dashes: best in memory)", "trial"
    )
    draw_ages(old, searches, trials)
    title = f"What {lives.method} retrieves on {lives.trials.suite.name}"
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
