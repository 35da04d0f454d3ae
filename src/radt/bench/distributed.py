"""`radt bench distributed`: two processes that train together against one, and two Ray nodes.

The same updates on the same batches are made by one process with one thread, by one with as many
threads as two processes have together, and by two processes with one thread each. Dropout is off,
so that their weights can be compared. On Ray, two nodes on this machine collect and evaluate what
one process does. torchrun starts the processes as `-m radt.bench.distributed FOLDER`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from rich.table import Table

from radt.api import preset
from radt.bench import USUAL, DistributedArguments, Resources
from radt.bench.common import Clock, made_up_folder, make_table, prepared_method, with_provenance
from radt.checkpoint import read_tensors
from radt.collect import CollectConfig, paper_config, record_histories
from radt.config import from_json
from radt.costs import count_parameters
from radt.data import Dataset, read_manifest
from radt.decode import decode
from radt.distributed import ProcessGroup, joined_group
from radt.engine import Engine, LocalEngine, cores, open_engine
from radt.envs.suite import SUITES
from radt.experiments.evaluate import Trials
from radt.experiments.run import RunError
from radt.experiments.shares import shared
from radt.files import atomic_write
from radt.learn import learn
from radt.loading import load, method_at, shipped
from radt.track import Tracker

GIVEN, TAKEN, STATE = "given.json", "taken.json", "state.safetensors"
WARM_UP = 2  # updates that are not timed
AVERAGED = 20  # times that the averaging of gradients is timed
SECONDS = 3600  # after which processes that do not end are given up
ONE, THREADS, TWO = "1 x 1", "1 x 2", "2 x 1"  # processes x threads of each
NODE: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 100 * 2**20,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}


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


@dataclass(frozen=True)
class Ended:
    """How torchrun ended, and what its processes said."""

    code: int
    said: str


def bench_distributed(
    arguments: DistributedArguments, resources: Resources = USUAL, transitions: int = 10_000
) -> dict[str, Any]:
    """Measure the speed-up of two processes, and how far their weights are from those of one.

    Each task's made-up history has `transitions` steps.
    """
    env, updates = arguments.env, arguments.updates
    sets = (f"learn.updates={updates + WARM_UP}", "learn.warmup=0", "learn.evaluate_every=0")
    config = preset(env, arguments.method, arguments.budget, "options.model.dropout=0.0", *sets)
    tracker, taken = Tracker(quiet=resources.quiet), dict[str, Taken]()
    with (
        made_up_folder(SUITES[env], transitions) as data,
        tempfile.TemporaryDirectory(prefix="radt-bench-") as name,
    ):
        tracker.start("train", total=3)
        for way in (ONE, THREADS, TWO):
            processes, threads = map(int, way.split(" x "))
            given = Given(config.to_json(), str(data), threads)
            taken[way] = launch(processes, given, Path(name) / way)
            tracker.advance(len(taken), f"{way}: {taken[way].seconds:.3f} s an update")
        tracker.finish()
        apart = largest_difference(*(Path(name) / way / STATE for way in (ONE, TWO)))
    measured = {
        "env": env,
        "method": arguments.method,
        "budget": arguments.budget,
        "batch_size": config.learn.batch_size,
        "updates": updates,
        "ways": {way: asdict(one) for way, one in taken.items()},
        "largest_weight_difference": apart,
        "ray": None if arguments.skip_ray else compare_two_nodes(env, rollouts=4, trials=2),
        "reason": reason(taken),
    }
    return with_provenance("distributed", measured, taken[ONE].seconds / taken[TWO].seconds)


def launch(processes: int, given: Given, folder: Path) -> Taken:
    """Let torchrun start processes on this machine and return what rank 0 measured."""
    folder.mkdir()
    (folder / GIVEN).write_text(json.dumps(asdict(given)), encoding="utf-8")
    environ = {"OMP_NUM_THREADS": str(given.threads)}
    ended = torchrun(processes, ["radt.bench.distributed", str(folder)], environ)
    if ended.code != 0:
        raise RunError(f"the processes failed:\n{ended.said}")
    return decode(Taken, json.loads((folder / TAKEN).read_text(encoding="utf-8")))


def torchrun(
    processes: int, module: Sequence[str], environ: Mapping[str, str], seconds: float = SECONDS
) -> Ended:
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
        said, _ = started.communicate(timeout=seconds)
    except BaseException:
        started.terminate()  # which ends its processes, too
        raise
    return Ended(started.returncode, said)


def time_in_group(folder: Path) -> None:
    """Do in one of the processes what the folder says; rank 0 writes down what it took."""
    given = decode(Given, json.loads((folder / GIVEN).read_text(encoding="utf-8")))
    with joined_group() as group:
        taken = time_updates(given, folder, group)
        if group.is_rank_zero:
            atomic_write(folder / TAKEN, json.dumps(asdict(taken)).encode())


def time_updates(given: Given, folder: Path, group: ProcessGroup) -> Taken:
    """Train for some updates, the first ones to warm up, and leave the weights in the folder."""
    torch.set_num_threads(given.threads)
    config = from_json(given.config)
    method, _ = prepared_method(config, Dataset.open(given.data, in_memory=True), "cpu")
    warm = replace(config.learn, updates=WARM_UP)
    learn(method, warm, config.seed, folder / STATE, Tracker(), group=group)
    group.wait()
    clock, timed = Clock(), config.learn.updates - WARM_UP
    clock.watch(method, "draw", "draw")
    with clock.part("rest"):
        learn(method, config.learn, config.seed, folder / STATE, Tracker(), group=group)
    return Taken(
        seconds=sum(clock.seconds.values()) / timed,
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


def largest_difference(one: Path, two: Path) -> float:
    """Return how far two saved states are apart at most, moments of the optimiser included."""
    (mine, _), (theirs, _) = read_tensors(one), read_tensors(two)
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def reason(taken: Mapping[str, Taken]) -> str:
    """Say what keeps two processes from being twice as fast."""
    if cores() < 2:
        return "there is only one core"
    two = taken[TWO]
    draw, average = two.draw_seconds / two.seconds, two.average_seconds / two.seconds
    threads = taken[ONE].seconds / taken[THREADS].seconds
    return (
        f"of an update {draw:.0%} is drawing, which every process does for the whole batch, and "
        f"{average:.0%} averaging gradients; two threads of one process are {threads:.2f} times as "
        "fast as one on the same cores"
    )


@contextmanager
def two_ray_nodes() -> Iterator[str]:
    """Run two nodes of one processor each for a while; their address is on 127.0.0.1."""
    from radt.engine.on_ray import guard, secrets_hidden

    guard(own=True)
    from ray.cluster_utils import Cluster

    with secrets_hidden():
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        with secrets_hidden():
            cluster.add_node(**{name: NODE[name] for name in NODE if name != "include_dashboard"})
        cluster.wait_for_nodes()
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def compare_two_nodes(env: str, rollouts: int, trials: int) -> dict[str, Any] | None:
    """Collect and evaluate on two nodes and in one process; None: Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        return None
    with two_ray_nodes() as address, open_engine("ray", address) as engine:
        return {
            "collect": _compared(partial(_collected, env, rollouts), engine),
            "evaluate": _compared(partial(_evaluated, env, trials), engine),
        }


