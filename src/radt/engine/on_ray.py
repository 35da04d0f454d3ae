"""Ray (extra `radt[ray]`): the same jobs on the machines of a cluster.

Without an address a cluster of this process' own is started on 127.0.0.1, without a dashboard and
with a token that nobody else knows; its processes do not take over what opens a memory server. What
is sent to a worker is the job, $RADT_HOME and $RADT_PLUGINS; what comes back is JSON.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radt.data.store import home
from radt.engine.address import LOOPBACK, check_address, has_token, is_loopback
from radt.engine.engine import EngineError, Job, Ledger, Work, messages
from radt.errors import MissingError
from radt.registry import PLUGINS, plugin_files

SECRETS = ("RADT_MEMORY_DSN", "PGPASSWORD")  # no job needs them
OBJECTS = 128 * 2**20  # bytes of shared memory: jobs and results are small


@dataclass(frozen=True)
class RayEngine:
    """Does jobs on the Ray cluster that this process is connected to."""

    workers: int
    cpus: float = 1.0  # of each job
    gpus: float = 0.0

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield what jobs say, as it comes."""
        import ray

        ledger, running = Ledger(len(jobs)), dict[Any, int]()
        # Ray would try again by itself, but counts on hearing the same as before.
        remote = ray.remote(num_returns="streaming", max_retries=0)(messages).options(
            num_cpus=self.cpus, num_gpus=self.gpus, name=getattr(work, "__name__", "job")
        )
        try:
            while ledger.waiting or running:
                while ledger.waiting and len(running) < self.workers:
                    place = ledger.waiting.popleft()
                    running[remote.remote(work, jobs[place])] = place
                ready, _ = ray.wait(list(running), num_returns=1)
                place = running[ready[0]]
                for news in _hear(ready[0], running, ledger):
                    yield place, news
        finally:
            for stream in running:
                ray.cancel(stream, force=True)


def _hear(stream: Any, running: dict[Any, int], ledger: Ledger) -> list[Any]:
    """Take one message of a job, or notice that its worker is dead."""
    import ray

    try:
        kind, news = ledger.hear(running[stream], ray.get(next(stream)))
    except ray.exceptions.RayError as error:
        first = str(error).strip().splitlines()[0]
        ledger.put_back(running.pop(stream), f"{type(error).__name__}: {first}")
        return []
    if kind == "says":
        return [news]
    del running[stream]
    return []


@contextmanager
def ray_engine(
    address: str | None = None, workers: int | None = None, cpus: float = 1.0, gpus: float = 0.0
) -> Iterator[RayEngine]:
    """Connect to a cluster, or start one on this machine, for as long as the context lasts.

    `workers` jobs run at once; None: as many as the cluster has processors for.
    """
    if address is not None:
        check_address(address, os.environ, Path.home())
    guard(own=address is None)
    try:
        import ray
    except ImportError as error:
        raise MissingError("Ray is missing: pip install 'radt[ray]'") from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    quiet["runtime_env"] = {"env_vars": _shared_environment()}
    if address is None:
        with without_secrets():
            ray.init(
                "local",
                num_cpus=None if workers is None else max(1, round(workers * cpus)),
                include_dashboard=False,
                object_store_memory=OBJECTS,
                _node_ip_address=LOOPBACK,
                **quiet,
            )
    else:
        ray.init(address, **quiet)
    try:
        if address is None:
            _check_loopback(ray.util.get_node_ip_address())
        room = int(ray.cluster_resources().get("CPU", 1.0) // cpus)
        yield RayEngine(workers or max(1, room), cpus, gpus)
    finally:
        ray.shutdown()


def guard(own: bool) -> None:
    """Tell Ray, before it is imported, to send no statistics and to use a token.

    A cluster of our own listens on 127.0.0.1 only. If there is no token, one is made up for it; it
    lasts as long as this process.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if own:
        # Whatever its name says: without it Ray on Linux takes 127.0.0.1 for the machine's address.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if own and not has_token(os.environ, Path.home()):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    if has_token(os.environ, Path.home()):
        os.environ.setdefault("RAY_AUTH_MODE", "token")


@contextmanager
def without_secrets() -> Iterator[None]:
    """Hide secrets while processes start that would take them over."""
    hidden = {name: os.environ.pop(name) for name in SECRETS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _check_loopback(host: str) -> None:
    """Refuse a cluster of our own that others could reach."""
    if not is_loopback(host):
        raise EngineError(
            f"Ray listens on {host} instead of {LOOPBACK}, because it was imported before; open "
            "the engine first, or set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0"
        )


def _shared_environment() -> dict[str, str]:
    """Name the data's folder and the plug-ins in full, for workers that stand elsewhere."""
    plugins = os.pathsep.join(map(str, plugin_files()))
    return {"RADT_HOME": str(home().absolute()), PLUGINS: plugins}
