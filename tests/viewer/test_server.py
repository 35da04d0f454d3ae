"""The server: recordings by id, a bounded number of live runs, and idle ones that are closed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from radt.runs.trace import read_contents, read_trial
from radt.viewer.conversation import Conversation
from radt.viewer.library import Library
from radt.viewer.security import Key
from radt.viewer.server import MOST_LIVE, STATIC, Rooms, build_app, listen
from tests.viewer.serving import SCRIPT, SCRIPTED

PORT = 8766
HERE = f"http://127.0.0.1:{PORT}"
PATH = "/secret"
LIVE = f"ws://127.0.0.1:{PORT}{PATH}/api/live"


def client(folder: Path | None, rooms: Rooms | None = None) -> TestClient:
    key = Key(PORT, path=PATH)
    app = build_app(Library(folder), key, rooms)
    headers = {"cookie": f"{key.cookie_name}={key.cookie}", "origin": HERE}
    return TestClient(app, base_url=HERE + PATH, headers=headers)


@pytest.fixture(scope="module")
def page(runs: Path) -> Iterator[TestClient]:
    with client(runs) as opened:
        yield opened


def read(page: TestClient, path: str) -> Any:
    answer = page.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def trace(page: TestClient, runs: Path) -> str:
    (plain,) = [one for one in read(page, "/api/sources") if one["name"] == f"{runs.name}/plain"]
    return f"/api/sources/{plain['id']}/traces/0"


def test_every_file_of_the_page_is_served_with_its_kind(page: TestClient) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
    kinds[".svg"] = "image/svg+xml"
    for file in STATIC.iterdir():
        answer = page.get(f"/static/{file.name}")
        assert answer.content == file.read_bytes()
        assert answer.headers["content-type"].startswith(kinds[file.suffix])
    assert page.get("/").content == (STATIC / "index.html").read_bytes()


def test_the_page_asks_nobody_else() -> None:
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text.replace("`ws://${location.host}", "")
        assert not any(word in text for word in ("innerHTML", "outerHTML", "insertAdjacentHTML"))
        assert not any(word in text for word in ("eval(", "document.write", "new Function"))
        assert 'style="' not in text


def test_a_recording_is_described(page: TestClient, trace: str) -> None:
    described = read(page, trace)
    assert (described["env"], described["method"], described["cut"]) == ("scripted", "ra-dt", None)
    assert [task["task"] for task in described["tasks"]] == list(SCRIPTED.eval_tasks)
    for task in described["tasks"]:
        assert SCRIPT in task["says"]  # the page, not the server, keeps it from being run
        assert task["trials"] == [0, 1, 2]
        assert task["optimum"] == SCRIPTED.optimal_return(task["task"])


def test_a_recorded_trial_is_the_one_that_was_lived(
    page: TestClient, trace: str, runs: Path
) -> None:
    path = runs / "plain" / "trace.jsonl"
    for (task, trial), place in read_contents(path).trials.items():
        shown, line = read(page, f"{trace}/tasks/{task}/trials/{trial}"), read_trial(path, place)
        assert shown["cells"] == line["states"]
        assert shown["actions"] == line["actions"]
        assert shown["entries"] == line["entries"]
        goal = divmod(SCRIPTED.room.goal(task), SCRIPTED.room.width)
        assert shown["marks"][0]["marks"]["goal"] == list(goal)
        assert (shown["ground"]["width"], shown["ground"]["height"]) == (4, 3)


@pytest.mark.parametrize("tail", ["/tasks/4/trials/99", "/tasks/99/trials/0", "/tasks/x/trials/0"])
def test_what_was_not_recorded_is_not_found(page: TestClient, trace: str, tail: str) -> None:
    assert page.get(trace + tail).status_code == 404


@pytest.mark.parametrize("content", ["", "nonsense\n", '{"radt_trace": 2, "env": "nowhere"}\n'])
def test_a_broken_recording_is_explained(tmp_path: Path, content: str) -> None:
    (tmp_path / "trace.jsonl").write_text(content)
    with client(tmp_path) as page:
        (source,) = [one for one in read(page, "/api/sources") if one["traces"]]
        answer = page.get(f"/api/sources/{source['id']}/traces/0")
        assert answer.status_code in (404, 422)
        assert answer.json()["message"]


def test_a_damaged_trial_is_explained(tmp_path: Path, runs: Path) -> None:
    text = (runs / "plain" / "trace.jsonl").read_text()
    (tmp_path / "trace.jsonl").write_text(text.replace('"states": [[', '"states": [["x", ', 1))
    with client(tmp_path) as page:
        (source,) = [one for one in read(page, "/api/sources") if one["traces"]]
        answer = page.get(f"/api/sources/{source['id']}/traces/0/tasks/4/trials/0")
        assert answer.status_code == 422


def test_live_runs_are_bounded_and_make_room_again(runs: Path) -> None:
    with client(runs) as page, ExitStack() as stack:
        sockets = [stack.enter_context(page.websocket_connect(LIVE)) for _ in range(MOST_LIVE)]
        for socket in sockets:
            socket.send_text('{"do": "advance"}')
            assert socket.receive_json()["kind"] == "error"  # open: it answers
        with page.websocket_connect(LIVE) as refused:
            assert str(MOST_LIVE) in refused.receive_json()["message"]
            with pytest.raises(WebSocketDisconnect) as closed:
                refused.receive_json()
            assert closed.value.code == 1013
        sockets[0].close()
        for _ in range(200):
            with page.websocket_connect(LIVE) as welcome:
                welcome.send_text('{"do": "advance"}')
                if "no agent acts" in welcome.receive_json()["message"]:
                    return
            time.sleep(0.01)
        pytest.fail("the place of a page that left is never given to another")


def test_an_idle_run_is_closed(runs: Path) -> None:
    rooms = Rooms(idle_seconds=0.05)
    with client(runs, rooms) as page, page.websocket_connect(LIVE) as socket:
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
        assert (closed.value.code, closed.value.reason) == (1013, "idle")
    assert rooms.open == 0


def test_bytes_are_not_understood(runs: Path) -> None:
    with client(runs) as page, page.websocket_connect(LIVE) as socket:
        socket.send_bytes(b"\x00\x01")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_a_mistake_of_the_server_is_reported_without_details(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr(Conversation, "answer", fail)
    with client(runs) as page, page.websocket_connect(LIVE) as socket:
        socket.send_text("{}")
        answer = socket.receive_json()
    assert answer["kind"] == "error"
    assert "secret" not in answer["message"]


def test_a_run_lives_over_the_socket(page: TestClient, runs: Path) -> None:
    (plain,) = [one for one in read(page, "/api/sources") if one["name"] == f"{runs.name}/plain"]
    with page.websocket_connect(LIVE) as socket:
        socket.send_json({"do": "start", "source": plain["id"], "goal": [2, 3]})
        started = socket.receive_json()
        assert (started["env"], started["pick"]) == (SCRIPTED.name, ["goal"])
        socket.send_json({"do": "advance", "steps": 12})
        events = socket.receive_json()["events"]
    assert events[0]["event"] == "trial"


def test_only_this_machine_can_reach_the_port() -> None:
    listener = listen(0)
    assert listener.getsockname()[0] == "127.0.0.1"
    taken = listener.getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        listen(taken)
    listener.close()
