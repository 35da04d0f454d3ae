"""A real PostgreSQL server for tests: on 127.0.0.1, with passwords, in a folder of its own.

The package `pgserver` brings the programs. It starts them itself without TCP, so here they are
called by hand. As root, which PostgreSQL refuses, they run as `nobody`, from a copy that it can
read. `python -m tests.memory.postgres COMMAND ...` runs a command beside such a server, one that
waits for its disk, with $RADT_MEMORY_DSN set.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PACKAGES = ("psycopg", "pgvector", "pgserver")
MISSING = [name for name in PACKAGES if not importlib.util.find_spec(name)]
needs_server = pytest.mark.skipif(
    bool(MISSING),
    reason=f"no {', '.join(MISSING)}: pip install 'radt[server,dev]' to test against a real server",
)
USER, DATABASE = "agent_of_tests", "memories_of_tests"
PASSWORD = "s3cret/pa:ss@%word"  # a string that must turn up nowhere
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
max_connections = 40
shared_buffers = 16MB
fsync = off  # servers crash in tests, but the machine does not lose its power
"""


class TestServer:
    """A server that can be started, stopped and frozen."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        package = Path(str(importlib.util.find_spec("pgserver").origin)).parent  # type: ignore[union-attr]
        folder.chmod(0o755)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            shutil.chown(folder, "nobody")
            for part in ("pgserver/pginstall", "pgserver.libs"):
                shutil.copytree(package.parent / part, folder / part, symlinks=True)
            package = folder / "pgserver"
        self.programs = package / "pginstall" / "bin"
        self._make()

    def dsn(self, user: str = USER, password: str = PASSWORD, database: str = DATABASE) -> str:
        """Return a connection string."""
        return f"postgresql://{user}:{quote(password, '')}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._as,
            )
        self.wait()

    def wait(self, seconds: float = 60) -> None:
        """Wait until it lets somebody in."""
        import psycopg

        until = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.dsn("postgres", database="postgres")).close()
                return
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends all connections, SIGQUIT is as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start."""
        self.stop(how)
        self.start()

    def freeze(self) -> None:
        """Let nothing of it run, while its connections stay open."""
        for process in self._family():
            os.kill(process, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it run again."""
        for process in self._family():
            os.kill(process, signal.SIGCONT)

    def admin(self, *statements: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Run statements as the superuser; return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.dsn("postgres", database=database), autocommit=True) as session:
            for statement in statements:
                cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def drop_connections(self) -> None:
        """End the sessions of all clients."""
        clients = f"pg_stat_activity WHERE usename = '{USER}'"
        self.admin(f"SELECT pg_terminate_backend(pid) FROM {clients}")

    def _family(self) -> list[int]:
        import psutil

        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        return [parent.pid, *(child.pid for child in parent.children(recursive=True))]

    def _make(self) -> None:
        """Make the cluster, a user who is no superuser, and a database with pgvector in it."""
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if self._as:
            shutil.chown(secret, "nobody")
        options = ("--auth=scram-sha-256", "--no-sync", "--locale=C", "--encoding=UTF8")
        subprocess.run(
            [
                *(self.programs / "initdb", "-D", self.data, "-U", "postgres"),
                *("--pwfile", secret, *options),
            ],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            **self._as,
        )
        with (self.data / "postgresql.conf").open("a") as config:
            config.write(f"{SETTINGS}port = {self.port}\n")
        self.start()
        quoted = PASSWORD.replace("'", "''")
        self.admin(
            f"CREATE ROLE {USER} LOGIN PASSWORD '{quoted}'",
            f"CREATE DATABASE {DATABASE}",
            f"GRANT CREATE ON DATABASE {DATABASE} TO {USER}",
            database="postgres",
        )
        self.admin("CREATE EXTENSION vector")


def free_port() -> int:
    """Find a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def running_server() -> TestServer:
    """Start the server that all tests of this process share, and name it in the environment."""
    folder = Path(tempfile.mkdtemp(prefix="radt-postgres-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = TestServer(folder)
    atexit.register(server.stop)
    os.environ["RADT_MEMORY_DSN"] = server.dsn()
    return server


def place(folder: Path) -> str:
    """Name a memory on the server after a folder that only one test has."""
    running_server()
    return f"postgres:{hashlib.sha256(str(folder).encode()).hexdigest()[:20]}"


if __name__ == "__main__":
    running_server().admin("ALTER SYSTEM SET fsync = on", "SELECT pg_reload_conf()")
    sys.exit(subprocess.call(sys.argv[1:]))
