"""`radt bench distributed`: two processes that train together against one.

The same updates on the same batches are made by one process with one thread, by one with as many
threads as two processes have together, and by two processes with one thread each. Dropout is off,
so that their weights can be compared.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from radt.api import preset
from radt.bench import USUAL, DistributedArguments, Resources
from radt.bench.common import (
    Clock,
    made_up_folder,
    mean_seconds,
    prepared_method,
    tracked,
    with_provenance,
)
from radt.checkpoint import read_tensors
from radt.config import from_json
from radt.costs import count_parameters
from radt.data import Dataset
from radt.distributed import joined_group
from radt.envs.suite import SUITES
from radt.learn import learn
from radt.runs.run import RunError
from radt.track import Tracker

WARM_UP = 2  # updates that are not timed
AVERAGED = 20  # times that the averaging of gradients is timed
ONE, THREADS, TWO = "1 x 1", "1 x 2", "2 x 1"  # processes x threads of each
Taken = dict[str, float]  # how long one update took, and its parts, see `time_updates`
TABLE = ("", ())


def bench_distributed(
    arguments: DistributedArguments, resources: Resources = USUAL, transitions: int = 10_000
) -> dict[str, Any]:
    """Measure the speed-up of two processes, and how far their weights are from those of one.

    Each task's made-up history has `transitions` steps.
    """
    env, updates, taken = arguments.env, arguments.updates, dict[str, Taken]()
    sets = (f"learn.updates={updates + WARM_UP}", "learn.warmup=0", "learn.evaluate_every=0")
    config = preset(env, arguments.method, arguments.budget, "options.model.dropout=0.0", *sets)
    with (
        made_up_folder(SUITES[env], transitions) as data,
        tempfile.TemporaryDirectory(prefix="radt-bench-") as name,
    ):
        for way in tracked("train", (ONE, THREADS, TWO), resources.quiet):
            processes, threads = map(int, way.split(" x "))
            taken[way] = launch(processes, config.to_json(), data, threads, Path(name) / way)
        apart = largest_difference(*(Path(name) / way for way in (ONE, TWO)))
    measured = {
        "env": env,
        "method": arguments.method,
        "budget": arguments.budget,
        "batch_size": config.learn.batch_size,
        "updates": updates,
        "ways": taken,
        "largest_weight_difference": apart,
    }
    return with_provenance("distributed", measured, taken[ONE]["seconds"] / taken[TWO]["seconds"])


def launch(processes: int, config: Mapping[str, Any], data: Path, threads: int, out: Path) -> Taken:
    """Start processes on this machine as torchrun does, and return what rank 0 measured."""
    how = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="spawn",
    )
    try:
        taken: Taken = elastic_launch(how, time_updates)(config, data, threads, out)[0]
    except ChildFailedError as error:
        raise RunError(f"the processes failed:\n{error}") from error
    return taken


@record
def time_updates(config: Mapping[str, Any], data: Path, threads: int, out: Path) -> Taken:
    """Train for some updates, the first ones to warm up, and leave the weights behind."""
    torch.set_num_threads(threads)
    run = from_json(dict(config))
    method, _ = prepared_method(run, Dataset.open(data, in_memory=True), "cpu")
    clock, timed = Clock(), run.learn.updates - WARM_UP
    with joined_group() as group:
        warm = replace(run.learn, updates=WARM_UP)
        learn(method, warm, run.seed, out, Tracker(), group=group)
        group.wait()
        clock.watch(method, "draw", "draw")
        with clock.part("rest"):
            learn(method, run.learn, run.seed, out, Tracker(), group=group)
        gradients = torch.zeros(count_parameters(method))
        group.wait()
        return {
            "seconds": sum(clock.seconds.values()) / timed,
            "draw_seconds": clock.seconds["draw"] / timed,  # every process draws the whole batch
            "average_seconds": 0.0  # of as many numbers as there are gradients
            if group.size == 1
            else mean_seconds(lambda _: dist.all_reduce(gradients), AVERAGED, at_least=0.0),
        }


def largest_difference(one: Path, two: Path) -> float:
    """Return how far two saved states are apart at most, moments of the optimiser included."""
    (mine, _), (theirs, _) = read_tensors(one), read_tensors(two)
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)
