"""Procgen's entry: one verdict for three settings, and the paper's tables game by game."""

from __future__ import annotations

from typing import Any

import pytest

from radt.envs import GAMES
from radt.envs.suite import splits_of
from radt.experiments import EXPERIMENTS
from radt.experiments.robots import MEANS

(SUITE,) = GAMES
JUDGE = EXPERIMENTS["procgen"].claims["C8"]


def row(label: str, setting: str, score: float, improves: float | None = 0.0) -> dict[str, Any]:
    tasks = splits_of(SUITE)[setting]
    named = tasks if setting == "eval" else range(len(tasks))
    return {
        "env": "procgen",
        "label": label,
        "tasks": setting,
        "rule": "paper",
        "score": score,
        "per_task": {str(task): score + place % 2 for place, task in enumerate(named)},
        "optimum": None,
        "normalised": 0.5,
        "improves": improves,
        "improves_ci95": None if improves is None else [improves - 0.5, improves + 0.5],
    }


def rows(**means: float) -> list[dict[str, Any]]:
    return [row(label.replace("_", "-"), s, mean) for s in MEANS for label, mean in means.items()]


def changed(setting: str, label: str, score: float) -> list[dict[str, Any]]:
    told = rows(ra_dt=8, dt=5, ad=3, dpt=4)
    kept = [one for one in told if (one["label"], one["tasks"]) != (label, setting)]
    return [*kept, row(label, setting, score)]


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (rows(ra_dt=8, dt=5, ad=3, dpt=4), "holds"),
        (changed("unseen", "dt", 9), "does not"),
        (changed("seen", "dpt", 8), "open"),
        (rows(ra_dt=8, dt=5, ad=3), "open"),
    ],
)
def test_ra_dt_has_to_be_best_in_every_setting(told: Any, word: str) -> None:
    assert JUDGE(told).word == word


def test_a_memory_that_helps_is_not_what_the_paper_found() -> None:
    told = changed("eval", "ra-dt", 8)
    told[-1] |= {"improves": 2.0, "improves_ci95": [1.0, 3.0], "same_level": 0.81}
    verdict = JUDGE(told)
    assert verdict.word == "does not"
    assert "81%" in verdict.why


def test_every_game_has_a_line_in_every_setting() -> None:
    summary = EXPERIMENTS["procgen"].summary
    assert summary is not None
    table = summary(rows(dt=5, ra_dt=8))
    assert all(list(line) == ["setting", "game", "dt", "ra-dt"] for line in table)
    lines = {(line["setting"], line["game"]): line for line in table}
    for setting in MEANS:
        games = {game for where, game in lines if where == setting}
        own = {SUITE.names[task] for task in splits_of(SUITE)[setting]}
        assert games >= own | {"mean", "human-normalised", "data-normalised"}
    assert lines["seen", "bigfish"]["dt"] == 5
    assert lines["seen", "mean"]["dt"] == 5.5
    assert lines["eval", "the paper's mean"]["ra-dt"] == 2.15
    coinrun = SUITE.train_tasks[SUITE.names.index("coinrun")]
    assert SUITE.scoring.low[coinrun] == 5.0
