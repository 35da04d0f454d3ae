"""Visits: known shares of a room's cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from radt.analyses.visits import analyse_visits, count_visits, say_visits, shown_tasks, trial_spans
from radt.metrics import Interval
from tests.analyses.made_up import episode, rolled_out

CORNER = [(0, 0), (0, 1), (0, 0)]  # 2 of 12 cells
ROW = [(0, 0), (0, 1), (0, 2), (0, 3)]  # 4
DOWN = [(0, 0), (1, 0), (2, 0)]  # 3


def made_up() -> object:
    first = [episode(ROW), episode(DOWN, paid=[2]), episode(CORNER)]
    second = [episode(CORNER), episode(CORNER), episode(DOWN)]
    return rolled_out(first, second)


def test_shares_of_cells_are_known() -> None:
    visits = count_visits(made_up())  # type: ignore[arg-type]
    assert visits.open_cells.tolist() == [12, 12]
    assert visits.counts[0, 0].sum() == 4
    assert visits.counts[1, 0, 0, 0] == 2
    expected = np.array([[4, 6, 6], [2, 2, 4]]) / 12
    np.testing.assert_allclose(visits.share_by_trial, expected)
    np.testing.assert_allclose(visits.cells_of_a_trial, np.array([[4, 3, 2], [2, 2, 3]]) / 12)
    assert visits.after_success.tolist() == [[False, False, True], [False] * 3]


def test_the_verdict_says_so(tmp_path: Path) -> None:
    finding = analyse_visits(made_up(), tmp_path / "visits.png")  # type: ignore[arg-type]
    numbers = finding.to_json()
    assert numbers["share_visited_in_all_trials"]["mean"] == pytest.approx(5 / 12)
    assert numbers["share_visited_by_trial"] == pytest.approx([3 / 12, 4 / 12, 5 / 12])
    assert numbers["share_of_a_trial"]["after_success"]["mean"] == pytest.approx(2 / 12)
    before = np.mean([3.5, 7 / 3]) / 12
    assert numbers["share_of_a_trial"]["before_success"]["mean"] == pytest.approx(before)
    assert "visits 25% [" in finding.verdict
    assert "42% [" in finding.verdict
    assert finding.picture.stat().st_size > 5000
    assert finding.write().name == "visits.json"


def test_nobody_found_anything() -> None:
    rolled = rolled_out([episode(ROW)], [episode(DOWN)])
    share = Interval(0.5, 0.4, 0.6)
    words = say_visits(rolled, share, share, {"before_success": share, "after_success": None})
    assert words.endswith("No task was solved, so nothing changes.")
    always = say_visits(rolled, share, share, {"before_success": share, "after_success": share})
    assert always.endswith("it goes on exploring.")


def test_trials_are_shown_in_parts_and_together() -> None:
    assert trial_spans(40) == [(0, 10), (10, 20), (20, 30), (30, 40), (0, 40)]
    assert trial_spans(2) == [(0, 1), (1, 2), (0, 2)]
    assert trial_spans(1) == [(0, 1)]
    paid_last = rolled_out([episode(ROW), episode(DOWN, paid=[2])], [episode(CORNER)] * 2)
    assert shown_tasks(paid_last) == [1, 0]  # type: ignore[arg-type]
