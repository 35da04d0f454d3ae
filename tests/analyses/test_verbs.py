"""The verbs `radt analyse`: each leaves a picture, its numbers and a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from radt import cli
from radt.checkpoint import save_checkpoint
from radt.envs.suite import SUITES
from tests.contracts.method import build_method, card_of
from tests.toys import TOY_GRID

NUMBERS = {
    "attention": {"attention", "chunks", "shown"},
    "visits": {"share_visited_by_trial", "share_visited_in_all_trials", "by_task"},
    "delusions": {"methods", "few_states"},
    "retrieval": {"own", "own_if_free", "by_trial", "middle_80_by_trial"},
}


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of an untrained RA-DT for the toy grid."""
    monkeypatch.setitem(SUITES._items, TOY_GRID.name, TOY_GRID)
    monkeypatch.chdir(tmp_path)
    method, path = build_method("ra-dt", TOY_GRID.spaces), tmp_path / "toy.safetensors"
    save_checkpoint(path, method, replace(card_of(method, "ra-dt"), env=TOY_GRID.name))
    return path


@pytest.mark.parametrize("name", NUMBERS)
def test_an_analysis_leaves_a_picture_and_its_numbers(
    name: str, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["analyse", name, str(weights), "--trials", "4", "--threads", "1"]
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    picture = weights.parent / f"{name}.png"
    assert picture.exists()
    assert json.loads(picture.with_suffix(".json").read_text())["verdict"] == told["verdict"]
    assert told["env"] == "toy-grid"
    assert NUMBERS[name] <= set(told)


def test_people_read_the_verdict_and_where_the_picture_is(
    weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["analyse", "delusions", str(weights), "--trials", "2", "--quiet"]
    assert cli.main([*words, "--out", "other.png"]) == 0
    shown = capsys.readouterr().out
    assert "`ra-dt`:" in shown
    assert "other.png, other.json" in shown
    assert (weights.parent / "other.png").exists()


def test_mistakes_are_explained(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["visits", str(weights), "--trials", "0"], "--trials must be at least 1"),
        (["attention", str(weights), "--steps", "1,99"], "each in 1..12, such as 1,5,10"),
        (["attention", str(weights), "--steps", ""], "is empty"),
        (["visits", str(weights), "--out", "a.json"], "must end in .png"),
        (["delusions", "nowhere"], "neither a run nor a checkpoint"),
    ):
        assert cli.main(["analyse", *words]) == 2
        assert said in capsys.readouterr().err
