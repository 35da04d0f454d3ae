"""Workers: processes of one thread each that record groups of tasks and say how far they are."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import numpy as np
import torch

from radt.collect.parts import CollectError, Part, join, part_path, read_parts, write_part
from radt.collect.ppo import CollectConfig, GroupLearner
from radt.collect.rollout import Rollout
from radt.envs.suite import TaskSuite


@dataclass(frozen=True)
class GroupJob:
    """One group of tasks to record."""

    suite: TaskSuite
    config: CollectConfig
    group: int
    tasks: tuple[int, ...]
    parts: Path
    plan_hash: str


@dataclass(frozen=True)
class GroupProgress:
    """How far a group is, and the rewards per finished episode in its last rollout."""

    group: int
    rollouts: int
    recent_return: float


Report = Callable[[GroupProgress], None]


def record_group(job: GroupJob) -> Iterator[GroupProgress]:
    """Record a group's rollouts from its last finished part to the end, telling after each."""
    # A worker whose parent was killed stops at its next report; until then its successor waits.
    with locked(job.parts / f"group-{job.group:03d}.lock", wait=True):
        learner = GroupLearner(job.suite, job.tasks, job.config)
        finished = read_parts(job.parts, job.group, job.plan_hash)
        if finished:
            yield _progress(job, learner, _live_again(learner, job, finished))
        number = len(finished)
        while learner.rollouts < job.config.rollouts:
            seconds, rollouts = 0.0, []
            left = job.config.rollouts - learner.rollouts
            for _ in range(min(job.config.rollouts_per_part, left)):
                begun = time.perf_counter()
                rollouts.append(learner.advance())
                seconds += time.perf_counter() - begun
                yield _progress(job, learner, rollouts[-1])
            part = join(rollouts, learner.state(), seconds)
            write_part(part_path(job.parts, job.group, number), part, job.plan_hash)
            number += 1


def _live_again(learner: GroupLearner, job: GroupJob, finished: list[Part]) -> Rollout:
    """Bring a new learner and its environments to the end of the finished parts."""
    actions = np.concatenate([part.actions for part in finished])
    lived = learner.resume(finished[-1].learner, actions)
    if not np.array_equal(lived.states, np.concatenate([part.states for part in finished])):
        raise CollectError(
            f"{job.suite.name!r} does not pass the same states when it takes the recorded "
            f"actions again, so this run cannot go on; delete {job.parts} to collect anew"
        )
    return lived


def _progress(job: GroupJob, learner: GroupLearner, rollout: Rollout) -> GroupProgress:
    last = slice(-job.config.n_steps, None)
    ends = int((rollout.terminated[last] | rollout.truncated[last]).sum())
    rewards = float(rollout.rewards[last].sum(dtype=np.float64))
    return GroupProgress(job.group, learner.rollouts, rewards / max(1, ends))


def record_groups(jobs: Sequence[GroupJob], workers: int, report: Report) -> None:
    """Record all groups, in this process or in several."""
    workers = min(workers, len(jobs))
    if workers == 1:
        _take_turns(jobs, report)
        return
    context = multiprocessing.get_context("spawn")
    processes = {}
    try:
        for number in range(workers):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(jobs[number::workers], sender))
            with _leaving_interrupts_to_us():
                process.start()
            sender.close()  # so that the pipe ends when the worker does
            processes[receiver] = process
        _listen(dict(processes), report)
    finally:
        for process in processes.values():
            process.terminate()
            process.join()


@contextlib.contextmanager
def _leaving_interrupts_to_us() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C; we do, and then stop them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears it
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a new process takes over
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _take_turns(jobs: Sequence[GroupJob], report: Report) -> None:
    """Record some groups side by side, one rollout of each at a time."""
    with one_thread():
        recordings = [record_group(job) for job in jobs]
        while recordings:
            for recording in list(recordings):
                progress = next(recording, None)
                if progress is None:
                    recordings.remove(recording)
                else:
                    report(progress)


def _work(jobs: Sequence[GroupJob], sender: Connection) -> None:
    """Record some groups in a process of its own."""

    def report(progress: GroupProgress) -> None:
        sender.send_bytes(json.dumps(astuple(progress)).encode())

    try:
        _take_turns(jobs, report)
        sender.send_bytes(b"null")
    except BrokenPipeError:
        pass  # the parent is gone
    except CollectError as error:
        sender.send_bytes(json.dumps(str(error)).encode())


def _listen(
    processes: dict[Connection, multiprocessing.process.BaseProcess], report: Report
) -> None:
    """Pass on what the workers say until all have finished."""
    while processes:
        for receiver in wait(list(processes)):
            assert isinstance(receiver, Connection)
            try:
                message = json.loads(receiver.recv_bytes())
            except EOFError:
                code = processes[receiver].exitcode
                raise CollectError(
                    f"a worker ended before its work was done (exit code {code}); what it finished "
                    "is kept: run the same command to go on, with fewer workers if memory is short"
                ) from None
            if isinstance(message, str):
                raise CollectError(message)
            if message is None:
                processes.pop(receiver).join()
            else:
                report(GroupProgress(*message))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that sums are rounded the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Hold a lock file that ends with the process; raise BlockingIOError if it is taken."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
