"""Rows from records: one for each label, set of tasks and rule."""

from __future__ import annotations

from typing import Any

import pytest

from radt.experiments.rows import rows_of

ENV = "dark-room-10x10"


def record(label: str, seed: int, level: float, **more: Any) -> dict[str, Any]:
    return {
        "env": ENV,
        "label": label,
        "method": "ra-dt",
        "seed": seed,
        "split": "final",
        "tasks": [80, 81],
        "returns": [[level] * 8, [level + 2] * 8],
        "optimum": [10.0, 10.0],
        "solved_above": 0.0,
        "action_rule": {"temperature": 1.0},
        **more,
    }


def test_rows_of_two_seeds_with_controls_rules_and_splits() -> None:
    returns = {"returns": [[1.0] * 8, [1.0] * 8]}
    more = {
        "controls": {"erased": returns, "best-trial": returns},
        "rules": {"authors": {**returns, "controls": {"erased": returns}}},
        "variants": {
            "training-tasks": {**returns, "optimum": [10.0, 10.0]},
            "unseen": {**returns, "optimum": [10.0, 10.0]},
            "dark-room-10x10-slip": {**returns, "optimum": [10.0, 10.0]},
        },
    }
    rows = rows_of(
        [record("ra-dt", seed, 4.0 + seed, **more) for seed in (1, 0)], tries={"ra-dt": 7}
    )
    assert [(row["env"], row["tasks"], row["rule"]) for row in rows] == [
        (ENV, "eval", "paper"),
        (ENV, "train", "paper"),
        (ENV, "unseen", "paper"),
        ("dark-room-10x10-slip", "eval", "paper"),
        (ENV, "eval", "authors"),
    ]
    main = rows[0]
    assert (main["seeds"], main["tries"]) == (2, 7)
    assert main["score"] == pytest.approx(5.5)
    assert main["improves"] == pytest.approx(4.5)
    assert main["normalised"] == pytest.approx(0.55)
    assert main["per_task"] == {"80": 4.5, "81": 6.5}
    assert main["controls"]["best-trial"]["score"] == pytest.approx(1.0)
    assert rows[1]["improves"] is None
    assert rows[4]["improves"] == pytest.approx(0.0)


def test_tasks_that_one_seed_was_not_evaluated_on_have_no_row() -> None:
    other = {"fresh": {"returns": [[1.0] * 8] * 2, "optimum": [10.0, 10.0]}}
    rows = rows_of([record("ra-dt", 0, 4.0, variants=other), record("ra-dt", 1, 4.0, variants={})])
    assert [row["tasks"] for row in rows] == ["eval"]


def test_an_older_record_calls_a_variant_its_method() -> None:
    old = {name: value for name, value in record("", 0, 1.0).items() if name != "label"}
    (row,) = rows_of([{**old, "method": "ra-dt+"}])
    assert (row["label"], row["method"], row["improves"]) == ("ra-dt+", "ra-dt", None)


def test_rows_of_experiments_stand_before_references() -> None:
    records = [record(label, 0, 1.0) for label in ("random", "ra-dt@b", "ra-dt@a", "dt")]
    assert [row["label"] for row in rows_of(records)] == ["dt", "ra-dt@b", "ra-dt@a", "random"]


def test_other_tasks_are_normalised_by_bounds_of_their_own() -> None:
    there = {"returns": [[5.0] * 8] * 3, "optimum": [None] * 3}
    known = {**there, "scoring": {"low": [0.0] * 3, "high": [10.0, 20.0, 50.0]}}
    scoring = {"low": [0.0, 0.0], "high": [1.0, 1.0]}
    one = record("dt", 0, 4.0, scoring=scoring, variants={"older": there, "newer": known})
    eval_, older, newer = rows_of([one])
    assert eval_["normalised"] == pytest.approx(5.0)
    assert older["normalised"] is None
    assert newer["normalised"] == pytest.approx((0.5 + 0.25 + 0.1) / 3)
