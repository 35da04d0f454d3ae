from __future__ import annotations

import numpy as np
import pytest

from radt.plots.tables import markdown, method_table
from tests.plots.synthetic import MEASURED, SHAPES, VARIANT, synthetic_record


def test_a_row_says_how_well_a_method_learns() -> None:
    records = [synthetic_record("ra-dt+", seed) for seed in range(3)]
    (row,) = method_table(records)
    returns = np.array([record["returns"] for record in records])  # [seed, task, trial]
    assert row.score.mean == pytest.approx(returns[..., 30:].mean())
    assert row.at_trial[10].mean == pytest.approx(returns[..., 9].mean())
    assert row.solved_by[40] == pytest.approx((returns > 0).any(axis=2).sum(axis=1).mean())
    assert (len(row.seeds), row.tasks, row.late, row.gets_better) == (3, 20, "31-40", True)
    assert row.score.over_seeds is not None
    assert row.score.over_tasks.low <= row.score.over_seeds.low <= row.score.mean
    assert row.score.mean <= row.score.over_seeds.high


def test_one_seed_has_no_interval_over_seeds() -> None:
    (row,) = method_table([synthetic_record("ra-dt")])
    assert row.score.over_seeds is None
    assert row.score.over_tasks.low < row.score.mean < row.score.over_tasks.high
    assert "95 % over seeds" not in markdown([row])


def test_a_method_that_finds_nothing_does_not_improve() -> None:
    record = synthetic_record("dt", tasks=4)
    record["returns"] = [[0.0] * 40] * 4
    (row,) = method_table([record])
    assert not row.gets_better
    assert row.return_after_success is None
    assert "| `dt` | +0.0 [0.0, 0.0] |" in markdown([row, row])


def test_short_runs_show_the_trials_they_have() -> None:
    (row,) = method_table([synthetic_record("replay", trials=3)])
    assert list(row.at_trial) == [1, 3]
    assert (row.late, row.early) == ("3", "1")


def test_markdown_has_a_section_for_each_environment() -> None:
    rows = method_table([synthetic_record(name, variant=True) for name in ("dt", "replay")])
    text = markdown(rows)
    assert [row.env for row in rows] == ["dark-room-10x10"] * 2 + [VARIANT] * 2
    assert f"**`{VARIANT}`** (a variant" in text
    assert "solved by trial 1 / 5 / 10 / 20 / 40" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) == 9 * 4  # a head, a rule and two methods each
    assert text.count("minutes a run") == 1


def test_differences_are_paired_by_task_and_seed() -> None:
    ours = [synthetic_record("ra-dt", seed) for seed in range(2)]
    shifted = [
        {**record, "method": "dt", "returns": (np.array(record["returns"]) - 5.0).tolist()}
        for record in ours
    ]
    unpaired = synthetic_record("dt", seed=7)
    rows = {row.label: row for row in method_table([*ours, *shifted, unpaired])}
    assert rows["ra-dt"].against_base is None
    against = rows["dt"].against_base
    assert against is not None
    assert against.seeds == 2
    for interval in against.known:  # what tasks and seeds have in common falls out
        assert (interval.low, interval.high) == pytest.approx((-5.0, -5.0))
    assert "| -5.0 [-5.0, -5.0] | [-5.0, -5.0] | 2 |" in markdown(list(rows.values()))


def test_every_pair_is_told_once_and_the_same_from_both_sides() -> None:
    records = [synthetic_record(name, seed) for name in SHAPES for seed in range(2)]
    rows = {row.label: row for row in method_table(records)}
    for one, row in rows.items():
        assert set(row.against) == set(rows) - {one}
        for other, found in row.against.items():
            back = rows[other].against[one]
            for here, there in zip(found.known, back.known, strict=True):
                assert (here.low, here.high) == pytest.approx((-there.high, -there.low))
    lines = markdown(list(rows.values())).splitlines()
    head = lines.index(f"| method | {' | '.join(f'`{name}`' for name in rows)} |")
    for place, line in enumerate(lines[head + 2 : head + 2 + len(rows)]):
        assert line.split(" | ")[1 + place].strip(" |") == "-"


def test_differences_are_bold_where_no_interval_holds_0() -> None:
    ours = [synthetic_record("ra-dt", seed) for seed in range(2)]
    close, far = ([{**record, "method": name} for record in ours] for name in ("dt", "ad"))
    for record in far:
        record["returns"] = (np.array(record["returns"]) - 5.0).tolist()
    table = markdown(method_table([*ours, *close, *far]))
    assert "| `dt` | - | **+5.0** | +0.0 |" in table
    assert "| `ad` | **-5.0** | - | **-5.0** |" in table


def test_nothing_is_paired_without_a_common_seed() -> None:
    rows = method_table([synthetic_record("ra-dt", 0), synthetic_record("dt", 1)])
    assert [row.against_base for row in rows] == [None, None]
    assert "minus `ra-dt`" not in markdown(rows)


def test_cost_stands_in_the_table_and_what_is_unknown_is_a_dash() -> None:
    rows = method_table([synthetic_record("dt"), synthetic_record("ra-dt") | MEASURED])
    table = markdown(rows)
    assert "| `dt` | - | - | - | - | 6 x 8 | - | 1 | 2,667 | 1.5 |" in table
    assert "| 1,234 | 50 + 100 = 150 | 150 | 2.50 | 6 x 8 | 1,600 | 640 | 2,000 |" in table


def test_frozen_weights_of_a_public_model_are_counted_apart() -> None:
    frozen = {"cost": {**MEASURED["cost"], "frozen_parameters": 22_713_216}}
    rows = method_table([synthetic_record("ra-dt") | MEASURED | frozen])
    assert "| 1,234 + 22.7M frozen | 50 + 100" in markdown(rows)


def test_notes_say_who_has_a_cache_and_who_reads_anew() -> None:
    cached = {**synthetic_record("dt"), "method": "dpt"}
    cached["config"]["options"]["cache"] = True
    note = markdown(method_table([cached, synthetic_record("ra-dt+")]))
    assert "cache speeds up `dpt`; " in note
    assert "`ra-dt+` read their window anew" in note
    seldom = synthetic_record("ra-dt+")
    seldom["config"]["options"]["window_step"] = 25
    note = markdown(method_table([cached, seldom]))
    assert "cache speeds up `dpt`, `ra-dt+`" in note
    assert "window anew" not in note
    assert markdown(method_table([synthetic_record("replay")])).endswith("|")
