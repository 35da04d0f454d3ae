"""Strangers who hold connections open, or send nonsense, cost little and keep nobody out."""

from __future__ import annotations

import logging
import os
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from radt.viewer import connections
from radt.viewer.connections import BoundedLog
from radt.viewer.security import Key
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


def test_half_open_connections_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", MOST)
    with serving(None) as key, ExitStack() as stack:
        held = [stack.enter_context(begun(key)) for _ in range(5 * MOST)]
        assert b"radt view" in read(key)
        assert is_ended(held[0]), "the oldest had to go"


def test_headers_must_come_in_time_also_those_of_a_second_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with serving(None) as key:
        with begun(key) as slow:
            assert is_ended(slow)
        with socket.create_connection(("127.0.0.1", key.port), timeout=30) as again:
            again.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{key.port}\r\n\r\n".encode())
            assert b"401" in again.recv(4096)
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
