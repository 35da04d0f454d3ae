"""Strangers who hold connections open, or send nonsense, cost little and keep nobody out."""

from __future__ import annotations

import logging
import os
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.applications import Starlette

from radt.viewer import server
from radt.viewer.security import Key
from radt.viewer.server import BoundedLog, configured, listen
from tests.viewer.serving import serving

MOST = 8


def read(key: Key) -> bytes:
    """Open the page."""
    with urllib.request.urlopen(key.address, timeout=30) as answer:
        return bytes(answer.read())


def begun(key: Key) -> socket.socket:
    """Begin a request that never ends."""
    opened = socket.create_connection(("127.0.0.1", key.port), timeout=30)
    opened.sendall(b"GET / HTTP/1.1\r\nHost: ")
    return opened


def is_ended(connection: socket.socket) -> bool:
    """Wait until the server hangs up."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def test_those_that_come_at_once_are_not_too_many_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", MOST)
    monkeypatch.setattr(server, "HEADER_SECONDS", 3600.0)
    with ExitStack() as stack:
        held = list[socket.socket]()

        def crowded(port: int) -> socket.socket:
            listener = listen(port)
            key = Key(listener.getsockname()[1])
            held.extend(stack.enter_context(begun(key)) for _ in range(5 * MOST))
            return listener

        monkeypatch.setattr("tests.viewer.serving.listen", crowded)
        with serving(None) as key:
            assert b"radt view" in read(key)
            assert all(is_ended(one) for one in held[: 4 * MOST])


def test_strangers_hold_no_place() -> None:
    """Whatever they are still sending."""
    with serving(None) as key:
        host = f"GET {{}} HTTP/1.1\r\nHost: 127.0.0.1:{key.port}\r\n"
        for path, more in (
            ("/", ""),
            (f"{key.path}/api/sources", "Content-Length: 1000000\r\n"),
            ("/x", "Transfer-Encoding: chunked\r\n"),
            ("/", "Origin: http://evil.example\r\n"),
        ):
            with socket.create_connection(("127.0.0.1", key.port), timeout=30) as stranger:
                stranger.sendall(f"{host.format(path)}{more}\r\n".encode())
                assert b"connection: close" in stranger.recv(4096).lower()
                assert is_ended(stranger)


def test_half_open_connections_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", MOST)
    with serving(None) as key, ExitStack() as stack:
        held = [stack.enter_context(begun(key)) for _ in range(5 * MOST)]
        assert b"radt view" in read(key)
        assert is_ended(held[0]), "the oldest had to go"


def test_headers_must_come_in_time_also_those_of_a_second_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    with serving(None) as key:
        with begun(key) as slow:
            assert is_ended(slow)
        with socket.create_connection(("127.0.0.1", key.port), timeout=30) as again:
            asked = f"GET {key.path}/ HTTP/1.1\r\nHost: 127.0.0.1:{key.port}\r\n"
            again.sendall(f"{asked}Cookie: {key.cookie_name}={key.cookie}\r\n\r\n".encode())
            assert b" 200 " in again.recv(4096)
            again.sendall(b"GET / HT")
            assert is_ended(again)


def test_the_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test-of-bounded-log")
    bounded = BoundedLog(most=3, seconds=3600.0)
    logger.addFilter(bounded)
    try:
        for number in range(1000):
            logger.error("nonsense %d", number)
        assert caplog.messages == ["nonsense 0", "nonsense 1", "more such lines are left out"]
        bounded.since -= 3601.0
        logger.error("later")
    finally:
        logger.removeFilter(bounded)
    assert caplog.messages[-1] == "later"


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on Unix")
def test_names_that_are_not_utf8_are_listed(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/run-\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes UTF-8 only")
    (folder / "trace.jsonl").write_text("{}")
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with serving(tmp_path) as key:
        opener.open(key.address, timeout=30).close()
        with opener.open(f"{key.address.partition('?')[0]}api/sources", timeout=30) as answer:
            assert b"run-\\udcff" in answer.read()


def test_serving_closes_no_handler_of_others() -> None:
    class Handler(logging.Handler):
        closed = False

        def close(self) -> None:
            self.closed = True
            super().close()

    others = Handler()
    configured(Starlette())
    assert not others.closed
