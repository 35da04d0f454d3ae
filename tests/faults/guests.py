"""A hostile guest at the viewer: noise, odd requests and odd questions to a live run."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.envs.suite import SUITES
from radt.viewer.conversation import Conversation
from radt.viewer.library import Library
from radt.viewer.security import Key
from radt.viewer.server import answered
from tests.faults.battery import Case
from tests.viewer.serving import SCRIPTED, serving, write_run

SECRET = "what nobody was given"
LONGEST = 30.0  # seconds until a guest is answered or shown out
PATHS = (
    *(
        "/",
        "/api/sources",
        "/api/live",
        "/static/app.js",
        "/static/../server.py",
        "/static/%2e%2e/",
    ),
    *(
        "/static/%2e%2e/",
        "/static/..%2f..%2fsecret",
        "/api/sources/run/traces/0",
        "/api/sources/..%2f/traces/0",
    ),
    *("/api/sources/run/traces/99", "/api/sources/run/traces/0/trials/0/0", "/%00", "//", "*", ""),
    *("/api/sources/run/traces/0/trials/-1/9", "/api/sources/../../secret", "/\xff", "?token=x"),
    *("http://evil.example/", "/" + "x" * 9000, "/static/%ff", "/api/sources/%0d%0aX:1/traces/0"),
)
METHODS = ("GET", "GET", "HEAD", "POST", "G\x00T", "")
HEADERS = (
    *("Host: evil.example", "Origin: null", "Origin: http://evil.example", "Content-Length: -1"),
    *("Content-Length: 99999999999", "Transfer-Encoding: chunked", "Upgrade: websocket"),
    *("Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13", "X: y"),
    *(
        "X: " + "y" * 70_000,
        "Range: bytes=0-,-1",
        "Cookie: radt=x",
        ": x",
        "no colon",
        "\x00: \x01",
    ),
    *("Accept-Encoding: " + "gzip," * 999, "Expect: 100-continue", "Host: ", "If-None-Match: *"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 10**9, 2**70, 0.5, -1e308, "", "x", "../..", "run", "scripted", [], {}),
    *([0, 0], [1, 2], [-1, 99], [[0]], {"a": 1}, "9" * 3000, "\ud800", ["x", None]),
)
FIELDS: Mapping[str, tuple[str, ...]] = {
    "start": ("source", "env", "task", "goal", "key", "seed", "nope"),
    "advance": ("steps", "nope"),
    "change": ("alpha", "top_k", "temperature", "retrieve_every", "nope", "blocked", "frozen"),
}
Guest = Callable[[Key, Conversation, np.random.Generator], str]


def choice(values: Any, rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]


def received(key: Key, sent: bytes, patience: float = 0.3) -> bytes:
    """Send something and read until the server has said all, or hangs up."""
    parts = list[bytes]()
    with socket.create_connection(("127.0.0.1", key.port), timeout=patience) as guest:
        try:
            guest.sendall(sent)
            while part := guest.recv(65536):
                parts.append(part)
        except TimeoutError:  # it waits for more
            with suppress(OSError):
                guest.shutdown(socket.SHUT_WR)
                guest.settimeout(LONGEST)
                parts += iter(lambda: guest.recv(65536), b"")
        except ConnectionError:
            pass  # it has had enough
    return b"".join(parts)


def noise(key: Key, _: Conversation, rng: np.random.Generator) -> str:
    """Send what is no request, or the beginning of one."""
    begun = b"GET / HTTP/1.1\r\nHost: " if rng.integers(2) else b""
    answer = received(key, begun + rng.bytes(int(rng.integers(1, 70_000))))
    return "clean" if not answer or b" 400 " in answer[:20] else f"silent wrong: {answer[:40]!r}"


def request(key: Key, _: Conversation, rng: np.random.Generator) -> str:
    """Ask for something odd, with or without the cookie."""
    known = bool(rng.integers(2))
    path = ("" if rng.random() < 0.2 else key.path) + choice(PATHS, rng)
    lines = [f"{choice(METHODS, rng)} {path} HTTP/1.1"]
    lines += [f"Host: 127.0.0.1:{key.port}"] * int(rng.integers(2))
    lines += [choice(HEADERS, rng) for _ in range(int(rng.integers(4)))]
    lines += [f"Cookie: {key.cookie_name}={key.cookie}"] if known else []
    content = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
    answer = received(key, content + rng.bytes(int(rng.integers(99))))
    return judged(answer, known)


def judged(answer: bytes, known: bool) -> str:
    """Nothing is shown to strangers, nothing from elsewhere to anybody."""
    if b" 500 " in answer.split(b"\r\n")[0]:
        return f"tracebacks: {answer[:80]!r}"
    shown = any(line.startswith(b"HTTP/1.1 2") for line in answer.split(b"\r\n"))
    is_wrong = SECRET.encode() in answer or (shown and not known)
    return f"silent wrong: {answer[:80]!r}" if is_wrong else "clean"


def question(_: Key, conversation: Conversation, rng: np.random.Generator) -> str:
    """Ask a live run something odd."""
    do = choice((*FIELDS, *FIELDS, "nope"), rng)
    asked: dict[str, Any] = {"do": do}
    if do == "start" and rng.random() < 0.7:
        asked["source"] = "run"
    fields = FIELDS.get(do, ("x",))
    asked |= {choice(fields, rng): choice(VALUES, rng) for _ in range(int(rng.integers(3)))}
    texts = ("[" * 4000, "", "null", "[]", '{"do": {}}', '{"do": "start", "do": 1}', "NaN", "\x00")
    text = json.dumps(asked) if rng.random() < 0.9 else choice(texts, rng)
    said = json.loads(answered(conversation, text))
    if "the server made a mistake" in str(said.get("message")):
        return f"tracebacks: {text[:200]}"
    return (
        "clean" if said["kind"] in ("error", "started", "advanced", "changed") else "silent wrong"
    )


GUESTS: tuple[Guest, ...] = (noise, request, question, request, question)


def visit(folder: Path, cases: range) -> Iterator[Case]:
    """Open the viewer, and let guests come; the owner is answered all the while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SUITES._items, SCRIPTED.name, SCRIPTED)
        if not (folder / "runs").exists():
            write_run(folder / "runs" / "run")
            (folder / "secret").write_text(SECRET)
            (folder / "runs" / "run" / "out").symlink_to(folder / "secret")
        conversation = Conversation(Library(folder / "runs"))
        with serving(folder / "runs") as key:
            owner = f"GET {key.path}/ HTTP/1.1\r\nHost: 127.0.0.1:{key.port}\r\nConnection: close"
            cookie = f"\r\nCookie: {key.cookie_name}={key.cookie}\r\n\r\n"
            for case in cases:
                guest = GUESTS[case % len(GUESTS)]
                said = guest(key, conversation, np.random.default_rng(case))
                if b" 200 " not in received(key, (owner + cookie).encode(), LONGEST)[:20]:
                    said = "hangs: the owner is not answered any more"
                yield case, guest.__name__, said
