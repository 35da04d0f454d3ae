"""What processes of this machine share out is what one process makes; the words that ask for it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radt import cli
from radt.engine import LocalEngine
from radt.loading import shipped
from radt.runs.roll_out import shared
from radt.runs.run import RunError
from tests.engine.fanned_out import ENV, check_fanned_out


def test_an_evaluation_is_that_of_one_process(tmp_path: Path) -> None:
    words = ["evaluate", str(shipped(ENV)), "--trials=1", "--seed=3", "--quiet"]
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    assert cli.main([*words, "--threads=1", f"--out={files[0]}"]) == 0
    assert cli.main([*words, "--workers=2", f"--out={files[1]}"]) == 0
    one, two = (json.loads(file.read_text()) for file in files)
    assert len(one["tasks"]) == len(one["returns"]) == 20
    for name in ("tasks", "returns", "first_reward"):
        assert one[name] == two[name]


@pytest.mark.long
def test_datasets_evaluations_and_runs_are_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "home"))
    check_fanned_out(LocalEngine(2), tmp_path)


def test_a_trace_is_of_one_process() -> None:
    how = shared(LocalEngine(2), load=lambda: pytest.fail("nothing is loaded"))
    with pytest.raises(RunError, match="leave out --trace"):
        how(None, None, None, observer=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "ray", "--address", "10.0.0.5:6379"], "there is no token for it"),
        (["--engine", "ray", "--address", "head"], "must be HOST:PORT"),
        (["--address", "127.0.0.1:6379"], "is for --engine ray"),
        (["--workers", "0"], "--workers must be at least 1, not 0"),
    ],
)
@pytest.mark.parametrize("verb", ["collect", "run"])
def test_what_cannot_be_done_is_said(
    verb: str,
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in [name for name in os.environ if name.startswith("RAY_AUTH")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert cli.main([verb, ENV, "--budget", "smoke", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert list(tmp_path.rglob("*.json")) == []  # nothing was begun


def test_a_comparison_is_not_for_torchrun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("WORLD_SIZE", 2), ("RANK", 1), ("LOCAL_WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert cli.main(["compare", ENV]) == 2
    assert "give it `radt run`" in capsys.readouterr().err
