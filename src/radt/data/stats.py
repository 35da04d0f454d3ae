"""The dataset card: how large a dataset is, and what was learned while it was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radt.data.reader import Dataset, Episodes
from radt.spaces import LARGEST

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class DatasetCard:
    """What one wants to know of a dataset before training on it."""

    env: str
    split: str
    source: str
    seed: int
    sha256: str
    tasks: int
    episodes: int  # complete ones
    transitions: int  # with those after the last complete episode
    bytes: int  # of all arrays, unpacked
    return_by_tenth: tuple[float | None, ...]  # mean over episodes, by tenth of their history
    return_quantiles: tuple[float, ...]  # at QUANTILES; empty without episodes
    length_quantiles: tuple[float, ...]
    coverage: float | None  # share of cells that a task's history visits; discrete states only

    def __post_init__(self) -> None:
        told = {len(self.return_quantiles), len(self.length_quantiles)}
        if told - {0, len(QUANTILES)} or any(abs(x or 0) > LARGEST for x in self.return_by_tenth):
            raise ValueError(
                f"returns are at most {LARGEST:g}, and {len(QUANTILES)} quantiles told"
            )


def card(dataset: Dataset) -> DatasetCard:
    """Measure the chosen tasks of a dataset."""
    manifest, episodes = dataset.manifest, dataset.episodes
    files = [entry for entry in manifest.files if entry.task in set(dataset.tasks)]
    return DatasetCard(
        env=manifest.env,
        split=manifest.split,
        source=manifest.source,
        seed=manifest.seed,
        sha256=dataset.sha256,
        tasks=len(files),
        episodes=len(episodes),
        transitions=sum(entry.transitions for entry in files),
        bytes=sum(
            math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
            for entry in files
            for spec in entry.arrays
        ),
        return_by_tenth=_return_by_tenth(episodes),
        return_quantiles=_quantiles(episodes.total_return),
        length_quantiles=_quantiles(episodes.length),
        coverage=_coverage(dataset),
    )


def mean_and_best(episodes: Episodes) -> tuple[float, float]:
    """Return the mean and the highest return of a task's episodes, both averaged over tasks."""
    tasks = np.unique(episodes.task)
    means = [episodes.total_return[episodes.task == task].mean() for task in tasks]
    return float(np.mean(means)), float(np.mean([best_return(episodes, task) for task in tasks]))


def best_return(episodes: Episodes, task: int) -> float:
    """Return the highest return that any episode of a task has."""
    return float(episodes.total_return[episodes.task == task].max())


def render(card: DatasetCard) -> str:
    """Write a card as a few lines of text."""
    tenths = card.return_by_tenth
    known = [value for value in tenths if value is not None]
    ends = f"{known[0]:.4g} to {known[-1]:.4g}" if known else "no complete episode"
    lines = {
        "dataset": f"{card.env} ({card.split}), {card.source}, seed {card.seed}",
        "sha256": card.sha256,
        "tasks": f"{card.tasks:,}",
        "episodes": f"{card.episodes:,}",
        "transitions": f"{card.transitions:,}",
        "size": f"{card.bytes / 2**20:,.1f} MiB",
        "returns over time": f"{sparkline(tenths)}  {ends} (mean of each tenth)",
        "returns": _quantile_line(card.return_quantiles),
        "lengths": _quantile_line(card.length_quantiles),
    }
    if card.coverage is not None:
        lines["coverage"] = f"{card.coverage:.1%} of all cells visited, mean over tasks"
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())


def sparkline(
    values: Iterable[float | None], low: float | None = None, high: float | None = None
) -> str:
    """Draw numbers as bars of text from `low` to `high`; None: their own lowest and highest."""
    numbers = list(values)
    known = [value for value in numbers if value is not None]
    low = min(known, default=0.0) if low is None else low
    high = max(known, default=0.0) if high is None else high
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        " " if v is None else _BARS[round((min(max(v, low), high) - low) * scale)] for v in numbers
    )


def _return_by_tenth(episodes: Episodes) -> tuple[float | None, ...]:
    _, place, counts = np.unique(episodes.task, return_inverse=True, return_counts=True)
    tenth = episodes.index * 10 // counts[place] if len(episodes) else episodes.index  # [E]
    groups = (episodes.total_return[tenth == part] for part in range(10))
    return tuple(float(g.mean(dtype=np.float64)) if g.size else None for g in groups)


def _quantiles(values: NDArray[np.generic]) -> tuple[float, ...]:
    if not values.size:
        return ()
    return tuple(np.quantile(values.astype(np.float64), QUANTILES).tolist())


def _quantile_line(values: tuple[float, ...]) -> str:
    pairs = zip(QUANTILES, values, strict=bool(values))
    return "  ".join(f"{quantile:.0%} {value:.4g}" for quantile, value in pairs)


def _coverage(dataset: Dataset) -> float | None:
    bins = dataset.spaces.state.bins
    cells = math.prod(bins)
    tasks = np.unique(dataset.episodes.task)
    if dataset.spaces.state.kind != "discrete" or cells >= 2**62 or not tasks.size:
        return None
    shares = []
    for task in tasks.tolist():
        states = dataset.history(task).states.reshape(-1, len(bins))  # [N, coordinates]
        visited = np.unique(np.ravel_multi_index(tuple(states.T.astype(np.int64)), bins))
        shares.append(len(visited) / cells)
    return float(np.mean(shares))
