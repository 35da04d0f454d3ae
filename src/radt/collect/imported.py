"""The sources `npz` and `minari`: histories that exist already, read from files.

`npz` tells by their arrays what files are:

| arrays                                       | what a file is                                    |
|----------------------------------------------|---------------------------------------------------|
| `states, actions, rewards, lengths[, tasks]` | episodes one after the other, as radt writes them |
| `observations, actions, rewards, dones`      | the steps of one task, cut at `dones`             |
| `states[_encoded], actions, rewards`         | one episode                                       |

The last two are how the paper's authors publish grids (`.npz`, a file per task) and Procgen (HDF5,
a file per episode, a folder per task). Where files do not say their tasks, files or folders are
those of a split, in the order of their names. Steps after the last complete episode are left out.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radt.collect.source import (
    SOURCES,
    CollectError,
    CollectProgress,
    Forecast,
    Recorded,
    Request,
    SourceEntry,
)
from radt.data import History
from radt.data.foreign import HDF5, PICKLES, read_arrays
from radt.data.manifest import ArraySpec, array_specs
from radt.data.minari import from_minari
from radt.data.store import as_stored
from radt.envs.suite import TaskSuite, splits_of
from radt.spaces import TaskSpaces

STEPS = ("states", "states_encoded", "observations", "actions", "rewards")
NAMES = (*STEPS, "dones", "lengths", "tasks")
SECONDS_PER_BYTE = 1e-8
Values = NDArray[Any]


@dataclass(frozen=True)
class NpzOptions:
    """Which files are read."""

    seed: int = 0  # of the dataset; what is read does not depend on it
    path: str = ""  # a file, or a folder with files, also in folders inside it
    split: str = "train"  # whose tasks files or folders are that do not say theirs; or "all"


@dataclass(frozen=True)
class MinariOptions:
    """Which dataset is read."""

    seed: int = 0  # of the dataset; what is read does not depend on it
    dataset_id: str = ""  # e.g. D4RL/pointmaze/umaze-v2
    path: str = ""  # the folder that holds it; empty: where Minari keeps its datasets
    task: int | None = None  # of all episodes; null: each says its own, or is of task 0


@dataclass(frozen=True)
class Episode:
    """A complete episode as a file has it."""

    file: Path | str
    number: int  # in the file
    task: int
    states: Values  # [T, ...]
    actions: Values  # [T, ...]
    rewards: Values  # [T, ...]


def record_npz(request: Request) -> Recorded:
    """Read the files of one task after the other."""
    suite, options = request.suite, request.options
    tasks, units = tasks_of(suite)[options.split], file_units(Path(options.path))
    if len(units) > len(tasks):
        raise CollectError(
            f"{options.path}: {len(units)} files or folders are more than the {len(tasks)} tasks "
            f"of the split {options.split!r}; choose another with collect.split"
        )

    def read() -> Iterator[list[Episode]]:
        for task, files in zip(tasks, units, strict=False):
            if task in suite.train_tasks:  # unseen ones stay unseen
                yield [one for file in files for one in read_file(file, task, suite.spaces)]

    return Recorded(_histories(request, read()))


def tasks_of(suite: TaskSuite) -> dict[str, tuple[int, ...]]:
    """Return the tasks of each split, and all of them in order."""
    return {"all": tuple(sorted({*suite.train_tasks, *suite.eval_tasks})), **splits_of(suite)}


def record_minari(request: Request) -> Recorded:
    """Read the dataset's episodes, and put them together by task."""
    options, name = request.options, request.options.dataset_id
    episodes = []
    for number, found in enumerate(from_minari(name, Path(options.path) if options.path else None)):
        task = found.task if options.task is None else options.task
        steps = (found.states, found.actions, found.rewards)
        episodes.append(Episode(name, number, task, *steps))
    return Recorded(_histories(request, [episodes]))


def _histories(request: Request, units: Iterable[Sequence[Episode]]) -> Iterator[History]:
    """Yield the history of each task of each unit, checked, and tell how it goes."""
    done, earned, count = 0, 0.0, 0
    for episodes in units:
        by_task: defaultdict[int, list[Episode]] = defaultdict(list)
        for episode in episodes:
            by_task[episode.task].append(episode)
        for own in by_task.values():
            history = joined(own, request.suite)
            yield history
            done, count = done + len(history.rewards), count + len(history.lengths)
            earned += float(history.rewards.sum(dtype=np.float64))
            request.report(CollectProgress(done, done, earned / count))


