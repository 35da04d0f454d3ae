"""Verdicts from rows: what holds, what does not, and what cannot be said."""

from __future__ import annotations

from typing import Any

import pytest

from radt.experiments.experiment import Verdict, summed_up
from radt.experiments.verdicts import alone_improves, close, ranking

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


def test_one_claim_that_fails_decides() -> None:
    both = {"C1": Verdict("holds", "a"), "C2": Verdict("does not", "b")}
    assert summed_up(both) == Verdict("does not", "b")
    assert summed_up({"C1": Verdict("holds", "a")}).word == "holds"
