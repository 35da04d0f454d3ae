"""What a run is: its config, its folder, its tasks, its dataset and its method.

Every phase looks first at what is already there, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from radt.agent import Target
from radt.checkpoint import Card, EmbedderCard, read_card
from radt.collect import record_histories
from radt.config import FOLDS, PLUGINS, TRAINING_TASKS, RunConfig, from_json
from radt.data import Dataset, dataset_folder, read_manifest
from radt.data.manifest import MANIFEST
from radt.data.stats import best_return
from radt.decode import decode, differences, named, read_json
from radt.distributed import SINGLE_PROCESS, ProcessGroup
from radt.engine import Engine
from radt.envs.suite import SUITES, TaskSuite, splits_of, task_targets_of, twins_of
from radt.errors import RadtWarning
from radt.errors import RunError as RunError
from radt.files import atomic_write
from radt.learn import INTERVALS
from radt.memory.language import LanguageEmbedder
from radt.methods import METHODS, Method, build_method
from radt.methods.exploration import with_exploration
from radt.model.encoders import EncoderCard
from radt.registry import plugin_changes, plugins_behind, with_plugins
from radt.runs.presets import changed, in_flags, usual_recipe
from radt.track import JsonLines, Sink, Tracker
from radt.version import code_version

CHECKPOINT = "model.safetensors"
RESULT = "icl.json"
THREADS = "choices.json"
MOST_THREADS = 4096
THREADS_LOST = "delete it, and the run goes on with the threads that are asked for now"
FURTHER = ("rules", "controls", "also_on")  # what else the weights are evaluated under


@dataclass(frozen=True)
class Run:
    """A run's folder and config, and where progress is logged."""

    config: RunConfig
    out: Path
    quiet: bool = True
    sinks: tuple[Sink, ...] = ()
    threads: int | None = None  # as asked for; None: all
    device: str = "cpu"  # where networks compute
    group: ProcessGroup = SINGLE_PROCESS  # the processes that train together

    def tracker(self) -> Tracker:
        """Log to the run's folder and show progress; of a process group only rank 0 does."""
        if not self.group.is_rank_zero:
            return Tracker()
        return Tracker((JsonLines(self.out / "log.jsonl"), *self.sinks), self.quiet)

    @property
    def suite(self) -> TaskSuite:
        return SUITES[self.config.env]

    @property
    def tasks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tasks to train on and those to be tested on."""
        train = known_tasks(self.config)
        if self.config.split == "final":
            return train, self.suite.eval_tasks
        size = len(train) // FOLDS
        first = len(train) - (FOLDS - self.config.fold) * size
        held_out = train[first : first + size]
        return tuple(task for task in train if task not in held_out), held_out


def keep_threads(run: Run) -> int:
    """Compute with as many threads as the run began with: sums depend on how many share them."""
    file = run.out / THREADS
    if file.exists():
        begun = read_json(file, dict[str, Any], THREADS_LOST, RunError)
        threads = begun.get("threads")
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            raise RunError(f"{file} is damaged (threads: {threads!r}); {THREADS_LOST}")
        if run.threads not in (None, threads):
            warnings.warn(
                f"{run.out} was begun with threads={threads} and goes on with them, not with "
                f"{run.threads}: sums depend on how many share them; choose another --out to change"
                " that",
                RadtWarning,
                stacklevel=3,
            )
    else:
        threads = run.threads or run.group.threads or torch.get_num_threads()
        atomic_write(file, (json.dumps({"threads": threads}) + "\n").encode())
    torch.set_num_threads(threads)
    return threads


def claim(run: Run) -> None:
    """Make the run's folder, or check that it belongs to the same config."""
    check_places(run)
    file = run.out / "config.json"
    if file.exists():
        before = _read_config(file)
        if changes := conflicts(before, run.config):
            raise RunError(
                f"{run.out} belongs to another run:\n  "
                + named(changes, "\n  ")
                + "\nChoose another --out, or give the same options to go on with that run."
            )
        _notice_other_plugins(run, _read_values(file).get(PLUGINS, {}))
        if before == run.config or (run.out / RESULT).exists():
            return  # otherwise it goes on with other intervals, and says so
    plugins = plugins_behind(run.config.names)
    values = run.config.to_json() | ({PLUGINS: plugins} if plugins else {})
    content = json.dumps(values, indent=2) + "\n"
    atomic_write(file, content.encode())


