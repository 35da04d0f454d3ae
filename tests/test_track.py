from __future__ import annotations

import builtins
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from radt.track import JsonLines, TensorBoard, Tracker, WandB


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_number_is_one_line_that_is_there_at_once(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "deep" / "log.jsonl")
    tracker = Tracker((sink,))
    tracker.start("train", total=10)
    tracker.log(5, loss=0.25, lr=1e-3)
    lines = read(tmp_path / "deep" / "log.jsonl")  # before it is closed
    assert lines[0].pop("time") > 1e9
    assert lines == [{"phase": "train", "step": 5, "loss": 0.25, "lr": 1e-3}]
    tracker.finish()
    tracker.close()


def test_a_second_start_appends_also_to_half_a_line_of_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for step, torn in ((1, '{"step": 2, "lo'), (3, "")):
        sink = JsonLines(path)
        sink.write("train", step, {"loss": 1.0})
        sink.close()
        with path.open("a") as file:
            file.write(torn)
    lines = path.read_text().splitlines()
    assert [json.loads(lines[place])["step"] for place in (0, 2)] == [1, 3]
    assert len(lines) == 3


def test_the_bar_shows_phase_and_numbers(capfd: pytest.CaptureFixture[str]) -> None:
    tracker = Tracker(quiet=False)
    tracker.start("train", total=10, done=3)
    tracker.advance(4, "so far")
    tracker.log(10, loss=0.125)
    tracker.finish()
    tracker.finish()
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "train" in shown.err
    assert "10/10" in shown.err


def test_a_narrow_terminal_cuts_the_last_number_and_what_is_done_says_so(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    tracker = Tracker(quiet=False)
    tracker.start("prepare", total=1)
    tracker.log(1, cut=160_000, cut_return=23.25, rewarded=35_000, rewarded_return=80.5)
    tracker.finish()
    (line,) = capfd.readouterr().err.rstrip().splitlines()
    assert "1/1 00:00 cut 160,000  cut_return 23.25" in line
    assert line.rstrip().endswith("…")
    tracker.start("train", total=10, done=10)
    tracker.finish()
    assert capfd.readouterr().err.rstrip().endswith("done")


def test_a_quiet_tracker_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    tracker = Tracker()
    tracker.start("train", total=2)
    tracker.log(2, loss=1.0)
    tracker.finish()
    assert capfd.readouterr() == ("", "")


def test_adapters_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith(("wandb", "torch.utils.tensorboard")):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'radt\[tensorboard\]'"):
        TensorBoard(tmp_path)
    with pytest.raises(ImportError, match=r"pip install 'radt\[wandb\]'"):
        WandB("project", "name", {})


def test_wandb_gets_names_with_their_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    run = types.SimpleNamespace(log=calls.append, finish=lambda: calls.append("finished"))
    fake = types.ModuleType("wandb")
    fake.init = lambda **settings: (calls.append(settings), run)[1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    sink = WandB("radt", "run", {"seed": 0})
    sink.write("train", 3, {"loss": 0.5})
    sink.close()
    assert calls == [
        {"project": "radt", "name": "run", "config": {"seed": 0}},
        {"train/loss": 0.5, "step": 3},
        "finished",
    ]


def test_tensorboard_writes_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[Any] = []

    class Writer:
        def __init__(self, folder: str) -> None:
            written.append(Path(folder).name)

        def add_scalar(self, *scalar: Any) -> None:
            written.append(scalar)

        def close(self) -> None:
            written.append("closed")

    fake = types.ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    sink = TensorBoard(tmp_path / "events")
    sink.write("train", 3, {"loss": 0.5})
    sink.close()
    assert written == ["events", ("train/loss", 0.5, 3), "closed"]