def file_units(path: Path) -> list[list[Path]]:
    """Cut files into units: each `.npz` by itself, HDF5 files by the folder that they are in."""

    def natural(file: Path) -> list[Any]:
        return [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", str(file))]

    if path.is_file():
        return [[path]]
    suffixes = (".npz", *HDF5, *PICKLES)
    files = sorted((f for f in path.rglob("*") if f.suffix in suffixes), key=natural)
    if not files:
        raise CollectError(
            f"there are no .npz and no HDF5 files in {path}; say where: collect.path"
        )

    def unit(file: Path) -> Path:
        return file.parent if file.suffix in HDF5 else file

    return [list(group) for _, group in itertools.groupby(files, unit)]


def read_file(file: Path, task: int, spaces: TaskSpaces) -> list[Episode]:
    """Read a file, in whichever way it is written; `task` is whose it is, unless it says."""
    arrays = read_arrays(file, NAMES)
    encoded = spaces.state.kind == "encoded" and "states_encoded" in arrays
    seen = "states_encoded" if encoded else "states" if "states" in arrays else "observations"
    if missing := [name for name in (seen, "actions", "rewards") if name not in arrays]:
        raise CollectError(
            f"{file} has no {' and no '.join(missing)}, only {sorted(arrays)}; save it with "
            "np.savez(file, observations=..., actions=..., rewards=..., dones=...)"
        )
    steps = [np.atleast_1d(arrays[name]) for name in (seen, "actions", "rewards")]
    if len({len(values) for values in steps}) > 1:
        shapes = [values.shape for values in steps]
        raise CollectError(f"{file} must have as many states as actions and rewards, not {shapes}")
    lengths = episode_lengths(file, arrays, seen)
    tasks = arrays.get("tasks", np.full(len(lengths), task))
    if tasks.shape != lengths.shape or tasks.dtype.kind not in "iu":
        raise CollectError(f"{file}: tasks must be one whole number for each episode")
    ends = np.cumsum(lengths)
    parts = [np.split(values, ends)[:-1] for values in steps]  # without what follows the last end
    numbered = enumerate(zip(tasks.tolist(), *parts, strict=True))
    return [Episode(file, number, *episode) for number, episode in numbered]


def episode_lengths(file: Path, arrays: Mapping[str, Values], seen: str) -> Values:
    """Return how long a file's episodes are, [E]."""
    count = len(arrays["rewards"])
    if "lengths" in arrays:
        lengths = arrays["lengths"]
        if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.sum() > count:
            raise CollectError(f"{file}: lengths must be those of episodes within {count} steps")
        return lengths
    if seen != "observations":
        return np.array([count])
    if "dones" not in arrays or arrays["dones"].size != count:
        raise CollectError(f"{file}: {count} steps need as many `dones`, which end episodes")
    return np.diff(np.flatnonzero(arrays["dones"]), prepend=-1)


def joined(episodes: Sequence[Episode], suite: TaskSuite) -> History:
    """Lay the episodes of a task one after the other."""
    first, spaces = episodes[0], suite.spaces
    if first.task not in suite.train_tasks:
        raise CollectError(
            f"{first.file}, episode {first.number}: task {first.task} is none of the training "
            f"tasks of {suite.name!r}, such as {suite.train_tasks[:3]}; change the file, or "
            "choose with collect.split (npz) or collect.task (minari)"
        )
    fitted = [fit(episode, spaces) for episode in episodes]
    states, actions, rewards = (np.concatenate(column) for column in zip(*fitted, strict=True))
    lengths = np.array([len(episode.rewards) for episode in episodes], np.int32)
    return History(first.task, states, actions, rewards, lengths)


def fit(episode: Episode, spaces: TaskSpaces) -> list[Values]:
    """Bring an episode's arrays to the spaces' shapes and types."""
    where = f"{episode.file}: task {episode.task}, episode {episode.number}"
    if not 1 <= len(episode.rewards) <= spaces.horizon:
        steps = f"{len(episode.rewards)} steps are not 1 to {spaces.horizon}, the horizon"
        raise CollectError(f"{where}: {steps}")
    found = []
    for spec in array_specs(spaces, len(episode.rewards), 1)[:3]:  # without the lengths
        values = as_numbers(np.asarray(getattr(episode, spec.name)), spec)
        try:
            found.append(as_stored(values, spec, spaces))
        except ValueError as error:
            raise CollectError(f"{where}: {error}") from error
    return found


def as_numbers(values: Values, spec: ArraySpec) -> Values:
    """Leave out axes of one entry, and make whole numbers of floats that are."""
    inner = tuple(size for size in values.shape[1:] if size != 1)
    if inner == tuple(size for size in spec.shape[1:] if size != 1):
        values = values.reshape(len(values), *spec.shape[1:])
    if np.dtype(spec.dtype).kind in "iu" and values.dtype.kind == "f":
        whole = np.nan_to_num(values).astype(np.int64)
        values = whole if (whole == values).all() else values
    return values


def check_npz(suite: TaskSuite, options: NpzOptions) -> None:
    """Refuse a path that is not there, and a split that the suite does not have."""
    if not options.path or not Path(options.path).exists():
        raise ValueError(f"there is no file or folder {options.path!r}; say where: collect.path")
    if options.split not in tasks_of(suite):
        raise ValueError(f"{suite.name!r} has no split {options.split!r}: {list(tasks_of(suite))}")


def check_minari(suite: TaskSuite, options: MinariOptions) -> None:
    """Refuse a dataset without a name."""
    if not options.dataset_id:
        raise ValueError("say which dataset is read: collect.dataset_id; `minari list local`")


def forecast_files(bytes_of: Callable[[Any], int]) -> Callable[[TaskSuite, Any], Forecast]:
    """Expect as many steps as files have room for."""

    def forecast(suite: TaskSuite, options: Any) -> Forecast:
        size, spaces = bytes_of(options), suite.spaces
        step = sum(
            np.dtype(s.dtype).itemsize * int(np.prod(s.shape)) for s in array_specs(spaces, 1, 1)
        )
        return Forecast(len(suite.train_tasks), size // step, size * SECONDS_PER_BYTE)

    return forecast


def _bytes_at(options: NpzOptions) -> int:
    if not Path(options.path).exists():
        return 0
    return sum(file.stat().st_size for unit in file_units(Path(options.path)) for file in unit)


SOURCES.register(
    "npz", SourceEntry(NpzOptions, record_npz, forecast_files(_bytes_at), check=check_npz)
)
SOURCES.register(
    "minari",
    SourceEntry(MinariOptions, record_minari, forecast_files(lambda _: 0), check=check_minari),
)
