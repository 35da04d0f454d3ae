"""`radt new` writes files that work at once."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import radt.api  # registers all that is built in before a test copies it  # noqa: F401
from radt import cli
from radt.envs import SUITES
from radt.envs.check import check_suite
from radt.runs.presets import unknown_in_recipes
from tests.contracts import method as method_contract

SMOKE = ("--threads", "1", "--quiet", "--json")
LESS = ("--set", "evaluate.trials=1", "evaluate.controls=[]")


pytestmark = pytest.mark.usefixtures("plug_ins")


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADT_HOME", raising=False)


def new(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> list[list[str]]:
    """Write a file and plug it in; return the commands that are advised, without plug-ins."""
    assert cli.main(["new", *words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    monkeypatch.setenv("RADT_PLUGINS", answer["file"])
    given = [shlex.split(line) for line in answer["next"]]
    assert {words[0] for words in given} == {f"RADT_PLUGINS={answer['file']}"}
    assert {words[1] for words in given} == {"radt"}
    return [words[2:] for words in given]


@pytest.mark.parametrize("kind", ["suite", "method", "dataset"])
def test_a_new_file_runs_at_once(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = new(capsys, monkeypatch, kind, "my-own")
    assert len(commands) == 3
    for words in commands:
        if "smoke" in words or "--dry-run" in words or words[0] != "run":
            more = ("--quiet", "--json") if words[0] not in ("run", "collect") else SMOKE
            more += LESS if words[0] == "run" else ()
            assert cli.main([*words, *more]) == 0, capsys.readouterr().err
        else:
            cli.parse(words)
    run = Path("runs/my-own-smoke")
    assert np.isfinite(json.loads((run / "icl.json").read_text())["returns"]).all()
    assert (run / "report.html").is_file()


def test_a_new_suite_keeps_the_contract(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new(capsys, monkeypatch, "suite", "my-own", "--out", "other.py")
    suite = SUITES["my-own"]
    assert [found for found in check_suite(suite) if found.problems] == []
    assert list(unknown_in_recipes(suite)) == []


def test_a_new_method_keeps_the_contract(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    new(capsys, monkeypatch, "method", "my-own")
    suite = SUITES["dark-room-10x10"]
    dataset = method_contract.toy_dataset(suite, tmp_path / "toy")
    method_contract.check_learning("my-own", suite, dataset)


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_own.py").write_text("mine")
    assert cli.main(["new", "suite", "my-own"]) == 2
    assert "--out FILE" in capsys.readouterr().err
    assert Path("my_own.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("suite", "procgen"), ("method", "ra-dt+"), ("dataset", "npz"), ("suite", "a/b")],
)
def test_a_name_that_is_taken_or_no_name_is_refused(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["new", kind, name]) == 2
    assert repr(name) in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []
