"""Verdicts from rows: what holds, what does not, and what cannot be said."""

from __future__ import annotations

from typing import Any

import pytest

from radt.experiments import EXPERIMENTS
from radt.experiments.ablations import PAPERS
from radt.experiments.efficiency import ROOMS
from radt.experiments.experiment import OLDER, Verdict, summed_up
from radt.experiments.verdicts import (
    Above,
    all_above,
    alone_improves,
    best_without_improving,
    close,
    ranking,
)

ENV = "dark-room-10x10"


def row(label: str, score: float, improves: float | None = 1.0, spread: float = 1.0) -> Any:
    per_task = {str(task): score + spread * (task % 3 - 1) for task in range(20)}
    return {
        "env": ENV,
        "label": label,
        "tasks": "eval",
        "rule": "paper",
        "score": score,
        "per_task": per_task,
        "optimum": 100.0,
        "normalised": score / 100.0,
        "improves": improves,
        "improves_ci95": None if improves is None else [improves - 0.5, improves + 0.5],
    }


def rows(own: float, **others: float) -> list[Any]:
    return [row("ra-dt", own), *(row(label, score) for label, score in others.items())]


def test_rows_that_lack_seeds_are_not_judged() -> None:
    told = rows(95, dt=5, ad=50, dpt=60)
    words = [
        EXPERIMENTS["dark-room"].judged([{**one, "seeds": seeds} for one in told])["C1"].word
        for seeds in (1, 3)
    ]
    assert words == ["open", "holds"]


def test_rows_with_older_values_are_not_compared_with_others() -> None:
    older = {**row("dpt", 60), "condition": OLDER}
    told = [row("ra-dt", 95, improves=0.0), row("dt", 5), row("ad", 50), older]
    for judge in (ranking(ENV), best_without_improving(ENV), close(ENV, "ra-dt", "dpt")):
        assert judge(told).word == "open"


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (rows(95, dt=5, ad=50, dpt=60), "holds"),
        (rows(80, dt=5, ad=50, dpt=60), "does not"),  # above all, and not near the optimum
        (rows(95, dt=5, ad=99, dpt=60), "does not"),
        (rows(95, dt=5, ad=95, dpt=60), "open"),  # as good as another
        (rows(95, dt=5, ad=50), "open"),
        ([row("ra-dt", 95, improves=None), *rows(95, dt=5, ad=50, dpt=60)[1:]], "open"),
    ],
)
def test_a_ranking(told: list[Any], word: str) -> None:
    assert ranking(ENV, near=0.9)(told).word == word


def test_two_rows_that_are_close() -> None:
    judge = close(ENV, "ra-dt-lm", "ra-dt")
    assert judge([row("ra-dt", 90), row("ra-dt-lm", 84)]).word == "holds"
    assert judge([row("ra-dt", 90), row("ra-dt-lm", 60)]).word == "does not"


def test_the_only_one_that_improves() -> None:
    judge = alone_improves(ENV, "ra-dt", ("dt",))
    assert judge([row("ra-dt", 90), row("dt", 5, improves=0.0)]).word == "holds"
    assert judge([row("ra-dt", 90), row("dt", 5, improves=2.0)]).word == "does not"
    assert judge([row("ra-dt", 90), row("dt", 5, improves=None)]).word == "open"


def test_the_best_though_its_memory_is_worth_nothing() -> None:
    others = [row(label, 50) for label in ("dt", "ad", "dpt")]
    trained = [{**row(name, at, None), "tasks": "train"} for name, at in (("dt", 9), ("ra-dt", 5))]
    judge = best_without_improving(ENV)
    assert judge([row("ra-dt", 90, improves=0.0), *others]).word == "holds"
    assert judge([row("ra-dt", 90, improves=2.0), *others]).word == "does not"
    assert judge([row("ra-dt", 40, improves=0.0), *others]).word == "does not"
    assert judge([row("ra-dt", 90, improves=None), *others]).word == "open"
    assert judge(others).word == "open"
    judge = best_without_improving(ENV, below_on=("ml45", "train"))
    best = [row("ra-dt", 90, improves=0.0), *others]
    assert judge(best).word == "open"
    assert judge([*best, *trained]).word == "holds"
    upside_down = [{**one, "label": {"dt": "ra-dt"}.get(one["label"], "dt")} for one in trained]
    assert judge([*best, *upside_down]).word == "does not"


