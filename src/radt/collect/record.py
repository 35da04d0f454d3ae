"""Recording: from a suite and a configuration to a finished dataset of learning histories.

Which tasks form a group is fixed by their order and the configuration, so the data do not depend on
the number of workers. A run that is killed goes on from its last finished parts and ends with the
same arrays.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from radt.collect.parts import PARTS, CollectError, Part, identity, plan, read_parts
from radt.collect.ppo import CollectConfig, acting_suite
from radt.collect.rollout import StateIndex
from radt.collect.workers import GroupJob, GroupProgress, Report, locked, record_groups
from radt.data import History, Manifest, TaskFile, read_manifest, write_history, write_manifest
from radt.data.manifest import MANIFEST
from radt.decode import differences
from radt.envs.suite import TaskSuite
from radt.files import atomic_write, remove_leftovers
from radt.track import Tracker
from radt.version import code_version

_PLAN = "plan.json"


@dataclass(frozen=True)
class CollectProgress:
    """How much of a collection is done, and the mean return of recent episodes."""

    transitions: int  # of all tasks
    total: int
    recent_return: float


OnProgress = Callable[[CollectProgress], None]


def collect(
    suite: TaskSuite,
    config: CollectConfig,
    folder: Path,
    workers: int = 2,
    progress: OnProgress | None = None,
    quiet: bool = False,
) -> Path:
    """Record PPO's learning history on every training task of a suite, or go on doing so.

    Args:
        suite: The family of tasks.
        config: The hyper-parameters and the seed.
        folder: Where the dataset will be; one that is finished is left as it is.
        workers: How many processes compute; the data do not depend on it.
        progress: Is told after every rollout; without it a bar is drawn.
        quiet: Draw no bar.

    Returns:
        The folder, which now holds one file per task and a manifest.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    try:
        acting_suite(suite, config)
    except ValueError as error:  # nothing is hidden that could be revealed
        raise CollectError(str(error)) from error
    content = plan(suite, config)
    if _is_finished(folder, content) and not (folder / PARTS).exists():
        return folder  # without the lock: many runs may share it
    with _owned(folder):
        if not _is_finished(folder, content):
            _begin(folder / PARTS, content)
            jobs = _jobs(suite, config, folder / PARTS, identity(content))
            with _reporter(jobs, progress, quiet) as report:
                record_groups(jobs, workers, report)
            _finish(folder, jobs, content, workers)
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    return folder


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
        begun = json.loads(path.read_text("utf-8"))
        if begun != content:
            raise CollectError(
                f"{parts.parent} holds an unfinished collection with another configuration "
                f"({'; '.join(differences(begun, content))}). "
                f"Give the configuration it was begun with, "
                f"choose another folder, or delete {parts} to collect anew"
            )
    atomic_write(path, json.dumps(content, indent=1).encode())
    remove_leftovers(parts)


def _is_finished(folder: Path, content: dict[str, Any]) -> bool:
    """Say whether the dataset is there; one with another configuration is refused."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_manifest(folder)
    have = {"env": manifest.env, "env_spec": dict(manifest.env_spec)}
    have["config"] = dict(manifest.hyper_parameters)
    want = {name: content[name] for name in have}
    if have != want:
        raise CollectError(
            f"{folder} holds a finished dataset with another configuration "
            f"({'; '.join(differences(have, want))}); choose another folder, or delete this one"
        )
    return True


def _jobs(suite: TaskSuite, config: CollectConfig, parts: Path, plan_hash: str) -> list[GroupJob]:
    """Cut the training tasks into groups by their order."""
    size, tasks = config.tasks_per_group, suite.train_tasks
    starts = range(0, len(tasks), size)
    return [
        GroupJob(suite, config, group, tasks[start : start + size], parts, plan_hash)
        for group, start in enumerate(starts)
    ]


@contextlib.contextmanager
def _reporter(jobs: list[GroupJob], progress: OnProgress | None, quiet: bool) -> Iterator[Report]:
    """Turn the progress of groups into that of the whole."""
    total = len(jobs[0].suite.train_tasks) * jobs[0].config.transitions
    tracker = Tracker(quiet=quiet or progress is not None)
    latest: dict[int, GroupProgress] = {}

    def report(news: GroupProgress) -> None:
        latest[news.group] = news
        whole = _overall(jobs, latest, total)
        tracker.advance(whole.transitions, f"return {whole.recent_return:.1f}")
        if progress is not None:
            progress(whole)

    tracker.start("collect", total)
    try:
        yield report
    finally:
        tracker.finish()


def _overall(jobs: list[GroupJob], latest: dict[int, GroupProgress], total: int) -> CollectProgress:
    """Add up the groups that have begun."""
    done, returns, begun = 0, 0.0, 0
    for group, news in latest.items():
        tasks, config = len(jobs[group].tasks), jobs[group].config
        done += tasks * min(news.rollouts * config.n_steps, config.transitions)
        returns += tasks * news.recent_return
        begun += tasks
    return CollectProgress(done, total, returns / begun)


def _finish(folder: Path, jobs: list[GroupJob], content: dict[str, Any], workers: int) -> None:
    """Write each task's file and, last, the manifest."""
    suite, config = jobs[0].suite, jobs[0].config
    files: list[TaskFile] = []
    seconds = 0.0
    for job in jobs:
        parts = read_parts(job.parts, job.group, job.plan_hash)
        seconds += sum(part.seconds for part in parts)
        for history in histories(job, parts):
            files.append(write_history(folder, history, suite.spaces))
    write_manifest(
        folder,
        Manifest(
            env=suite.name,
            env_spec=content["env_spec"],
            spaces=suite.spaces,
            split="train",
            seed=config.seed,
            source="ppo",
            hyper_parameters=content["config"],
            code_version=code_version(),
            files=tuple(files),
            wall_seconds=seconds / min(workers, len(jobs)),
        ),
    )


def histories(job: GroupJob, parts: list[Part]) -> Iterator[History]:
    """Put the parts of a group together again, one task after the other."""
    stored = job.suite.spaces.state
    seen = StateIndex(acting_suite(job.suite, job.config).spaces.state).coordinates
    coordinates = seen[:, : len(stored.bins)]  # what was revealed comes last and is not stored
    action_type = job.suite.spaces.action.dtype
    keep = job.config.transitions
    states, actions, rewards, ends = (
        np.concatenate([getattr(part, name) for part in parts])[:keep]
        for name in ("states", "actions", "rewards", "ends")
    )
    for slot, task in enumerate(job.tasks):
        last = np.flatnonzero(ends[:, slot])
        yield History(
            task=task,
            states=coordinates[states[:, slot]].reshape(keep, *stored.shape),
            actions=actions[:, slot].astype(action_type),
            rewards=np.ascontiguousarray(rewards[:, slot]),
            lengths=np.diff(last, prepend=-1).astype(np.int32),
        )
