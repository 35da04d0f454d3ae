"""Recording: from a suite, a source and its options to a finished dataset of learning histories.

A dataset is made once, by one process at a time, and is there when its manifest is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radt.collect.source import (
    SOURCES,
    CollectError,
    CollectProgress,
    OnProgress,
    Recorded,
    Request,
)
from radt.data import History, Manifest, read_manifest, write_history, write_manifest
from radt.data.manifest import MANIFEST, TaskFile
from radt.data.store import task_file
from radt.decode import differences, leaves
from radt.engine import Engine, LocalEngine
from radt.envs.suite import SAID_OF_ITSELF, TaskSuite, for_data
from radt.errors import RadtWarning
from radt.files import atomic_write, locked, remove_leftovers
from radt.old_names import translated
from radt.registry import plugin_changes, plugins_behind
from radt.track import Tracker
from radt.version import code_version

PARTS = "parts"  # the folder inside a dataset's folder, until the dataset is complete
_PLAN = "plan.json"
FORMAT = 1
# Added since, as it was when it did not exist.
_NEWER = (("privileged", False), ("source", "ppo"), ("noise", "random"))


def record_histories(
    suite: TaskSuite,
    options: Any,
    folder: Path,
    workers: int = 2,
    progress: OnProgress | None = None,
    quiet: bool = False,
    engine: Engine | None = None,
    source: str = "ppo",
) -> Path:
    """Record the learning histories of a suite's training tasks, or go on doing so.

    Args:
        suite: The family of tasks.
        options: The source's own dataclass: hyper-parameters, the seed, how much.
        folder: Where the dataset will be; one that is finished is left as it is.
        workers: How many processes compute; the data do not depend on it.
        progress: Is told how it goes; without it a bar is drawn.
        quiet: Draw no bar.
        engine: What does the work; None: `workers` processes of this machine.
        source: The data source, a name in `SOURCES`.

    Returns:
        The folder, which now holds one file per task and a manifest.
    """
    engine, entry = engine or LocalEngine(workers), SOURCES[source]
    try:
        entry.check(suite, options)
    except ValueError as error:
        raise CollectError(f"{error}{_other_sources(suite, source)}") from error
    content = collection_plan(suite, options, source)
    if is_finished(folder, content) and not (folder / PARTS).exists():
        return folder  # without the lock: many runs may share it
    with _owned(folder):
        if not is_finished(folder, content):
            _begin(folder / PARTS, content)
            with _reporter(progress, quiet) as report:
                parts = (folder / PARTS).absolute()  # workers may stand elsewhere
                request = Request(for_data(suite), options, parts, engine, report)
                _write(folder, entry.record(request), suite, source, content)
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    return folder


def _other_sources(suite: TaskSuite, tried: str) -> str:
    """Suggest sources that can record a suite: those that were plugged in, else the others."""
    fitting = []
    for name in SOURCES.names():
        with contextlib.suppress(Exception):  # of a plug-in's code; then it is not suggested
            SOURCES[name].check(suite, SOURCES[name].options())
            fitting += [name] if name != tried else []
    own = [name for name in fitting if SOURCES.is_from_outside(name)]
    words = " or ".join(f"--set source={name}" for name in own or fitting)
    return f"; try {words}" if words else ""


def collection_plan(suite: TaskSuite, options: Any, source: str = "ppo") -> dict[str, Any]:
    """Describe as plain JSON everything that the collected arrays depend on."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "env": suite.name,
        "env_spec": _rules(suite),
        "spaces": suite.spaces.plain_values(),
        "tasks": suite.train_tasks,
        "source": source,
        "config": _without_news(dataclasses.asdict(options)),
    }
    if files := plugins_behind((suite.name, source, *leaves(content["config"]).values())):
        content["plugins"] = files
    try:
        plain: dict[str, Any] = json.loads(json.dumps(_without_news(content)))
    except TypeError as error:
        raise CollectError(
            f"a dataset of {suite.name} must tell which rules it was made by, but some field of "
            f"the suite or of the source's options is no plain value ({error}); let its fields be "
            "numbers, texts and tuples of them"
        ) from error
    return plain


