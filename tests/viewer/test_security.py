"""Who may talk to the viewer, and what it never gives away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from radt.viewer.library import Library
from radt.viewer.security import HEADERS, Key
from radt.viewer.server import build_app

PORT = 8765
HERE = f"http://127.0.0.1:{PORT}"
PATH = "/secret"
LIVE = f"ws://127.0.0.1:{PORT}{PATH}/api/live"


@pytest.fixture(scope="module")
def key() -> Key:
    return Key(PORT, path=PATH)


@pytest.fixture(scope="module")
def stranger(runs: Path, key: Key) -> Iterator[TestClient]:
    """Somebody without the token."""
    app = build_app(Library(runs), key)
    with TestClient(app, base_url=HERE + PATH, follow_redirects=False) as client:
        yield client


@pytest.fixture
def page(stranger: TestClient, key: Key) -> Iterator[TestClient]:
    """The page itself, after the exchange of the token."""
    stranger.cookies.set(key.cookie_name, key.cookie)
    yield stranger
    stranger.cookies.clear()


def test_the_token_is_exchanged_for_a_strict_cookie(stranger: TestClient, key: Key) -> None:
    answer = stranger.get("/", params={"token": key.token})
    assert answer.status_code == 200
    assert key.token not in answer.text
    assert key.cookie not in answer.text
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{key.cookie_name}={key.cookie};")
    assert {"HttpOnly", "SameSite=strict", f"Path={PATH}/"} <= set(cookie.split("; "))
    assert key.token not in cookie
    assert "Domain" not in cookie
    stranger.cookies.clear()


@pytest.mark.parametrize("path", ["/", "/api/sources", "/static/app.js", "/nowhere"])
def test_nothing_is_shown_without_the_cookie(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert "radt view" in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "x" * 10_000])
def test_a_wrong_token_opens_nothing(stranger: TestClient, token: str) -> None:
    answer = stranger.get("/", params={"token": token})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_the_token_opens_only_the_front_door(stranger: TestClient, key: Key) -> None:
    assert stranger.get("/api/sources", params={"token": key.token}).status_code == 401
    stranger.cookies.set(key.cookie_name, key.token)
    assert stranger.get("/").status_code == 401
    stranger.cookies.clear()


def handshake(client: TestClient, key: Key, **headers: str | None) -> int | None:
    """Try to open a socket as the page does, but for some headers; return the code of a refusal."""
    usual = {"host": HERE[7:], "origin": HERE, "cookie": f"{key.cookie_name}={key.cookie}"}
    given = {name: value for name, value in {**usual, **headers}.items() if value is not None}
    try:
        with client.websocket_connect(LIVE, headers=given) as socket:
            socket.send_text('{"do": "nothing"}')
            assert socket.receive_json()["kind"] == "error"
    except WebSocketDisconnect as refused:
        return refused.code
    return None


def test_the_page_itself_may_open_a_socket(stranger: TestClient, key: Key) -> None:
    assert handshake(stranger, key) is None


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:80", "localhost", ""]
)
def test_a_rebinding_host_is_refused(page: TestClient, key: Key, host: str) -> None:
    assert page.get("/", headers={"host": host}).status_code == 421
    assert handshake(page, key, host=host) == 1008
    assert handshake(page, key, host=host, origin=f"http://{host}") == 1008


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", f"http://evil.example:{PORT}", "null", "http://127.0.0.1", "",
     f"https://127.0.0.1:{PORT}"],
)  # fmt: skip
def test_a_foreign_origin_is_refused(page: TestClient, key: Key, origin: str) -> None:
    assert page.get("/api/sources", headers={"origin": origin}).status_code == 403
    assert handshake(page, key, origin=origin) == 1008


def test_a_socket_needs_an_origin_and_the_cookie(stranger: TestClient, key: Key) -> None:
    assert handshake(stranger, key, origin=None) == 1008
    assert handshake(stranger, key, cookie=None) == 1008
    assert handshake(stranger, key, cookie=f"{key.cookie_name}={key.token}") == 1008


def test_own_names_are_welcome(page: TestClient) -> None:
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"):
        headers = {"host": host, "origin": f"http://{host.lower()}"}
        assert page.get("/api/sources", headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_possible(page: TestClient, method: str) -> None:
    assert page.request(method, "/api/sources").status_code == 405


@pytest.mark.parametrize("path", ["/", "/api/sources", "/static/app.js", "/nowhere", "/static/x"])
@pytest.mark.parametrize("known", [True, False])
def test_every_answer_carries_the_policy_and_no_cors(
    stranger: TestClient, key: Key, path: str, known: bool
) -> None:
    if known:
        stranger.cookies.set(key.cookie_name, key.cookie)
    answer = stranger.get(path, headers={"origin": HERE})
    stranger.cookies.clear()
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert "*" not in answer.headers["content-security-policy"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/....//server.py",
        "/static/%2fetc%2fpasswd",
        "/api/sources/../../../etc/passwd/traces/0",
        "/api/sources/..%2f..%2fetc%2fpasswd/traces/0",
        "/api/sources/plain/traces/0",
        "/api/sources/%00/traces/0",
        "/api/sources/shipped-dark-room-10x10/traces/0",
        "/api/sources/shipped-dark-room-10x10/traces/-1",
    ],
)
def test_no_path_leads_out(page: TestClient, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code in (404, 405)
    assert "import" not in answer.text
    assert "root:" not in answer.text


@given(name=st.text(max_size=40))
def test_only_ids_that_are_listed_are_known(runs: Path, name: str) -> None:
    library = Library(runs)
    if name not in {source.id for source in library.sources()}:
        with pytest.raises(KeyError, match="unknown run"):
            library.find(name)


def test_two_servers_have_other_secrets() -> None:
    one, other = Key(1), Key(2)
    assert len({one.token, one.cookie, other.token, other.cookie}) == 4
    assert min(map(len, (one.token, one.cookie))) >= 40
    assert one.path != other.path  # so browsers send a cookie to no other port
    assert len(one.path) > 20
    assert one.cookie_name != other.cookie_name
