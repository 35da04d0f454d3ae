"""What memory buys, controls and further rules, and pages of a suite that declares no success."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radt.commands.compare_work import show_methods
from radt.commands.evaluate import show_result
from radt.envs.suite import SUITES
from radt.plots.comparison import write_comparison
from radt.plots.curves import icl_pictures
from radt.plots.records import label_of, outcomes, rule_in_words
from radt.plots.report import write_report
from radt.plots.row_json import row_json
from radt.plots.tables import markdown, method_table, row_in_words
from tests.plots.synthetic import dense_record, save, synthetic_record
from tests.toys import TOY_REACH

GRID_WORDS = re.compile(
    r"\b(goals?|rooms?|cells?|solve[sd]?|success|temperature|optimum \d)\b", re.IGNORECASE
)


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    more = replace(TOY_REACH, eval_tasks=tuple(range(8)))  # as many as the records tell of
    monkeypatch.setitem(SUITES._items, TOY_REACH.name, more)


def late(returns: Any) -> Any:
    return np.array(returns)[..., -6:].mean(axis=-1)  # 24 trials


def shifted(record: dict[str, Any], by: float, control: str = "erased") -> dict[str, Any]:
    """Give a record one control that earns `by` more than the method."""
    returns = (np.array(record["returns"]) + by).tolist()
    return {**record, "controls": {control: {"returns": returns}}}


def test_rows_are_labels_and_two_of_one_method_stand_in_one_table() -> None:
    rows = outcomes([dense_record("arm-b"), dense_record("arm-a"), dense_record("ra-dt")])
    assert [row.label for row in rows] == ["ra-dt", "arm-b", "arm-a"]
    assert label_of({"method": "dt"}) == "dt"


def test_what_memory_buys_is_the_paired_difference_to_the_erased_control() -> None:
    records = [dense_record("ra-dt", seed) for seed in range(2)]
    (row,) = method_table(records)
    apart = [late(r["returns"]) - late(r["controls"]["erased"]["returns"]) for r in records]
    assert row.causal is not None
    assert row.causal.mean == pytest.approx(np.mean(apart))
    assert (row.improves, row.causal.seeds) == (True, 2)
    assert row_json(row)["causal_improvement"]["mean"] == pytest.approx(np.mean(apart))


def test_what_was_not_measured_is_neither_bought_nor_not() -> None:
    rows = method_table([dense_record("ra-dt"), {**dense_record("arm"), "controls": {}}])
    assert [row.improves for row in rows] == [True, None]
    assert rows[1].causal is row_json(rows[1])["causal_improvement"] is None
    assert "| `arm` | not measured |" in markdown(rows)


def test_only_seeds_that_have_a_control_are_paired() -> None:
    (row,) = method_table([dense_record("ra-dt"), {**dense_record("ra-dt", 1), "controls": None}])
    assert row.causal is not None
    assert row.causal.seeds == 1


def test_a_memory_that_buys_nothing_says_so() -> None:
    (row,) = method_table([shifted(dense_record("ra-dt"), 5.0)])
    assert row.improves is False
    assert row.causal is not None
    assert row.causal.mean == pytest.approx(-5.0)


@pytest.mark.parametrize(("by", "bought"), [(-5.0, True), (0.0, False), (5.0, False)])
def test_retrieval_bought_nothing_where_the_best_trial_does_as_well(
    by: float, bought: bool
) -> None:
    (row,) = method_table([shifted(dense_record("ra-dt"), by, "best-trial")])
    assert ("retrieval bought nothing here" in markdown([row])) is not bought


def test_the_reading_ceiling_splits_what_is_missing() -> None:
    record = shifted(dense_record("ra-dt"), 100.0, "oracle") | {"optimum": [0.0] * 8}
    (row,) = method_table([record])
    score = late(record["returns"]).mean()
    text = markdown([row])
    assert f"Optimum minus ceiling, {-(score + 100.0):.1f}, is reading" in text
    assert "Ceiling minus score, 100.0, is exploration" in text
    unknown = markdown(method_table([record | {"optimum": [None] * 8}]))
    assert "Optimum minus ceiling" not in unknown
    assert "Ceiling minus score, 100.0, is" in unknown


def test_controls_stand_in_one_order_whatever_the_record_has() -> None:
    record = dense_record("ra-dt")
    record["controls"] = dict(reversed(record["controls"].items()))
    (row,) = method_table([record])
    names = [other.name for other in row.controlled]
    assert names == ["erased", "other-task", "best-trial", "oracle"]
    assert list(row_json(row)["controls"]) == names


def test_a_further_rule_has_a_table_with_what_memory_buys_by_it() -> None:
    record = dense_record("ra-dt")
    (row,) = method_table([record])
    paper = record["rules"]["paper"]
    score = late(paper["returns"]).mean()
    bought = score - late(paper["controls"]["erased"]["returns"]).mean()
    (by_rule,) = row.by_rule
    assert by_rule.score.mean == pytest.approx(score)
    assert by_rule.causal is not None
    assert by_rule.causal.mean == pytest.approx(bought)
    assert f"| `ra-dt` | {score:.1f} [" in markdown([row]).partition("By the rule `paper`")[2]


def test_a_rule_says_its_temperature_where_it_acts() -> None:
    rules = {"paper": {"action_rule": {"temperature": 1.0}, "returns": [[1.0] * 40] * 20}}
    text = markdown(method_table([synthetic_record("ra-dt") | {"rules": rules}]))
    assert "`paper` (temperature 1.0)" in text
    assert "temperature" not in markdown(method_table([dense_record("ra-dt")]))


def test_scores_are_normalised_task_by_task() -> None:
    record = dense_record("ra-dt")
    record["scoring"]["low"] = [-1000.0 - 10 * task for task in range(8)]
    (row,) = method_table([record])
    low = np.array(record["scoring"]["low"])
    expected = ((late(record["returns"]) - low) / (-200.0 - low)).mean()
    assert row_json(row)["normalised"] == pytest.approx(expected)
    plain = method_table([synthetic_record("dt")])[0]
    assert row_json(plain)["normalised"] is None


def test_success_is_scored_where_it_is_declared_and_nowhere_else() -> None:
    dense, grid = row_json(method_table([dense_record("ra-dt")])[0]), synthetic_record("ra-dt")
    for name in ("solved_by", "return_after_success", "success_rate", "trials_to_solve", "regret"):
        assert dense[name] is None
        assert row_json(method_table([grid])[0])[name] is not None


def test_a_picture_of_what_memory_buys_is_drawn_where_it_was_measured(tmp_path: Path) -> None:
    pictures = icl_pictures([dense_record("ra-dt"), dense_record("arm")], "compare")
    assert list(pictures) == ["compare.png", "compare-memory.png"]
    assert len(pictures["compare.png"].panels) == 1, "nothing is ever solved there"
    assert pictures["compare-memory.png"].save(tmp_path / "a.png").stat().st_size > 1000
    assert list(icl_pictures([synthetic_record("dt")], "curve")) == ["curve.png"]


def test_pages_without_success_have_no_word_about_it(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / f"{label}-seed{seed}", dense_record(label, seed))
        for label in ("ra-dt", "arm")
        for seed in range(2)
    ]
    comparison = write_comparison(paths, tmp_path)
    summary = write_report(paths[0].parent)
    pages = [comparison, summary, tmp_path / "report.html", paths[0].with_name("report.html")]
    for page in pages:
        seen = re.sub(r"<style>.*?</style>|<[^>]*>", "", page.read_text(), flags=re.DOTALL)
        assert not GRID_WORDS.findall(seen), page
        assert "optimum unknown" in seen


def test_terminals_show_what_memory_buys_and_no_success_that_is_not_declared(
    tmp_path: Path,
) -> None:
    paths = [save(tmp_path / label, dense_record(label)) for label in ("ra-dt", "arm")]
    write_comparison(paths, tmp_path)
    table = show_methods(json.loads((tmp_path / "compare.json").read_text()))
    heads = [str(column.header) for column in table.columns]
    assert "memory buys" in heads
    record = dense_record("ra-dt")
    declared = copy.deepcopy(record) | {"solved_above": -500.0}
    for shown, succeeds in ((record, False), (declared, True)):
        text = str(show_result(shown, tmp_path)[2].markup)  # type: ignore[union-attr]
        assert "Its memory of earlier trials buys" in text
        assert ("It solves" in text) == succeeds


@pytest.mark.parametrize("best", [-150.0, None])
def test_words_about_negative_returns_have_no_percentage(best: float | None) -> None:
    record = dense_record("ra-dt") | {"optimum": [best] * 8}
    words = row_in_words(method_table([record])[0], "final")
    assert "% of the optimum" not in words
    assert ("the optimum is -150.0" in words) is (best is not None)


@pytest.mark.parametrize("head", ["mse", "gaussian"])
def test_a_rule_is_told_of_where_it_acts(head: str) -> None:
    record = dense_record("ra-dt") | {"config": {"options": {"model": {"action_head": head}}}}
    assert ("temperature" in rule_in_words(record, record)) == (head == "gaussian")
