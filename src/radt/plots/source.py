"""What is known of the data that a run learned from, and how well their source learned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from radt.config import RunConfig
from radt.data import DataError, Dataset, DatasetCard, card
from radt.data.manifest import MANIFEST
from radt.decode import read_json
from radt.envs.suite import SUITES
from radt.files import atomic_write
from radt.methods import METHODS
from radt.metrics import decimals
from radt.old_names import translated
from radt.plots.records import DATA
from radt.plots.style import OPTIMUM, SPARE_COLOURS, End, Picture, name_ends, plain_axes
from radt.runs.run import dataset_path

POINTS = 50
LEARNED = 0.5  # of a task's best return, in the last tenth of its history
TITLE = "What the data source earned while it learned"
NOTE = (
    "lines: mean over tasks; bands: the middle 80 % of tasks; numbers: last tenth of the "
    "transitions"
)
OPTIMA = "; dashes: the best that is possible"


@dataclass(frozen=True)
class SourceCurve:
    """The mean return over the histories of one dataset's tasks, and how it ends."""

    label: str
    env: str
    sha256: str
    tasks: int
    transitions: tuple[int, ...]  # of each task, at the end of each stretch
    mean: tuple[float, ...]  # over the tasks
    low: tuple[float, ...]  # a tenth of the tasks is below
    high: tuple[float, ...]  # a tenth of the tasks is above
    last_tenth: float  # mean return in the last tenth of each history's transitions
    optimum: float | None
    learned: float | None  # share of tasks that end above LEARNED of their best return

    def __post_init__(self) -> None:
        counts = {len(column) for column in (self.transitions, self.mean, self.low, self.high)}
        if len(counts) > 1 or 0 in counts:
            raise ValueError("a curve has as many values below and above its mean as points")

    @property
    def digits(self) -> int:
        return decimals(self.optimum, *self.mean)


