"""Ray (extra `radt[ray]`): the same jobs on the machines of a cluster.

Without an address a cluster of this process' own is started on 127.0.0.1, without a dashboard and
with a token that nobody else knows; its processes do not take over what opens a memory server. What
is sent to a worker is the job, $RADT_HOME and $RADT_PLUGINS; what comes back is JSON.

A cluster is talked to on this machine, or if it asks for a token: whoever reaches one without runs
code on it. The token itself is never read here: Ray takes it from RAY_AUTH_TOKEN, from the file
RAY_AUTH_TOKEN_PATH or from ~/.ray/auth_token.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from radt.data.store import home
from radt.engine.engine import EngineError, Job, Work, WorkerLoop, WorkerLostError, messages
from radt.errors import MissingError
from radt.registry import PLUGINS, plugin_files

SECRETS = ("RADT_MEMORY_DSN", "PGPASSWORD")  # no job needs them
LOOPBACK = "127.0.0.1"
OBJECTS = 128 * 2**20  # bytes of shared memory: jobs and results are small


@dataclass(frozen=True)
class RayEngine(WorkerLoop):
    """Does jobs on the Ray cluster that this process is connected to."""

    workers: int
    cpus: float = 1.0  # of each job
    gpus: float = 0.0

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Yield what jobs say, as it comes."""
        return self.run(work, jobs, self.workers)

    def start(self, work: Work[Job], job: Job, busy: Collection[Any]) -> Any:
        """Begin a task of the cluster."""
        name = getattr(work, "__name__", "job")
        task = _remote_messages().options(num_cpus=self.cpus, num_gpus=self.gpus, name=name)
        return task.remote(work, job)

    def next_to_speak(self, busy: Collection[Any]) -> Any:
        """Wait for a message or the end of a task."""
        import ray

        return ray.wait(list(busy), num_returns=1)[0][0]

    def receive(self, worker: Any) -> bytes:
        """Take one message of a task, or notice that its worker is dead."""
        import ray

        try:
            message: bytes = ray.get(next(worker))
        except ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise WorkerLostError(f"{type(error).__name__}: {first}") from None
        return message

    def stop(self, worker: Any) -> None:
        """Cancel a task."""
        import ray

        ray.cancel(worker, force=True)


@cache
def _remote_messages() -> Any:
    import ray

    # Ray would try again by itself, but counts on hearing the same as before.
    return ray.remote(num_returns="streaming", max_retries=0)(messages)


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
        with secrets_hidden():
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
def secrets_hidden() -> Iterator[None]:
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


def host_of(address: str) -> str:
    """Return the host of HOST:PORT."""
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or "/" in address or parts.username is not None:
        raise EngineError(
            f"--address must be HOST:PORT of a Ray cluster's head, such as {LOOPBACK}:6379, "
            f"not {address!r}"
        )
    return host


def is_loopback(host: str) -> bool:
    """Tell whether a host can only be this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"  # any other name is somebody's to change


def has_token(environ: Mapping[str, str], home: Path) -> bool:
    """Tell whether Ray will find a token, without reading it."""
    if environ.get("RAY_AUTH_TOKEN"):
        return True
    file = Path(environ.get("RAY_AUTH_TOKEN_PATH") or home / ".ray" / "auth_token")
    return file.is_file() and file.stat().st_size > 0


def check_address(address: str, environ: Mapping[str, str], home: Path) -> None:
    """Refuse an address off this machine unless a token guards it."""
    host = host_of(address)
    if is_loopback(host):
        return
    if environ.get("RAY_AUTH_MODE", "token").lower() == "disabled":
        raise EngineError(
            f"{address} is not on this machine and RAY_AUTH_MODE=disabled: anybody who reaches it "
            "could run code on it. Start the cluster with RAY_AUTH_MODE=token and unset this one"
        )
    if not has_token(environ, home):
        raise EngineError(
            f"{address} is not on this machine and there is no token for it. Start the cluster "
            "with RAY_AUTH_MODE=token and give its token in RAY_AUTH_TOKEN, in a file named by "
            "RAY_AUTH_TOKEN_PATH, or in ~/.ray/auth_token (`ray get-auth-token --generate`)"
        )