def _compared(make: Callable[[Engine], Any], engine: Engine) -> dict[str, Any]:
    """Make the same in one process and on two nodes."""
    make(engine)  # so that workers have imported what they need
    results, seconds = [], []
    for where in (LocalEngine(1), engine):
        begun = time.perf_counter()
        results.append(make(where))
        seconds.append(time.perf_counter() - begun)
    equal = bool(results[0] == results[1])
    return {"equal": equal, "one_seconds": seconds[0], "two_seconds": seconds[1]}


def _collected(env: str, rollouts: int, engine: Engine) -> list[str]:
    """Collect a little of every training task and return the hashes of the files."""
    config: CollectConfig = paper_config(env)
    config = replace(config, transitions=rollouts * config.n_steps)
    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        record_histories(SUITES[env], config, Path(folder), quiet=True, engine=engine)
        return [entry.sha256 for entry in read_manifest(Path(folder)).files]


def _evaluated(env: str, trials: int, engine: Engine) -> Any:
    """Evaluate the shipped weights in some trials and return what they earned."""
    source, suite = shipped(env), SUITES[env]
    loaded = load(source)
    asked = Trials(suite, suite.eval_tasks, trials, loaded.rule, seed=0)
    evaluate = shared(engine, partial(method_at, source))
    return np.asarray(evaluate(loaded.method, asked, Tracker()).returns).tolist()


def distributed_table(record: Mapping[str, Any]) -> Table:
    """Show the ways to share two cores, and what two nodes did."""
    rows = [
        (f"{name} (processes x threads), seconds an update", f"{taken['seconds']:.4f}")
        for name, taken in record["ways"].items()
    ]
    rows.append(("largest difference of a weight", f"{record['largest_weight_difference']:.1e}"))
    for name, compared in (record["ray"] or {}).items():
        seconds = f"{compared['one_seconds']:.1f} s and {compared['two_seconds']:.1f} s"
        same = "equal" if compared["equal"] else "DIFFERENT"
        rows.append((f"{name}, one process and two Ray nodes", f"{same}, {seconds}"))
    rows.append(("why not twice as fast", record["reason"]))
    return make_table(f"{record['method']} in {record['env']}, {record['budget']} budget", rows)


if __name__ == "__main__":
    time_in_group(Path(sys.argv[1]))
