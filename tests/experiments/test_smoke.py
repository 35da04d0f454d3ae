"""One experiment of each kind at smoke budget, from nothing to its page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from radt import cli
from radt.experiments import EXPERIMENTS

KINDS = ("slippery-room", "visits", "tuning", "key-door-data", "efficiency-inference")
MINE = """
from radt.experiments import EXPERIMENTS, Experiment, Study

EXPERIMENTS.register(
    "mine", Experiment(name="mine", paper="Mine.", studies=(Study("dark-room-10x10", ("replay",)),))
)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give all kinds one folder, as they share data and runs."""
    return tmp_path_factory.mktemp("smoke")


def reproduce(place: Path, *words: str) -> int:
    folders = (f"--out={place / 'runs'}", f"--results={place / 'results'}")
    common = ("--budget=smoke", "--threads=1", "--quiet", "--json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADT_HOME", str(place / "data"))
        return cli.main(["reproduce", *words, *folders, *common])


@pytest.mark.parametrize("name", KINDS)
def test_one_of_each_kind(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(place, name) == 0
    result = json.loads(capsys.readouterr().out)
    experiment, folder = EXPERIMENTS[name], place / "results" / name
    assert result == json.loads((folder / "result.json").read_text())
    assert (folder / "result.md").is_file()
    assert bool(result["rows"]) == (experiment.kind in ("compare", "tune", "bench"))
    before = {file: file.stat().st_mtime_ns for file in place.rglob("icl.json")}
    assert reproduce(place, name) == 0  # nothing is left, so nothing is made again
    assert json.loads(capsys.readouterr().out) == result
    assert {file: file.stat().st_mtime_ns for file in place.rglob("icl.json")} == before
    assert reproduce(place, name, "--dry-run") == 0
    (plan,) = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["state"], plan["hours"]) == ("published", 0.0)


def test_finished_tries_that_a_killed_process_left_are_noted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = place / "results" / "tuning.jsonl"
    if not log.exists():
        assert reproduce(place, "tuning") == 0
    before = [json.loads(line)["label"] for line in log.read_text().splitlines()]
    log.write_text(log.read_text().splitlines(keepends=True)[0])
    assert reproduce(place, "tuning") == 0
    capsys.readouterr()
    assert [json.loads(line)["label"] for line in log.read_text().splitlines()] == before


def test_the_kinds_are_all() -> None:
    named = {EXPERIMENTS[name].kind for name in KINDS}
    assert {EXPERIMENTS[name].kind for name in EXPERIMENTS.names()} == named


def test_what_is_published_with_older_values_is_run_anew_when_asked(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, label = "slippery-room", "retrace-seed0"
    assert reproduce(place, name) == 0
    kept = place / "results" / "dark-room-10x10-slip" / label
    for folder in (kept, place / "runs" / "dark-room-10x10-slip" / label):
        file = folder / "config.json"
        file.write_text(file.read_text().replace('"trials": 2', '"trials": 3'))
    older = (kept / "icl.json").stat().st_mtime_ns
    another = shutil.copytree(kept, kept.with_name("retrace-seed1"))  # of the same older values
    assert reproduce(place, name) == 0
    assert (kept / "icl.json").stat().st_mtime_ns == older
    capsys.readouterr()
    assert reproduce(place, name, "--again", "--dry-run") == 0
    (plan,) = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["state"], plan["runs"]["changed"]) == ("config changed since", 1)
    assert reproduce(place, name, "--again") == 0
    assert (kept / "icl.json").stat().st_mtime_ns > older
    assert '"trials": 2' in (kept / "config.json").read_text()
    assert not another.exists(), "a row has one config"
    capsys.readouterr()
    assert reproduce(place, name, "--dry-run") == 0
    (plan,) = json.loads(capsys.readouterr().out)["plan"]
    assert plan["state"] == "published"


def test_weights_of_seed_0_are_published(place: Path) -> None:
    kept = place / "results" / "dark-room-10x10-slip" / "ra-dt+-seed0" / "model.safetensors"
    worked = place / "runs" / "dark-room-10x10-slip" / "ra-dt+-seed0" / "model.safetensors"
    assert kept.read_bytes() == worked.read_bytes()


@pytest.mark.usefixtures("plug_ins")
def test_a_file_of_others_adds_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine_experiment.py"
    file.write_text(MINE)
    monkeypatch.setenv("RADT_PLUGINS", str(file))
    import radt.plugins

    radt.plugins.load_file(file)
    assert reproduce(tmp_path) == 0
    listed = {one["entry"]: one for one in json.loads(capsys.readouterr().out)["experiments"]}
    assert listed["mine"]["state"] == "never run"
    assert listed["dark-room"]["claim"] == "C1, C2, C4"
