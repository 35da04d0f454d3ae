"""At paper budget every value is the paper's (appendices B and C), or a departure.

The table is the one that `radt config explain` shows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import radt
from radt.decode import leaves
from radt.envs.suite import SUITES
from radt.runs.options import paper_table

DEPARTURES_PAGE = Path(__file__).parents[2] / "docs" / "departures.md"
PAPER = paper_table()
EVERY, ALL = PAPER.named("every"), PAPER.named("all")
TARGETS = {
    **dict.fromkeys(PAPER.named("dark"), (90, 5)),
    **dict.fromkeys(PAPER.named("large"), (370, 10)),
    **dict.fromkeys(PAPER.named("largest"), (500, 10)),
    **dict.fromkeys(PAPER.named("maze"), (3, 0)),
}


@pytest.mark.parametrize("row", EVERY)
@pytest.mark.parametrize("env", ALL)
def test_every_value_is_the_papers_or_a_departure(env: str, row: str) -> None:
    values = leaves(radt.preset(env, row, "paper").to_json())
    expected = {
        path: value
        for _, envs, rows, path, value in PAPER.values
        if env in PAPER.named(envs) and row in PAPER.named(rows)
    }
    for envs, rows, path, papers, ours, _ in PAPER.departures:
        if env in PAPER.named(envs) and row in PAPER.named(rows):
            assert ours != papers
            assert path not in expected
            expected[path] = ours
    assert {path: values[path] for path in expected} == expected


def test_departures_are_told() -> None:
    page = DEPARTURES_PAGE.read_text()
    for *_, name in PAPER.departures:
        assert f"| {name}" in page, name


@pytest.mark.parametrize("env", ALL)
def test_target_returns_are_the_papers(env: str) -> None:
    assert SUITES[env].target_return == TARGETS[env]
