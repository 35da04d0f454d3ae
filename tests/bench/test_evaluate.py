"""`radt bench evaluate`: the same noise, many tasks at once and one by one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from radt.bench import EvaluateArguments
from radt.bench.evaluate import act_alone, act_together, bench_evaluate
from radt.checkpoint import save_checkpoint
from radt.cli import main
from radt.commands.bench import shown
from radt.envs import SUITES
from radt.envs.suite import TaskSuite
from radt.loading import Loaded
from radt.runs.run import RunError
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
    assert together.shape == (3, 3)
    assert together.std() > 0
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-4)


def test_a_checkpoint_is_measured(tmp_path: Path) -> None:
    loaded = untrained("ra-dt", SUITE)
    save_checkpoint(tmp_path / "x.safetensors", loaded.method, loaded.card)
    asked = EvaluateArguments(checkpoint=tmp_path / "x.safetensors", tasks=2, trials=2)
    record = bench_evaluate(asked)
    rates, seconds = record["trials_per_second"], record["seconds"]
    for side in ("together", "alone"):
        assert rates[side] == pytest.approx(4 / seconds[side])
    assert record["ratio"] == pytest.approx(rates["together"] / rates["alone"])
    assert record["equal_returns"] == 1.0
    assert record["checkpoint"] == "x.safetensors"


@pytest.mark.parametrize("asked", [EvaluateArguments(tasks=101), EvaluateArguments(trials=0)])
def test_what_cannot_be_measured_is_refused(asked: EvaluateArguments) -> None:
    with pytest.raises(RunError, match=r"has 100 tasks|at least 1"):
        bench_evaluate(asked)


def test_the_command_shows_its_numbers_and_the_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "evaluate", "--tasks", "1", "--trials", "1", "--threads", "1", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "record.json")]) == 0
    printed = capsys.readouterr().out
    assert "trials_per_second.together" in printed
    assert printed.splitlines()[-1].startswith("ratio ")


def test_a_record_is_shown_as_a_table_and_the_rest() -> None:
    record = {"reads": [{"index": "flat", "p50_ms": 0.5}], "k": 50, "ratio": 2.0}
    rows, facts = shown(record, "reads", ("index", "p50_ms"))
    assert (rows.row_count, facts.row_count) == (1, 1)
