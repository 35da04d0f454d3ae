"""Suites outside the package, one file each: from data to reports, with no change inside."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import radt.api  # registers all that is built in before a test copies it  # noqa: F401
from radt import cli
from radt.collect.noisy_expert import act_out
from radt.envs import SUITES
from radt.envs.check import check_suite
from radt.envs.suite import TaskSuite
from radt.experiments import EXPERIMENTS
from radt.experiments.reproduce import Where, result_of
from radt.runs.presets import usual_options
from tests.experiments.published import unmade

RESULTS = Path(__file__).parents[1] / "results" / "examples"
WHERE = Where(results=RESULTS)
FOLDER = Path(__file__).parents[1] / "examples" / "suites"
FILES = {file.stem.replace("_", "-"): file for file in sorted(FOLDER.glob("*.py"))}
OF_GRIDS = re.compile(r"\b(goals?|rooms?|cells?)\b", re.IGNORECASE)
OF_SUCCESS = re.compile(r"\b(solved?|solves|succe\w+)\b", re.IGNORECASE)
OF_RULES = re.compile(r"temperature|explore-exploit", re.IGNORECASE)


@pytest.fixture(params=FILES)
def suite(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    plug_ins: None,
) -> TaskSuite:
    """Plug in one file; what it registers is forgotten in the end."""
    monkeypatch.setenv("RADT_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("RADT_PLUGINS", str(FILES[request.param]))
    return SUITES[request.param]


@pytest.mark.usefixtures("plug_ins")
def test_what_is_published_was_made_by_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADT_PLUGINS", os.pathsep.join(map(str, FILES.values())))
    assert unmade(RESULTS, ("tuning.jsonl",)) == []
    for file in RESULTS.glob("*/result.json"):
        published = json.loads(file.read_text())
        now = json.loads(json.dumps(result_of(EXPERIMENTS[file.parent.name], WHERE)))
        assert now["rows"] == published["rows"]


def test_a_suite_keeps_its_contract(suite: TaskSuite) -> None:
    assert [found for found in check_suite(suite) if found.verdict != "ok"] == []


def test_its_expert_earns_more_than_chance(suite: TaskSuite) -> None:
    options = usual_options(suite.name, "noisy-expert", "smoke")
    for history in act_out(suite, suite.train_tasks[:2], options):
        stops = np.cumsum(history.lengths)
        returns = [part.sum() for part in np.split(history.rewards, stops)[:-1]]
        assert len(returns) == options.episodes
        assert returns[-1] > returns[0]
        assert returns[-1] > suite.spaces.lowest_return


def test_an_experiment_goes_from_data_to_its_page(suite: TaskSuite, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    (study,) = EXPERIMENTS[suite.name].studies
    assert study.env == suite.name
    results = out / "results"
    smoke = ("--budget=smoke", "--threads=1", "--quiet", "--json", f"--out={out}")
    compare = ["compare", suite.name, "--methods=dt,ra-dt", "--seeds=1", f"--results={results}"]
    assert cli.main([*compare, *smoke]) == 0
    assert cli.main(["reproduce", suite.name, "--table", *smoke]) == 0
    published = results / suite.name
    result = json.loads((published / "result.json").read_text())
    rows = {row["label"]: row for row in result["rows"]}
    assert {"dt", "ra-dt", "nearest", "random"} <= set(rows)
    assert ("replay" in rows) <= (suite.spaces.solved_above is not None)
    for label in rows:
        record = json.loads((published / f"{label}-seed0" / "icl.json").read_text())
        assert np.isfinite(record["returns"]).all()
        assert "erased" in record["controls"]
    pages = [*published.rglob("*.md"), *published.rglob("*.html")]
    check_words(suite, [*pages, *(out / suite.name).rglob("*.html")])


def check_words(suite: TaskSuite, pages: list[Path]) -> None:
    """Pages say nothing that such a suite does not have."""
    assert len(pages) >= 7
    absent = [OF_GRIDS]
    if suite.spaces.solved_above is None:
        absent.append(OF_SUCCESS)
    if suite.spaces.action.kind == "continuous":
        absent.append(OF_RULES)
    for page in pages:
        text = re.sub(r"<style.*?</style>|data:image[^\"]*", "", page.read_text(), flags=re.DOTALL)
        found = [words[0] for pattern in absent for words in pattern.finditer(text)]
        assert not found, f"{page.name} speaks of {sorted(set(found))}"
        assert "None" not in text


def test_what_needs_a_grid_refuses_in_a_sentence(
    suite: TaskSuite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ("--budget=smoke", "--threads=1", "--quiet", f"--out={out}")
    assert cli.main(["run", suite.name, "--method=ra-dt+", *words]) == 0
    assert np.isfinite(json.loads((out / "icl.json").read_text())["returns"]).all()
    for what in ("retrieval", "attention", "visits"):
        capsys.readouterr()
        drawn = tmp_path / f"{what}.png"
        code = cli.main(["analyse", what, str(out), "--quiet", f"--out={drawn}", "--trials=2"])
        told = capsys.readouterr().err
        assert code == 0 or (code == 2 and told.startswith("error: ")), told