def _without_news(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is newer than FORMAT 1 while it changes nothing.

    So a dataset from before an option existed is still the dataset of the same configuration.
    """
    return {name: value for name, value in values.items() if (name, value) not in _NEWER}


def _rules(suite: TaskSuite) -> dict[str, Any]:
    """Return what of a suite's fields its data depend on, e.g. the room's size."""
    record: dict[str, Any] = dataclasses.asdict(suite) if dataclasses.is_dataclass(suite) else {}
    told = (*SAID_OF_ITSELF, *(name for name in record if hasattr(TaskSuite, name)))
    return {name: value for name, value in record.items() if name not in told}


@contextlib.contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Let only one collector work in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".collect.lock", wait=False))
        except BlockingIOError:
            raise CollectError(
                f"another process is collecting into {folder}; wait for it, or stop it and start "
                "again: nothing that is finished is lost"
            ) from None
        remove_leftovers(folder)
        yield


def _begin(parts: Path, content: dict[str, Any]) -> None:
    """Write down what is collected here, or check that it is what was begun."""
    path = parts / _PLAN
    if path.is_file():
        try:
            begun = translated(json.loads(path.read_text("utf-8")), content)
            begun["config"] = translated(begun["config"], content["config"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CollectError(
                f"{path} does not say any more what is collected here ({error}); delete {parts} to "
                "collect anew"
            ) from error
        recorded = any(one != path for one in parts.iterdir()) or any(parts.parent.glob("task-*"))
        if begun != content and recorded:
            raise CollectError(
                f"{parts.parent} holds an unfinished collection with another configuration "
                f"({'; '.join(differences(begun, content))}). "
                f"Give the configuration it was begun with, "
                f"choose another folder, or delete {parts} to collect anew"
            )
    atomic_write(path, json.dumps(content, indent=1).encode())
    remove_leftovers(parts)


def is_finished(folder: Path, content: dict[str, Any]) -> bool:
    """Say whether the dataset is there; one with another configuration is refused."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_manifest(folder)
    have = {"env": manifest.env, "env_spec": dict(manifest.env_spec), "source": manifest.source}
    have["config"] = translated(manifest.hyper_parameters, content["config"])
    want = {"source": "ppo", **{name: content[name] for name in have if name in content}}
    if have != want:
        raise CollectError(
            f"{folder} holds a finished dataset with another configuration "
            f"({'; '.join(differences(have, want))}); choose another folder, or delete this one"
        )
    if changed := plugin_changes(manifest.plugins, content.get("plugins", {})):
        warnings.warn(
            f"{folder} was recorded with another version of {', '.join(changed)}; where the change "
            "matters to the data, delete the folder and collect again",
            RadtWarning,
            stacklevel=3,
        )
    return True


@contextlib.contextmanager
def _reporter(progress: OnProgress | None, quiet: bool) -> Iterator[OnProgress]:
    """Draw a bar that grows where more turns out to be needed, and tell whoever asked."""
    tracker = Tracker(quiet=quiet or progress is not None)
    total = 0

    def report(news: CollectProgress) -> None:
        nonlocal total
        if news.total != total:
            total = news.total
            tracker.finish()
            tracker.start("collect", total)
        tracker.advance(news.transitions, f"return {news.recent_return:.1f}")
        if progress is not None:
            progress(news)

    try:
        yield report
    finally:
        tracker.finish()


def _write(
    folder: Path, recorded: Recorded, suite: TaskSuite, source: str, content: dict[str, Any]
) -> None:
    """Write each task's file and, last, the manifest."""
    begun = time.perf_counter()
    files = [_write_task(folder, suite, source, history) for history in recorded.histories]
    if not files:
        raise CollectError(
            f"the source {source} recorded none of the {len(suite.train_tasks)} training tasks of "
            f"{suite.name}; let it yield a History of at least one"
        )
    write_manifest(
        folder,
        Manifest(
            env=suite.name,
            env_spec=content["env_spec"],
            spaces=suite.spaces,
            split="train",
            seed=content["config"]["seed"],
            source=source,
            hyper_parameters=content["config"],
            code_version=code_version(),
            files=tuple(files),
            wall_seconds=recorded.seconds + time.perf_counter() - begun,
            plugins=content.get("plugins", {}),
        ),
    )


def _write_task(folder: Path, suite: TaskSuite, source: str, history: History) -> TaskFile:
    """Write what a source recorded of one task, if that is a task to train on and can be."""
    if history.task not in suite.train_tasks:
        raise CollectError(
            f"the source {source} recorded task {history.task!r}, which is none of the training "
            f"tasks of {suite.name} ({min(suite.train_tasks)} to {max(suite.train_tasks)}); record "
            "only suite.train_tasks"
        )
    try:
        return write_history(folder, history, suite.spaces)
    except ValueError as error:
        raise CollectError(
            f"{folder / task_file(history.task)} cannot be written: the source {source} recorded "
            f"task {history.task}, but {error}; mend the source, or the spaces of {suite.name}"
        ) from error