def test_one_claim_that_fails_decides() -> None:
    both = {"C1": Verdict("holds", "a"), "C2": Verdict("does not", "b")}
    assert summed_up(both) == Verdict("does not", "b")
    assert summed_up({"C1": Verdict("holds", "a")}).word == "holds"


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ([row("a", 80), row("b", 70), row("c", 72)], "holds"),
        ([row("a", 80), row("b", 70), row("c", 95)], "does not"),  # more than a tenth above
        ([row("a", 80), row("b", 80), row("c", 72)], "open"),
        ([row("a", 80), row("b", 90), row("c", 72)], "does not"),
        ([row("a", 80), row("b", 70)], "open"),
        ([row("a", 80), row("b", 70), {**row("c", 72), "condition": OLDER}], "open"),
    ],
)
def test_differences_that_are_expected(told: list[Any], word: str) -> None:
    assert all_above(ENV, Above("a", "b"), Above("a", "c", -0.1))(told).word == word


def test_language_models_without_weights_are_not_reachable() -> None:
    judge = EXPERIMENTS["ablate-language-model"].claims["C18"]
    ours = [row("ra-dt-lm", 80), row("ra-dt-lm@random-weights", 60), row("ra-dt-lm@1-layers", 70)]
    assert judge(ours).word == "not reachable"
    full = {"bert-base-uncased": 90, "roberta-base": 88}
    theirs = [row(f"ra-dt-lm@{name}", full.get(name, 70)) for name in PAPERS]
    assert judge([*ours, *theirs]).word == "holds"
    worse = [row(f"ra-dt-lm@{name}", full.get(name, 95)) for name in PAPERS]
    assert judge([*ours, *worse]).word == "does not"


def test_two_hundred_trials() -> None:
    judge = EXPERIMENTS["200-trials"].claims["C19"]
    assert judge([row("ad", 80), row("ad@gap-50", 95), row("dpt", 93)]).word == "holds"
    assert judge([row("ad", 95), row("ad@gap-50", 95), row("dpt", 60)]).word == "does not"
    assert judge([row("ad", 95)]).word == "open"


def speed(label: str, score: float, condition: str = "", spread: float = 0.01) -> Any:
    return {
        "env": ROOMS[-1],
        "label": label,
        "tasks": "made-up",
        "rule": None,
        "condition": condition,
        "score": score,
        "ci95": [score * (1 - spread), score * (1 + spread)],
    }


@pytest.mark.parametrize(
    ("own", "spread", "word"),
    [(70, 0.01, "holds"), (30, 0.01, "does not"), (50, 0.2, "open")],
)
def test_training_almost_seven_times_as_fast(own: float, spread: float, word: str) -> None:
    judge = EXPERIMENTS["efficiency-train"].claims["C16"]
    others = [speed(label, 10, spread=spread) for label in ("dt-2ep", "ad", "dpt")]
    assert judge([speed("ra-dt", own, spread=spread), *others]).word == word
    assert judge(others).word == "open"


@pytest.mark.parametrize(
    ("always", "seldom", "unfused", "word"),
    [(80, 98, 50, "holds"), (20, 98, 50, "does not"), (80, 98, 100, "does not")],
)
def test_acting_as_fast(always: float, seldom: float, unfused: float, word: str) -> None:
    judge = EXPERIMENTS["efficiency-inference"].claims["C17"]
    told = [
        speed("ra-dt@incremental", always, "fused attention"),
        speed("ra-dt@every-25", seldom, "fused attention"),
        speed("ad@no-cache", 100, "fused attention"),
        speed("ad@no-cache", unfused, "unfused attention"),
    ]
    assert judge(told).word == word
    assert judge(told[1:]).word == "open"
