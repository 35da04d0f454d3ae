"""The dial of training contexts: arms paired with sampling, over whatever folds are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radt.experiments.training_contexts import (
    POOL_1,
    against,
    dial_picture,
    dial_summary,
    values_of,
)


def line(label: str, fold: int, score: float, oracle: float | None = 80.0) -> dict[str, Any]:
    return {
        "label": label,
        "env": "dark-room-10x10",
        "tasks": "tune",
        "fold": fold,
        "score": score,
        "per_task": {str(task): score + task for task in range(16)},
        "controls": {"erased": 5.0} | ({} if oracle is None else {"oracle": oracle}),
        "prepared": {"return_correlation": 0.1, "failures_beside_good": 0.05},
    }


ROWS = [
    *(line(POOL_1, fold, 70.0 + fold) for fold in (3, 4)),
    *(line("ra-dt", fold, 60.0 + fold, oracle=70.0 + fold) for fold in (3, 4)),
    line("ra-dt@pool-4", 4, 71.0, oracle=None),
]


def test_scores_are_paired_by_task_and_controls_by_fold() -> None:
    pairs = {name: values_of(ROWS, "ra-dt", name) for name in ("score", "ceiling")}
    assert (len(pairs["score"]), len(pairs["ceiling"])) == (32, 2)
    assert against(pairs["score"], values_of(ROWS, POOL_1, "score")) == (-10.0, 0.0)
    mean, half = against(pairs["ceiling"], values_of(ROWS, POOL_1, "ceiling")) or (0, 0)
    assert mean == pytest.approx(-6.5)
    assert half == pytest.approx(12.71 * 0.5, rel=1e-3)


def test_tasks_that_were_learned_from_are_no_part_of_a_score() -> None:
    learned = {**line("ra-dt", 4, 99.0), "env": "training-tasks", "tasks": "training-tasks"}
    assert dial_summary([*ROWS, learned]) == dial_summary(ROWS)


def test_a_line_for_each_arm_of_any_number_of_folds() -> None:
    sampled, printed, four = dial_summary(ROWS)
    assert (sampled["folds"], four["folds"]) == (2, 1)
    assert sampled["score against pool-1"] is None
    assert printed["score against pool-1"] == "-10.0 ± 0.0"
    assert four["ceiling"] is None
    assert four["failing, %"] == pytest.approx(5.0)


def test_the_picture_needs_no_arm_to_be_there(tmp_path: Path) -> None:
    draw = dial_picture({POOL_1: "1", "ra-dt@pool-16": "16", "ra-dt": "printed"})
    draw(ROWS, tmp_path / "all.png")
    draw(ROWS[2:3], tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 1000
