"""Delusions: a known loop is found, where it begins, and counted once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radt.analyses.delusions import (
    FEW,
    analyse_delusions,
    count_delusions,
    exact_period,
    example_json,
    examples,
    find_delusions,
    find_loop,
    say_delusions,
)
from radt.runs.run import RunError
from tests.analyses.made_up import TASKS, episode, rolled_out

HORIZON = 12  # so that a loop holds for 8 steps at least
WAY = [(0, 0), (0, 1), (0, 2), (1, 2)]
BACK_AND_FORTH = [*WAY, *[(2, 2), (2, 3)] * 4]  # 12 steps
EVERYWHERE = [(row, column) for row in range(3) for column in range(4)]


def test_a_known_loop_is_found() -> None:
    trial = episode(BACK_AND_FORTH)
    loop = find_loop(trial.states, trial.rewards, HORIZON)
    assert loop is not None
    assert (loop.start, loop.states, loop.period) == (4, (4, 5), 2)


def test_a_loop_in_any_order_is_a_loop_but_does_not_repeat() -> None:
    trial = episode([*WAY, *[(2, 2), (2, 3), (2, 3), (2, 2), (2, 2), (2, 2), (2, 3), (2, 2)]])
    loop = find_loop(trial.states, trial.rewards, 32)
    assert loop is not None
    assert loop.start == 4
    assert loop.period is None


def test_standing_on_the_goal_is_no_delusion() -> None:
    stay = [*WAY, *[(2, 2)] * 12]
    stuck, paid, once = episode(stay), episode(stay, range(4, 16)), episode(stay, [5])
    assert find_loop(stuck.states, stuck.rewards, HORIZON) is not None
    assert find_loop(paid.states, paid.rewards, HORIZON) is None
    later = find_loop(once.states, once.rewards, HORIZON)
    assert later is not None
    assert later.start == 6, "what was paid for is not part of it"


def test_going_on_is_no_delusion() -> None:
    trial = episode(EVERYWHERE)
    assert find_loop(trial.states, trial.rewards, horizon=24) is None  # six states in the end
    assert find_loop(trial.states[:2], trial.rewards[:2], horizon=24) is None  # over before


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_a_loop_is_never_left_and_cannot_begin_earlier(walk: list[int]) -> None:
    trial = episode([(0, cell) for cell in walk])
    loop = find_loop(trial.states, trial.rewards, len(walk))
    tail = max(8, round(len(walk) / 4))
    assert (loop is not None) == (len(walk) >= tail and len(set(walk[-tail:])) <= FEW)
    if loop is not None:
        inside = {walk[at] for at in loop.states}
        assert set(walk[loop.start :]) == inside
        assert loop.start == 0 or walk[loop.start - 1] not in inside


@pytest.mark.parametrize(
    ("sequence", "period"),
    [([1, 2] * 3, 2), ([1, 1, 1], 1), ([1, 2] * 2, None), ([3, 1, 2] * 3, 3), ([7, 1, 1, 1], None)],
)
def test_a_period_comes_round_three_times(sequence: list[int], period: int | None) -> None:
    assert exact_period(np.array(sequence)) == period


def test_counts_by_method_and_trial() -> None:
    stuck, free = episode(BACK_AND_FORTH), episode([*EVERYWHERE[:-1], (0, 0)], paid=[3])
    quiet = episode(
        [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 2), (1, 1), (1, 0), *EVERYWHERE[8:]]
    )
    rolled = [
        rolled_out([stuck, free], [stuck, stuck]),
        rolled_out([free, free], [free, stuck]),
        rolled_out([free, free], [quiet, free], method="dt"),
    ]
    ours, theirs = count_delusions(rolled)
    assert (ours.method, theirs.method) == ("ra-dt", "dt")
    assert ours.by_trial.tolist() == [0.5, 0.5]
    assert ours.share is not None
    assert ours.share.mean == pytest.approx(0.5)
    assert ours.share_of_unpaid is not None
    assert ours.share_of_unpaid.mean == 1.0
    assert not theirs.deluded.any()
    assert theirs.cycles == 0
    assert (ours.still, ours.cycles) == (0, 4)
    assert "`ra-dt`: 4 of 8 trials, 50% [" in say_delusions([ours, theirs])
    assert "`dt`: 0 of 4 trials, 0% [0%, 0%]" in say_delusions([ours, theirs])
    first = next(find_delusions(rolled[0]))
    told = example_json(first)
    assert told["task"] == TASKS[0]
    assert told["cells"] == [[2, 2], [2, 3]]
    assert (told["trial"], told["from_step"], told["period"]) == (1, 4, 2)
    assert len(examples([ours, theirs])) == 4


def test_a_picture_and_its_numbers(tmp_path: Path) -> None:
    rolled = [rolled_out([episode(BACK_AND_FORTH)], [episode(EVERYWHERE, paid=[11])])]
    finding = analyse_delusions(rolled, tmp_path / "delusions.png")
    numbers = json.loads(finding.write().read_text())
    assert (tmp_path / "delusions.png").stat().st_size > 5000
    assert numbers["methods"]["ra-dt"]["deluded"] == 1
    assert numbers["methods"]["ra-dt"]["by_trial"] == [0.5]
    assert numbers["verdict"] == finding.verdict
    none = analyse_delusions([rolled_out([episode(EVERYWHERE, paid=[11])])], tmp_path / "none.png")
    assert "0 of 1 trials" in none.verdict


def test_runs_on_other_tasks_are_not_counted_together() -> None:
    from dataclasses import replace

    one = rolled_out([episode(EVERYWHERE)], [episode(EVERYWHERE)])
    other = replace(one, trials=replace(one.trials, tasks=(0, 1)))
    with pytest.raises(RunError, match="have other tasks"):
        analyse_delusions([one, other], Path("never.png"))
