"""What processes that train together do in the tests; `launch` starts them as torchrun does.

torchrun --nproc-per-node 2 -m tests.process_group learn FOLDER dt ra-dt
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from radt.data import Dataset
from radt.distributed import SINGLE_PROCESS, ProcessGroup, joined_group
from radt.envs.suite import SUITES, TaskSuite
from radt.learn import LearnConfig, learn
from radt.methods import Method
from radt.track import JsonLines, Tracker
from tests.contracts.method import LEARNING, OPTIONS, build_method, toy_dataset
from tests.toys import TOY_GRID, TOY_REACH

ROOT = Path(__file__).parents[1]
SECONDS = 600  # after which a test gives up on its processes
CONFIG = LearnConfig(
    updates=8,
    batch_size=7,  # not a multiple of two
    learning_rate=1e-3,
    warmup=3,
    evaluate_every=0,
    log_every=1,
    save_every=3,
)
FAILS_AT = 5  # updates


@dataclass(frozen=True)
class Ended:
    """How torchrun ended, and what its processes said."""

    code: int
    said: str


def torchrun(processes: int, module: Sequence[str], environ: Mapping[str, str]) -> Ended:
    """Start processes of a module on this machine and wait for them, but not for ever."""
    options = ["--standalone", f"--nproc-per-node={processes}", "-m"]
    started = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, *module],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = started.communicate(timeout=SECONDS)
    except BaseException:
        started.terminate()  # which ends its processes, too
        raise
    return Ended(started.returncode, said)


def launch(*words: str) -> Ended:
    """Start two processes of one thread each and wait for them, but not for ever."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environ = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return torchrun(2, ["tests.process_group", *words], environ)


def cases() -> dict[str, tuple[TaskSuite, str]]:
    """Name what is trained: every learning method, and padded continuous actions."""
    learning = [name for name in LEARNING if name != "ra-dt-lm"]  # whose library imports slowly
    named = {name: (TOY_GRID, name) for name in learning}
    return {**named, "reach": (TOY_REACH, "ra-dt"), "retriever": (TOY_GRID, "ra-dt")}


def learn_one(
    case: str, folder: Path, group: ProcessGroup = SINGLE_PROCESS, fails: bool = False
) -> None:
    """Train a method as one of a group; its state and its log stay in the folder."""
    suite, name = cases()[case]
    with group.rank_zero_first():
        data = folder / "data" / suite.name
        if group.is_rank_zero:
            toy_dataset(suite, data, episodes=6)
    learned = {**OPTIONS[name], "retriever": "learned"} if case == "retriever" else None
    method = build_method(name, suite.spaces, learned)
    method.prepare(Dataset.open(data))
    if fails and not group.is_rank_zero:
        fail_late(method)
    sinks = (JsonLines(folder / f"{case}.jsonl"),) if group.is_rank_zero else ()
    tracker = Tracker(sinks)
    learn(method, CONFIG, 0, folder / case, tracker, group=group)
    tracker.close()


def fail_late(method: Method) -> None:
    """Let a process fail in the middle of training."""
    real, left = method.draw, FAILS_AT

    def draw(size: int, rng: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError("the disk of this process is full")
        return real(size, rng)  # type: ignore[arg-type]

    method.draw = draw  # type: ignore[method-assign]


def main(task: str, *words: str) -> int:
    """Do one task as one process of the group."""
    torch.set_num_threads(1)
    SUITES._items[TOY_GRID.name] = TOY_GRID
    if task == "radt":
        from radt.cli import main as radt

        return radt(words)
    with joined_group() as group:
        for case in words[1:]:
            learn_one(case, Path(words[0]), group, fails=task == "fail")
    threads = [file.read_text() for file in Path("/proc/self/task").glob("*/comm")]
    assert not any("gloo" in name for name in threads)  # which could abort the process at its end
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