def _notice_other_plugins(run: Run, begun: dict[str, str]) -> None:
    """Refuse to go on with a run whose plug-ins have changed; of a finished one, say so."""
    changed = ", ".join(plugin_changes(begun, plugins_behind(run.config.names)))
    if changed and not (run.out / RESULT).exists():
        raise RunError(
            f"{run.out} was begun with another version of {changed}, so what is there and what "
            "would follow do not belong together; choose another --out, or bring that version back"
        )
    if changed:
        warnings.warn(
            f"{run.out} was made with another version of {changed}; choose another --out to see "
            "what the changed one does",
            RadtWarning,
            stacklevel=3,
        )


def check_places(run: Run) -> None:
    """Refuse to begin what would be evaluated on splits or environments that do not exist."""
    splits = [*splits_of(run.suite), TRAINING_TASKS]
    for place in run.config.evaluate.also_on:
        if place not in splits and place not in SUITES.names():
            raise RunError(
                f"evaluate.also_on names {place!r}, which is no split of {run.suite.name} "
                f"({', '.join(splits)}) and no environment; `radt envs` lists those"
            )


def conflicts(before: RunConfig, now: RunConfig) -> list[str]:
    """Say which values differ that decide the outcome.

    A method that learns nothing cares neither for training nor for data, unless it is tested on
    tasks of the data.
    """
    unused: tuple[str, ...] = ()
    if before.method == now.method and not METHODS[now.method].learns:
        tested = any(_tested_on_data(config) for config in (before, now))
        unused = ("learn",) if tested else ("learn", "source", "collect")
    old, new = (
        {
            name: value
            for name, value in outcome_values(config.to_json()).items()
            if name not in unused
        }
        for config in (before, now)
    )
    return differences(old, new)


