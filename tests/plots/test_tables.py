from __future__ import annotations

import numpy as np
import pytest

from radt.plots import markdown, method_table
from tests.plots.synthetic import VARIANT, synthetic_record


def test_a_row_says_how_well_a_method_learns() -> None:
    records = [synthetic_record("ra-dt+", seed) for seed in range(3)]
    (row,) = method_table(records)
    returns = np.array([record["returns"] for record in records])  # [seed, task, trial]
    assert row.mean == pytest.approx(returns[..., 30:].mean())
    assert row.at_trial[10] == pytest.approx(returns[..., 9].mean())
    assert row.found_by[40] == pytest.approx((returns > 0).any(axis=2).sum(axis=1).mean())
    assert (row.seeds, row.tasks, row.late, row.improves) == (3, 20, "31-40", True)
    assert row.over_seeds is not None
    assert row.over_tasks.low <= row.over_seeds.low <= row.mean <= row.over_seeds.high


def test_one_seed_has_no_interval_over_seeds() -> None:
    (row,) = method_table([synthetic_record("ra-dt")])
    assert row.over_seeds is None
    assert row.over_tasks.low < row.mean < row.over_tasks.high


def test_a_method_that_finds_nothing_does_not_improve() -> None:
    record = synthetic_record("dt", tasks=4)
    record["returns"] = [[0.0] * 40] * 4
    (row,) = method_table([record])
    assert not row.improves
    assert row.after_finding is None
    assert "| no: +0.0 [0.0, 0.0] |" in markdown([row])


def test_short_runs_show_the_trials_they_have() -> None:
    (row,) = method_table([synthetic_record("replay", trials=3)])
    assert list(row.at_trial) == [1, 3]
    assert row.late == "1-3"


def test_markdown_has_a_section_for_each_environment() -> None:
    rows = method_table([synthetic_record(name, variant=True) for name in ("dt", "replay")])
    text = markdown(rows)
    assert [row.env for row in rows] == ["dark-room-10x10"] * 2 + [VARIANT] * 2
    assert f"**`{VARIANT}`** (a variant" in text
    assert "goals found by trial 1 / 5 / 10 / 20 / 40" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) == 4 * 4  # a head, a rule and two methods each
    assert text.count("minutes a run") == 1
