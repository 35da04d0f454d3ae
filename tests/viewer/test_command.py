"""`radt view`: where it says the page is, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import urllib.request
import webbrowser
from pathlib import Path

import pytest

from radt import cli
from radt.commands.demo_view import open_privately
from radt.viewer.server import listen


def test_it_prints_an_address_and_ends_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "radt.cli", "view", str(tmp_path), "--port", "0", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        for page in (address, address.partition("?")[0]):
            with opener.open(page) as answer:
                assert b"<title>radt view</title>" in answer.read()
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=60)
    assert (server.returncode, errors) == (0, "")


def test_the_secret_is_not_on_the_command_line_of_the_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    open_privately("http://127.0.0.1:1/?token=secret")
    (file,) = tmp_path.iterdir()
    assert opened == [file.as_uri()]
    assert "token=secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "nowhere is no folder"),
        (["--port", "70000"], "--port must lie in"),
        (["--port", "-1"], "--port must lie in"),
    ],
)
def test_mistakes_are_explained(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.main(["view", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_taken_port_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    listener = listen(0)
    taken = listener.getsockname()[1]
    assert cli.main(["view", "--port", str(taken)]) == 2
    listener.close()
    assert f"port {taken} cannot be used" in capsys.readouterr().err


def test_missing_libraries_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "radt.viewer.server", None)
    assert cli.main(["view"]) == 2
    assert "pip install 'radt[view]'" in capsys.readouterr().err
