"""One of the processes that `radt bench distributed` starts: it trains and says how long it took.

torchrun --nproc-per-node 2 -m radt.bench.together FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from radt.bench.clock import Clock
from radt.bench.histories import prepared
from radt.config import from_json
from radt.costs import count_parameters
from radt.data import Dataset
from radt.decode import decode
from radt.distributed import ProcessGroup, joined_group
from radt.files import atomic_write
from radt.learn import learn
from radt.track import Tracker

GIVEN, TAKEN, STATE = "given.json", "taken.json", "state.safetensors"
WARM_UP = 2  # updates that are not timed
AVERAGED = 20  # times that the averaging of gradients is timed


@dataclass(frozen=True)
class Given:
    """What a process is told."""

    config: dict[str, Any]  # of the run; its updates are timed
    data: str
    threads: int


@dataclass(frozen=True)
class Taken:
    """How long one update took, and the parts of it that more processes do not shorten."""

    seconds: float
    draw_seconds: float  # every process draws the whole batch
    average_seconds: float  # of as many numbers as there are gradients


def train(given: Given, folder: Path, group: ProcessGroup) -> Taken:
    """Train for some updates, the first ones to warm up, and leave the weights in the folder."""
    torch.set_num_threads(given.threads)
    config = from_json(given.config)
    method, _ = prepared(config, Dataset.open(given.data, in_memory=True), "cpu")
    warm = replace(config.learn, updates=WARM_UP)
    learn(method, warm, config.seed, folder / STATE, Tracker(), group=group)
    group.wait()
    clock, timed = Clock(), config.learn.updates - WARM_UP
    clock.watch(method, "draw", "draw")
    with clock.part("rest"):
        learn(method, config.learn, config.seed, folder / STATE, Tracker(), group=group)
    whole = clock.seconds["rest"] + clock.seconds["draw"]
    return Taken(
        seconds=whole / timed,
        draw_seconds=clock.seconds["draw"] / timed,
        average_seconds=average_seconds(group, count_parameters(method)),
    )


def average_seconds(group: ProcessGroup, numbers: int) -> float:
    """Time the averaging of some numbers over the processes."""
    if group.size == 1:
        return 0.0
    gradients = torch.zeros(numbers)
    group.wait()
    begun = time.perf_counter()
    for _ in range(AVERAGED):
        dist.all_reduce(gradients)
    return (time.perf_counter() - begun) / AVERAGED


def main(folder: Path) -> None:
    """Do what the folder says; the leader writes down what it took."""
    given = decode(Given, json.loads((folder / GIVEN).read_text(encoding="utf-8")))
    with joined_group() as group:
        taken = train(given, folder, group)
        if group.is_rank_zero:
            atomic_write(folder / TAKEN, json.dumps(asdict(taken)).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
