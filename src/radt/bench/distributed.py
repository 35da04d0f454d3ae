"""`radt bench distributed`: two processes that train together against one, and two Ray nodes.

The same updates on the same batches are made by one process with one thread, by one with as many
threads as two processes have together, and by two processes with one thread each. Dropout is off,
so that their weights can be compared. On Ray, two nodes on this machine collect and evaluate what
one process does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from radt.api import preset
from radt.bench.histories import made_up_folder
from radt.bench.report import publish, with_provenance
from radt.bench.together import GIVEN, STATE, TAKEN, WARM_UP, Given, Taken
from radt.bench.two_nodes import compare_two_nodes
from radt.checkpoint import read_tensors
from radt.config import Budget
from radt.decode import decode
from radt.engine import cores
from radt.envs.suite import SUITES
from radt.experiments.run import RunError
from radt.track import Tracker

OUT = Path("runs/bench/distributed.json")
SECONDS = 3600  # after which processes that do not end are given up


@dataclass(frozen=True)
class Way:
    """A way to share two cores."""

    processes: int
    threads: int  # of each process

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return f"{self.processes} x {self.threads}"


@dataclass(frozen=True)
class Ended:
    """How torchrun ended, and what its processes said."""

    code: int
    said: str


ONE, THREADS, TWO = Way(1, 1), Way(1, 2), Way(2, 1)


def bench_distributed(
    env: str = "dark-room-10x10",
    method: str = "ra-dt",
    budget: Budget = "laptop",
    updates: int = 30,
    transitions: int = 10_000,
    ray: bool = True,
    quiet: bool = True,
) -> dict[str, Any]:
    """Measure the speed-up of two processes, and how far their weights are from those of one.

    Args:
        env: The suite whose tasks are learned.
        method: Which method learns them.
        budget: Whose model and batch are taken.
        updates: How many updates are timed, after some to warm up.
        transitions: Steps of each task's made-up history.
        ray: Also collect and evaluate on two Ray nodes, where Ray is installed.
        quiet: Draw no bars.
    """
    sets = (f"learn.updates={updates + WARM_UP}", "learn.warmup=0", "learn.evaluate_every=0")
    config = preset(env, method, budget, "options.model.dropout=0.0", *sets)
    tracker, taken, weights = Tracker(quiet=quiet), dict[str, Taken](), dict[str, Path]()
    with (
        made_up_folder(SUITES[env], transitions) as data,
        tempfile.TemporaryDirectory(prefix="radt-bench-") as folder,
    ):
        tracker.start("train", total=3)
        for place, way in enumerate((ONE, THREADS, TWO), start=1):
            own = Path(folder) / way.name.replace(" ", "")
            given = Given(config.to_json(), str(data), way.threads)
            taken[way.name] = launch(way.processes, given, own)
            weights[way.name] = own / STATE
            tracker.advance(place, f"{way.name}: {taken[way.name].seconds:.3f} s an update")
        tracker.finish()
        apart = largest_difference(weights[ONE.name], weights[TWO.name])
    nodes = compare_two_nodes(env, rollouts=4, trials=2) if ray else None
    measured = {
        "env": env,
        "method": method,
        "budget": budget,
        "batch_size": config.learn.batch_size,
        "updates": updates,
        "ways": {name: asdict(one) for name, one in taken.items()},
        "largest_weight_difference": apart,
        "ray": None if nodes is None else {name: asdict(one) for name, one in nodes.items()},
        "reason": reason(taken),
    }
    return with_provenance("distributed", measured, speed_up(taken))


def launch(processes: int, given: Given, folder: Path) -> Taken:
    """Let torchrun start processes on this machine and return what the leader measured."""
    folder.mkdir()
    (folder / GIVEN).write_text(json.dumps(asdict(given)), encoding="utf-8")
    environ = {"OMP_NUM_THREADS": str(given.threads)}
    ended = torchrun(processes, ["radt.bench.together", str(folder)], environ)
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


def largest_difference(one: Path, two: Path) -> float:
    """Return how far two saved states are apart at most, moments of the optimiser included."""
    (mine, _), (theirs, _) = read_tensors(one), read_tensors(two)
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def speed_up(taken: Mapping[str, Taken]) -> float:
    """Return how much faster two processes are than one with one thread."""
    return taken[ONE.name].seconds / taken[TWO.name].seconds


def reason(taken: Mapping[str, Taken]) -> str:
    """Say what keeps two processes from being twice as fast."""
    two = taken[TWO.name]
    if cores() < TWO.processes:
        return "there is only one core"
    draw, average = two.draw_seconds / two.seconds, two.average_seconds / two.seconds
    threads = taken[ONE.name].seconds / taken[THREADS.name].seconds
    return (
        f"of an update {draw:.0%} is drawing, which every process does for the whole batch, and "
        f"{average:.0%} averaging gradients; two threads of one process are {threads:.2f} times as "
        "fast as one on the same cores"
    )


def _rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        (f"{name} (processes x threads), seconds an update", f"{taken['seconds']:.4f}")
        for name, taken in record["ways"].items()
    ]
    rows.append(("largest difference of a weight", f"{record['largest_weight_difference']:.1e}"))
    for name, compared in (record["ray"] or {}).items():
        seconds = f"{compared['one_seconds']:.1f} s and {compared['two_seconds']:.1f} s"
        same = "equal" if compared["equal"] else "DIFFERENT"
        rows.append((f"{name}, one process and two Ray nodes", f"{same}, {seconds}"))
    return [*rows, ("why not twice as fast", record["reason"])]


def main(
    out: Path | None = None,
    env: str = "dark-room-10x10",
    method: str = "ra-dt",
    budget: Budget = "laptop",
    updates: int = 30,
    ray: bool = True,
    json_only: bool = False,
    quiet: bool = False,
) -> int:
    """Run the benchmark, write its JSON and print the ratio last."""
    record = bench_distributed(env, method, budget, updates, ray=ray, quiet=quiet)
    publish(record, f"{method} in {env}, {budget} budget", _rows(record), out or OUT, json_only)
    return 0
