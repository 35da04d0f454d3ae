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
import json
import os
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from radt.data.store import home
from radt.engine import EngineError, Job, Message, Work, messages, with_retries
from radt.errors import MissingError
from radt.registry import PLUGINS, plugin_files

SECRETS = ("RADT_MEMORY_DSN", "PGPASSWORD")  # no job needs them
LOOPBACK = "127.0.0.1"
OBJECTS = 128 * 2**20  # bytes of shared memory: jobs and results are small


@dataclass(frozen=True)
class RayEngine:
    """Does jobs on the Ray cluster that this process is connected to."""

    workers: int
    cpus: float = 1.0  # of each job
    gpus: float = 0.0

    def map(self, work: Work[Job], jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        return with_retries(partial(self._attempt, work), jobs)

    def _attempt(self, work: Work[Job], jobs: Mapping[int, Job]) -> Iterator[Message]:
        """Do each job once, as a task of the cluster, and cancel what runs when nobody listens."""
        import ray

        # Ray would try again by itself, but counts on hearing the same as before.
        remote = ray.remote(num_returns="streaming", max_retries=0)(_json_messages)
        name = getattr(work, "__name__", "job")
        task = remote.options(num_cpus=self.cpus, num_gpus=self.gpus, name=name)
        waiting, running = deque(jobs.items()), dict[Any, int]()
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    place, job = waiting.popleft()
                    running[task.remote(work, job)] = place
                told = ray.wait(list(running), num_returns=1)[0][0]
                place = running[told]
                kind, content = _next_message(told)
                if kind != "says":
                    del running[told]
                yield place, kind, content
        finally:
            for told in running:
                ray.cancel(told, force=True)


def _json_messages(work: Work[Job], job: Job) -> Iterator[bytes]:
    """Do a job on the cluster, from which only JSON comes back."""
    for message in messages(work, job):
        yield json.dumps(message).encode()


def _next_message(told: Any) -> tuple[str, Any]:
    """Take one message of a task, or notice that its worker is dead."""
    import ray

    try:
        kind, content = json.loads(ray.get(next(told)))
    except ray.exceptions.RayError as error:
        return "failed", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return kind, content


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
        host = ray.util.get_node_ip_address()
        if address is None and not is_loopback(host):
            raise EngineError(
                f"Ray listens on {host} instead of {LOOPBACK}, because it was imported before; "
                "open the engine first, or set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0"
            )
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
    disabled = environ.get("RAY_AUTH_MODE", "token").lower() == "disabled"
    if not is_loopback(host_of(address)) and (disabled or not has_token(environ, home)):
        problem = "RAY_AUTH_MODE=disabled" if disabled else "there is no token for it"
        raise EngineError(
            f"{address} is not on this machine and {problem}: anybody who reaches it could run "
            "code on it. Start the cluster with RAY_AUTH_MODE=token, set no other mode here, and "
            "give its token in RAY_AUTH_TOKEN, in a file named by RAY_AUTH_TOKEN_PATH, or in "
            "~/.ray/auth_token (`ray get-auth-token --generate`)"
        )