def source_curve(dataset: Dataset, points: int | None = None) -> SourceCurve:
    """Cut histories into stretches of equally many transitions and take their means.

    There are POINTS of them, or as many as the shortest history has episodes.
    """
    manifest, tasks = dataset.manifest, dataset.tasks
    fewest = min(int((dataset.episodes.task == task).sum()) for task in tasks)
    points = points or min(POINTS, max(fewest, 2))
    lengths = {entry.task: entry.transitions for entry in manifest.files}
    steps = max(lengths.values())
    ends = np.arange(1, points + 1) * steps // points  # [points] transitions
    returns = np.stack([stretches(dataset, task, ends) for task in tasks])  # [tasks, points]
    late = np.array([last_tenth(dataset, task, lengths[task]) for task in tasks])  # [tasks]
    best = [SUITES[manifest.env].optimal_return(task) for task in tasks]
    known = np.array([value for value in best if value is not None])
    whole = len(known) == len(tasks)
    low, high = np.quantile(returns, (0.1, 0.9), axis=0)
    source = "" if manifest.source == "ppo" else f", {manifest.source}"  # the usual one of rooms
    options = translated(manifest.hyper_parameters, ("privileged",))
    return SourceCurve(
        label=manifest.env + source + (", privileged" if options.get("privileged") else ""),
        env=manifest.env,
        sha256=dataset.sha256,
        tasks=len(tasks),
        transitions=tuple(ends.tolist()),
        mean=tuple(returns.mean(axis=0).tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        last_tenth=float(late.mean()),
        optimum=float(known.mean()) if whole else None,
        learned=float((late > LEARNED * known).mean()) if whole and (known > 0).all() else None,
    )


def stretches(dataset: Dataset, task: int, ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean return of the episodes that end in each stretch of a task's transitions.

    A stretch in which none ends has the value of the one before it, so a shorter history goes on
    as it ended; up to the end of the first episode there is only that one to tell of.
    """
    finished, returns = _ended(dataset, task)
    if len(returns) < len(ends):
        raise DataError(
            f"task {task} of {dataset.manifest.env} has {len(returns)} complete episodes, too few "
            f"for a curve of {len(ends)} points; collect more transitions"
        )
    places = np.searchsorted(ends, finished)  # [episodes] the stretch that each ends in
    means = np.empty(len(ends))
    last = returns[0]
    for place in range(len(ends)):
        inside = returns[places == place]
        last = means[place] = inside.mean() if len(inside) else last
    return means


def last_tenth(dataset: Dataset, task: int, steps: int) -> float:
    """Return the mean return of the episodes that end in the last tenth of a task's transitions."""
    finished, returns = _ended(dataset, task)
    late = returns[10 * finished > 9 * steps]
    return float(late.mean() if len(late) else returns[-1])


def _ended(dataset: Dataset, task: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return after how many transitions each complete episode of a task ended, and its return."""
    own = dataset.episodes.rows(dataset.episodes.task == task)
    return own.start + own.length, own.total_return.astype(np.float64)


def draw_source(datasets: Sequence[Dataset], path: Path) -> list[SourceCurve]:
    """Draw the curves of several datasets into one picture, with the numbers beside it as JSON."""
    curves = [source_curve(dataset) for dataset in datasets]
    source_picture(curves).save(path)
    content = json.dumps([asdict(curve) for curve in curves], indent=1) + "\n"
    atomic_write(path.with_suffix(".json"), content.encode())
    return curves


def source_picture(curves: Sequence[SourceCurve]) -> Picture:
    """Show what the sources of some data earned while they were recorded."""
    known = OPTIMA if any(curve.optimum is not None for curve in curves) else ""
    return Picture([partial(draw_curves, curves=curves)], TITLE, NOTE + known, (8.6, 3.9))


def draw_curves(axes: Axes, curves: Sequence[SourceCurve]) -> None:
    """Draw mean and band of each curve, and the best return that is possible there."""
    ends = []
    for number, curve in enumerate(curves):
        colour = SPARE_COLOURS[number % len(SPARE_COLOURS)]
        steps = curve.transitions
        axes.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.10, linewidth=0)
        axes.plot(steps, curve.mean, color=colour, linewidth=1.9)
        if curve.optimum is not None:
            axes.axhline(curve.optimum, color=colour, linewidth=0.8, linestyle=OPTIMUM)
        label = f"{curve.label}  {curve.last_tenth:.{curve.digits}f}"
        ends.append(End(label, steps[-1], curve.mean[-1], colour))
    plain_axes(axes, "return of an episode", "transitions of a task")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(0, max(curve.transitions[-1] for curve in curves))
    if min(min(curve.low) for curve in curves) >= 0:
        axes.set_ylim(bottom=0.0)
    name_ends(axes, ends)


@dataclass(frozen=True)
class DataFacts:
    """What is known of a run's dataset without having it."""

    card: DatasetCard
    curve: SourceCurve | None  # None where its histories are too short for one

    @property
    def picture(self) -> str:
        return f"source-{self.card.sha256[:8]}.png"


def data_facts(config: RunConfig, folder: Path) -> DataFacts | None:
    """Return what is known of a run's data: from its folder, or measured where they lie here."""
    file, source = folder / DATA, dataset_path(config)
    if not METHODS[config.method].learns:
        return None
    if file.exists():
        return read_json(file, DataFacts, "delete it, and it is measured again")
    return facts_of(Dataset.open(source)) if (source / MANIFEST).is_file() else None


def keep_data_facts(config: RunConfig, folder: Path) -> None:
    """Write what is known of a run's data beside its result, so that it is known elsewhere, too."""
    facts = data_facts(config, folder)
    if facts is not None and not (folder / DATA).exists():
        atomic_write(folder / DATA, (json.dumps(asdict(facts)) + "\n").encode())


def facts_of(dataset: Dataset) -> DataFacts:
    """Measure a dataset and how its source learned."""
    try:
        curve = source_curve(dataset)
    except DataError:
        curve = None
    return DataFacts(card(dataset), curve)
