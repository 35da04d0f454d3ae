"""Ray: two nodes on 127.0.0.1 keep what an engine promises, and results do not depend on them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from radt.engine import Engine, open_engine
from radt.engine.on_ray import SECRETS, guard, is_loopback, secrets_hidden
from tests.engine.jobs import check_engine, last_words

SECRET = "postgresql://you:not-for-workers@127.0.0.1/memory"
NODE: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 100 * 2**20,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'radt[ray]'",
)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(ImportError, match=r"pip install 'radt\[ray\]'"), open_engine("ray"):
        pass


def test_processes_that_start_take_over_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, SECRET)
    with secrets_hidden():
        assert SECRET not in os.environ.values()
    assert [os.environ[name] for name in SECRETS] == [SECRET] * len(SECRETS)


def where_and_what(number: int) -> Iterator[dict[str, object]]:
    """Say on which node a job is, and what of this process' environment reached it."""
    import ray

    time.sleep(1.0)  # so that no node does all jobs
    yield {
        "node": ray.get_runtime_context().get_node_id(),
        "secrets": SECRET in os.environ.values(),
        "home": os.environ["RADT_HOME"],
        "number": number,
    }


def check_nodes(engine: Engine, home: Path, nodes: int) -> None:
    """All nodes work; they know where data are, and no secret of whoever asks or started them."""
    told = last_words(engine, where_and_what, list(range(3 * nodes)))
    assert [one["number"] for one in told] == list(range(3 * nodes))
    assert len({one["node"] for one in told}) == nodes
    assert {one["home"] for one in told} == {str(home)}
    assert not any(one["secrets"] for one in told)


def outlive(job: tuple[str, Path]) -> Iterator[str]:
    """Take the node down with us, unless it is the head; say who is left."""
    import ray

    (head, mark), here = job, ray.get_runtime_context().get_node_id()
    if here != head:
        mark.touch()
        for process in (os.getppid(), os.getpid()):
            os.kill(process, signal.SIGKILL)
    time.sleep(1.0)
    yield here


def check_lost_node(engine: Engine, mark: Path) -> None:
    """What a lost node was at is done by the others."""
    import ray

    head = ray.get_runtime_context().get_node_id()
    assert last_words(engine, outlive, [(head, mark)] * 4) == [head] * 4
    assert mark.exists()


def check_logs(token: str) -> None:
    """Nothing that Ray wrote down holds the token or a secret."""
    folder = Path("/tmp/ray/session_latest").resolve()
    assert folder.is_dir()
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert token.encode() not in content, file
            assert SECRET.encode() not in content, file


def check_doors() -> None:
    """Whatever Ray has started listens on this machine only."""
    ours = {process.pid for process in psutil.Process().children(recursive=True)}
    listening = [
        connection.laddr.ip
        for connection in psutil.net_connections("tcp")
        if connection.pid in ours and connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {host for host in listening if not is_loopback(host.removeprefix("::ffff:"))} == set()


@contextmanager
def two_ray_nodes() -> Iterator[str]:
    """Run two nodes of one processor each for a while; their address is on 127.0.0.1."""
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


def main(folder: Path) -> None:
    """Go through everything in a process of its own, which Ray changes for good."""
    from tests.engine.fanned_out import check_fanned_out

    os.environ |= dict.fromkeys(SECRETS, SECRET) | {"RADT_HOME": str(folder / "home")}
    with open_engine("ray", workers=1) as own:
        check_nodes(own, folder / "home", nodes=1)
    with two_ray_nodes() as address:
        assert address.startswith("127.0.0.1:")
        with open_engine("ray", address) as engine:
            assert engine.workers == 2
            check_doors()
            check_nodes(engine, folder / "home", nodes=2)
            (folder / "engine").mkdir()
            check_engine(engine, folder / "engine")
            check_fanned_out(engine, folder)
            check_lost_node(engine, folder / "lost")
            check_logs(os.environ["RAY_AUTH_TOKEN"])


@needs_ray
@pytest.mark.long
def test_two_nodes(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.test_on_ray", str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]))
