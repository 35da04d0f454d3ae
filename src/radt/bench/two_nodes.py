"""Two Ray nodes on this machine: whether they collect and evaluate what one process does."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from radt.collect import CollectConfig, collect, paper_config
from radt.data import read_manifest
from radt.engine import Engine, LocalEngine, open_engine
from radt.engine.on_ray import guard, without_secrets
from radt.envs.suite import SUITES
from radt.experiments.evaluate import Trials
from radt.experiments.shares import shared
from radt.loading import load, method_at, shipped
from radt.track import Tracker

NODE: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 100 * 2**20,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}
Result = TypeVar("Result")


@dataclass(frozen=True)
class Compared:
    """The same work in one process and on two nodes."""

    equal: bool
    one_seconds: float
    two_seconds: float


@contextmanager
def two_ray_nodes() -> Iterator[str]:
    """Run two nodes of one processor each for a while; their address is on 127.0.0.1."""
    guard(own=True)
    from ray.cluster_utils import Cluster

    with without_secrets():
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        with without_secrets():
            cluster.add_node(**{name: NODE[name] for name in NODE if name != "include_dashboard"})
        cluster.wait_for_nodes()
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def compare_two_nodes(env: str, rollouts: int, trials: int) -> dict[str, Compared] | None:
    """Collect and evaluate on two nodes and in one process; None: Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        return None
    with two_ray_nodes() as address, open_engine("ray", address) as engine:
        return {
            "collect": _compared(partial(_collected, env, rollouts), engine),
            "evaluate": _compared(partial(_evaluated, env, trials), engine),
        }


def _compared(work: Callable[[Engine], Result], engine: Engine) -> Compared:
    work(engine)  # so that workers have imported what they need
    results, seconds = [], []
    for where in (LocalEngine(1), engine):
        begun = time.perf_counter()
        results.append(work(where))
        seconds.append(time.perf_counter() - begun)
    return Compared(results[0] == results[1], *seconds)


def _collected(env: str, rollouts: int, engine: Engine) -> list[str]:
    """Collect a little of every training task and return the hashes of the files."""
    config: CollectConfig = paper_config(env)
    config = replace(config, transitions=rollouts * config.n_steps)
    with tempfile.TemporaryDirectory(prefix="radt-bench-") as folder:
        collect(SUITES[env], config, Path(folder), quiet=True, engine=engine)
        return [entry.sha256 for entry in read_manifest(Path(folder)).files]


def _evaluated(env: str, trials: int, engine: Engine) -> list[list[float]]:
    """Let the shipped weights live through some trials and return what they earned."""
    source, suite = shipped(env), SUITES[env]
    loaded = load(source)
    lived = Trials(suite, suite.eval_tasks, trials, loaded.rule, seed=0)
    how = shared(engine, partial(method_at, source))
    returns: list[list[float]] = np.asarray(how(loaded.method, lived, Tracker()).returns).tolist()
    return returns