def outcome_values(config: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a config's values what decides nothing about its returns.

    That is how often one looks, logs and saves, and where and how else weights are evaluated.
    """
    kept = {
        part: {name: value for name, value in config[part].items() if name not in unused}
        for part, unused in (("learn", INTERVALS), ("evaluate", FURTHER))
    }
    return config | kept


def _tested_on_data(config: RunConfig) -> bool:
    return config.split == "tune" or TRAINING_TASKS in config.evaluate.also_on


def _read_config(file: Path) -> RunConfig:
    try:
        return from_json(_read_values(file), where=str(file))
    except (ValueError, KeyError) as error:
        raise RunError(
            f"{file} is not the config of a run of this version ({error}); choose another --out"
        ) from error


def _read_values(file: Path) -> dict[str, Any]:
    values = read_json(file, dict[str, Any], "choose another --out", RunError)
    decode(dict[str, str], values.get(PLUGINS, {}), f"{file}: {PLUGINS}")
    return values


def collect(
    config: RunConfig, workers: int = 2, quiet: bool = True, engine: Engine | None = None
) -> Path:
    """Make the dataset that the config asks for, unless it exists, and return its folder."""
    suite, folder = SUITES[config.env], dataset_path(config)
    return record_histories(
        suite, config.collect, folder, workers, quiet=quiet, engine=engine, source=config.source
    )


def collect_command(config: RunConfig) -> str:
    """Write the command that makes the config's dataset."""
    changes = changed(config).items()
    own = {path: value for path, value in changes if path.split(".")[0] in ("source", "collect")}
    command = f"radt collect {config.env} --budget {config.budget}"
    return " ".join([with_plugins(command, config.names), *in_flags(own)])


def dataset_path(config: RunConfig) -> Path:
    """Name the dataset's folder."""
    recipe, source, seed = asdict(config.collect), config.source, config.collect.seed
    for budget, ending in (("paper", ""), ("laptop", "-laptop")):
        if recipe == usual_recipe(config.env, source, budget) | {"seed": seed}:
            return dataset_folder(config.env, source + ending, seed)
    return dataset_folder(config.env, f"{source}-{_short_hash(recipe)}", seed)


def _short_hash(recipe: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:8]


def training_folder(config: RunConfig) -> Path:
    """Name the folder that a method learns from: the dataset, or what an encoder made of it."""
    folder = dataset_path(config)
    return folder / f"encoded-{_short_hash(asdict(config.encoder))}" if config.encoder else folder


def known_tasks(config: RunConfig) -> tuple[int, ...]:
    """Return the training tasks that the data hold; until there are any, all of the suite's."""
    tasks, folder = SUITES[config.env].train_tasks, dataset_path(config)
    if not (folder / MANIFEST).is_file():
        return tasks
    held = {entry.task for entry in read_manifest(folder).files}
    if not held & set(tasks):
        raise RunError(
            f"{folder} holds {len(held)} tasks ({min(held)} to {max(held)}), but none of the "
            f"training tasks of {config.env}; its tasks have changed since: delete the folder and "
            "collect again, or bring them back"
        )
    return tuple(task for task in tasks if task in held)


def build_for(run: Run) -> Method:
    """Build the run's method, untrained, where it computes."""
    config = run.config
    spaces = run.suite.spaces
    method = build_method(
        *(config.method, spaces, config.options, config.embedder),
        *(config.seed, config.embedder_name, encoder_of(config)),
    )
    method = with_exploration(method, config.exploration)
    method.name = config.label or config.method
    to_device(method, run.device)
    return method


def encoder_of(config: RunConfig) -> EncoderCard | None:
    """Return the frozen encoder of images that a config asks for."""
    return None if config.encoder is None else config.encoder.card


def to_device(method: Method, device: str) -> None:
    """Move a method's networks; what they read follows them."""
    for network in method.networks.values():
        network.to(device)
    embedder = getattr(method, "embedder", None)
    if isinstance(embedder, LanguageEmbedder):  # no network of the method's own
        embedder.to(device)


def target_of(run: Run) -> Target:
    """Return what a run aims at: the suite's target, that of each task, or the best of its data."""
    suite, folder = run.suite, dataset_path(run.config)
    targets = task_targets_of(suite)
    if targets != "data":
        return Target(*suite.target_return, tuple((task, *pair) for task, pair in targets.items()))
    if (run.out / CHECKPOINT).exists():
        return carried_target(read_card(run.out / CHECKPOINT))
    if not (folder / MANIFEST).is_file():
        return Target(*suite.target_return)
    episodes = Dataset.open(folder, run.tasks[0], in_memory=False).episodes
    best = {int(task): best_return(episodes, int(task)) for task in np.unique(episodes.task)}
    mean = float(np.mean(list(best.values())))
    best |= {task: best[twin] for task, twin in twins_of(suite).items() if twin in best}
    return Target(mean, 0.0, tuple((task, value, 0.0) for task, value in best.items()))


def carried_target(card: Card) -> Target:
    """Return what a checkpoint's trials aim at in the suite that it was trained in."""
    return Target(*card.target, card.task_targets)


def describe(run: Run) -> Card:
    """Say what a checkpoint of this run holds."""
    target = target_of(run)
    config, embedder = run.config, run.config.embedder_name
    return Card(
        method=config.method,
        env=config.env,
        spaces=run.suite.spaces,
        options=asdict(config.options),
        embedder=None if embedder is None else EmbedderCard(embedder, asdict(config.embedder)),
        target=(target.mean, target.std),
        action_rule=asdict(config.evaluate.rule),
        seed=config.seed,
        code_version=code_version(),
        tasks=run.tasks[0],
        label=config.label,
        task_targets=target.of_tasks,
        exploration=config.exploration,
        encoder=encoder_of(config),
    )
