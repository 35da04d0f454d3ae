"""`radt bench evaluate`: the same noise, many tasks at once and one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from radt.bench import EvaluateArguments
from radt.bench.evaluate import (
    Transcript,
    act_alone,
    act_together,
    bench_evaluate,
    compare_transcripts,
    evaluate_table,
)
from radt.checkpoint import save_checkpoint
from radt.envs import SUITES
from radt.envs.suite import TaskSuite
from radt.experiments.run import RunError
from radt.loading import Loaded
from tests.contracts.method import build_method, card_of
from tests.toys import TOY_GRID, TOY_REACH

SUITE = SUITES["dark-room-10x10"]


def untrained(name: str, suite: TaskSuite) -> Loaded:
    method = build_method(name, suite.spaces)
    card = dataclasses.replace(card_of(method, name), env=suite.name)
    return Loaded(method, card, Path("untrained"))


@pytest.mark.parametrize("suite", [TOY_GRID, TOY_REACH], ids=lambda suite: suite.name)
@pytest.mark.parametrize("name", ["dt", "ra-dt"])
def test_alone_and_together_act_in_the_same_trials(name: str, suite: TaskSuite) -> None:
    loaded = untrained(name, suite)
    tasks, trials = (4, 1, 5), 3
    together = act_together(loaded, suite, tasks, trials, seed=7)
    alone = act_alone(loaded, suite, tasks, trials, seed=7)
    assert (together.lengths == suite.spaces.horizon).all()
    assert abs(together.outputs).max() > 0
    compared = compare_transcripts(together, alone)
    assert compared["largest_output_difference"] < 1e-4
    if suite is TOY_GRID:  # a choice among few actions absorbs rounding
        assert compared["equal_trials"] == 1.0
        assert compared["compared_steps"] == compared["steps"] == 3 * 3 * suite.spaces.horizon


def test_differences_count_only_while_histories_are_equal() -> None:
    ours, theirs = (Transcript.empty(TOY_GRID.spaces, tasks=2, trials=2) for _ in range(2))
    for lived in (ours, theirs):
        lived.lengths[:] = 12
    theirs.outputs[0, 0, 3] = 0.25  # under the same history
    theirs.actions[0, 0, 5] = 1  # the histories part behind this step
    theirs.outputs[0, 0, 6] = 9.0
    theirs.outputs[0, 1] = 9.0
    compared = compare_transcripts(ours, theirs)
    assert compared["largest_output_difference"] == 0.25
    assert compared["compared_steps"] == 6 + 24
    assert compared["steps"] == 48
    assert compared["equal_trials"] == 0.75
    assert compared["equal_returns"] == 1.0


def test_another_state_parts_histories_at_once() -> None:
    ours, theirs = (Transcript.empty(TOY_GRID.spaces, tasks=1, trials=1) for _ in range(2))
    for lived in (ours, theirs):
        lived.lengths[:] = 12
    theirs.states[0, 0, 5] = 1
    assert compare_transcripts(ours, theirs)["compared_steps"] == 5


def test_a_checkpoint_is_measured(tmp_path: Path) -> None:
    loaded = untrained("ra-dt", SUITE)
    save_checkpoint(tmp_path / "x.safetensors", loaded.method, loaded.card)
    asked = EvaluateArguments(checkpoint=tmp_path / "x.safetensors", tasks=2, trials=2)
    record = bench_evaluate(asked)
    rates, seconds = record["steps_per_second"], record["seconds"]
    assert record["steps"] == 2 * 2 * 100
    for side in ("together", "alone"):
        assert rates[side] == pytest.approx(400 / seconds[side])
    assert record["ratio"] == pytest.approx(rates["together"] / rates["alone"])
    assert record["equal_trials"] == 1.0
    assert record["checkpoint"] == "x.safetensors"
    assert evaluate_table(record).row_count == 5


@pytest.mark.parametrize("asked", [EvaluateArguments(tasks=101), EvaluateArguments(trials=0)])
def test_what_cannot_be_measured_is_refused(asked: EvaluateArguments) -> None:
    with pytest.raises(RunError, match=r"has 100 tasks|at least 1"):
        bench_evaluate(asked)
