"""The list of experiments and what they have left: nothing else, and to the digit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radt.experiments import EXPERIMENTS
from radt.experiments.experiment import Experiment, ExperimentError, Study
from radt.experiments.page import page
from radt.experiments.reproduce import (
    ANSWER,
    PAGE,
    Where,
    answers_of,
    result_of,
    runs_of,
    state_of,
    verdict_of,
    write_result,
)
from tests.experiments.published import made_by, unmade

RESULTS = Path(__file__).parents[2] / "results"
APART = (  # benchmarks, tries, a report, and what plug-ins leave (tests/test_example_suites.py)
    *("bench", "memory", "tuning.jsonl", "test-full.txt", "examples"),
)
KEYS = {"entry", "claim", "paper", "verdict", "rows", "code_version", "wall_seconds"}
ROW_KEYS = {
    *("label", "method", "env", "tasks", "rule", "seeds", "score", "ci95"),
    *("improves", "improves_ci95", "normalised", "per_task"),
}
WORDS = {"holds", "does not", "not reachable", "open"}


def test_every_result_was_made_by_an_experiment() -> None:
    assert unmade(RESULTS, APART) == []


def test_a_result_that_no_experiment_made_is_found(tmp_path: Path) -> None:
    for name in ("tuning.jsonl", "dark-room/result.json", "dark-room-10x10/ad-seed0/icl.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert unmade(tmp_path, APART) == []
    strange = [
        tmp_path / "dark-room-10x10" / "ad-seed0-old" / "icl.json",
        tmp_path / "dark-room-10x10" / "mine.json",
        tmp_path / "mine" / "result.json",
    ]
    for file in strange:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    assert unmade(tmp_path, APART) == sorted(strange)


PUBLISHED = [name for name in EXPERIMENTS.names() if (RESULTS / name / ANSWER).exists()]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_result_is_that_of_its_records(name: str) -> None:
    experiment, where = EXPERIMENTS[name], Where(results=RESULTS)
    file = RESULTS / name / ANSWER
    published = json.loads(file.read_text())
    assert published.keys() >= KEYS
    assert published["verdict"] in WORDS
    assert all(row.keys() >= ROW_KEYS for row in published["rows"])
    now = json.loads(json.dumps(result_of(experiment, where)))
    for told in ("claim", "verdict", "rows", "findings", "pictures", "wall_seconds"):
        assert now[told] == published[told], told
    assert (RESULTS / name / PAGE).read_text() == page(published)


def test_runs_live_once_where_compare_keeps_them(tmp_path: Path) -> None:
    where = Where(out=tmp_path / "runs", results=tmp_path / "results")
    runs = runs_of(EXPERIMENTS["dark-room"], where)
    folders = [one.published for _, one in runs]
    assert len(set(folders)) == len(folders)
    assert where.results / "dark-room-10x10" / "ra-dt+-seed2" in folders
    assert where.results / "dark-room-20x20" / "wall-20min" / "ad-seed1" in folders
    used = {
        comparison.published / f"{row.label}-seed0"
        for answer in answers_of(EXPERIMENTS["controls"], where)
        for comparison, row in answer.places
    }
    sources = [EXPERIMENTS[name] for name in EXPERIMENTS["controls"].weights_of]
    made = {folder for one in sources for folder, _ in made_by(one, where)}
    assert used <= made
    assert state_of(EXPERIMENTS["dark-room"], where) == "never run"


def test_what_reuses_weights_says_whose() -> None:
    every = [EXPERIMENTS[name] for name in EXPERIMENTS.names()]
    assert all(one.weights_of for one in every if one.kind == "reuse")
    assert all(EXPERIMENTS[name].kind == "compare" for one in every for name in one.weights_of)


def test_a_kind_without_its_measurement_is_refused() -> None:
    with pytest.raises(ExperimentError, match="need a measurement"):
        Experiment(name="x", paper="", kind="reuse", studies=(Study("dark-room-10x10", ("dt",)),))


def test_a_damaged_result_is_made_anew(tmp_path: Path) -> None:
    where = Where(budget="smoke", out=tmp_path / "runs", results=tmp_path)
    one = EXPERIMENTS["slippery-room"]
    file = tmp_path / one.name / "result.json"
    for damage in ("[1]", "{", '{"verdict": 3}', "null"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(damage)
        assert verdict_of(one, where) is None
    assert write_result(one, where) == json.loads(file.read_text())


def test_a_name_that_is_no_folder_is_refused() -> None:
    with pytest.raises(ExperimentError, match="no name"):
        Experiment(name="../../evil", paper="", studies=())
