from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radt.plots.icl_json import read_record
from radt.plots.records import RecordError, outcomes
from tests.plots.synthetic import MEASURED, VARIANT, synthetic_record


def test_seeds_of_a_method_are_stacked_in_order() -> None:
    records = [synthetic_record("ra-dt", 2), synthetic_record("dt"), synthetic_record("ra-dt", 1)]
    dt, ra_dt = outcomes(records)
    assert (dt.label, ra_dt.label) == ("dt", "ra-dt")
    assert ra_dt.seeds == (1, 2)
    assert ra_dt.returns.shape == (2, 20, 40)
    assert ra_dt.returns[0].tolist() == records[2]["returns"]
    assert ra_dt.expense.minutes == pytest.approx(1.5)


def test_learners_come_first_then_strangers_then_references() -> None:
    names = ["sweep", "ra-dt+", "mine", "dt", "replay"]
    records = [{**synthetic_record("dt"), "method": name} for name in names]
    shown = [outcome.label for outcome in outcomes(records)]
    assert shown == ["dt", "ra-dt+", "mine", "replay", "sweep"]


def test_cost_and_speed_are_those_of_the_record() -> None:
    slower = {"samples_per_second": 320.0, "decisions_per_second": None}
    records = [
        synthetic_record("ra-dt") | MEASURED,
        synthetic_record("ra-dt", 1) | MEASURED | {"speed": slower},
    ]
    expense = outcomes(records)[0].expense
    assert (expense.parameters, expense.context_steps) == (1234, 150)
    fastest = (MEASURED["speed"]["samples_per_second"], 2000.0)  # others may have been disturbed
    assert (expense.samples_per_second, expense.decisions_per_second) == fastest
    assert (expense.updates, expense.batch_size) == (6, 8)


def test_older_records_know_how_fast_the_whole_was() -> None:
    expense = outcomes([synthetic_record("dt")])[0].expense
    assert expense.samples_per_second == pytest.approx(6 * 8 / 60.0)
    assert expense.decisions_per_second == pytest.approx(20 * 40 * 100 / 30.0)


def test_arithmetic_that_depends_on_what_was_learned_is_averaged() -> None:
    dearer = MEASURED["cost"] | {"flops_per_decision": 3 * MEASURED["cost"]["flops_per_decision"]}
    records = [
        synthetic_record("ra-dt") | MEASURED,
        synthetic_record("ra-dt", 1) | MEASURED | {"cost": dearer},
    ]
    mean = 2 * MEASURED["cost"]["flops_per_decision"]
    assert outcomes(records)[0].expense.flops_per_decision == pytest.approx(mean)


def test_what_was_not_measured_is_unknown() -> None:
    old, reference = outcomes([synthetic_record("dt"), synthetic_record("replay") | MEASURED])
    assert old.expense.context_steps is old.expense.flops_per_decision is None
    assert reference.expense.parameters is reference.expense.updates is None
    assert reference.expense.decisions_per_second == 2000.0


def test_a_record_knows_the_data_that_lie_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "icl.json"
    file.write_text(json.dumps(synthetic_record("dt")))
    assert "data_sha256" not in read_record(file)
    (tmp_path / "dataset.json").write_text(json.dumps({"card": {"sha256": "ab12"}}))
    assert read_record(file)["data_sha256"] == "ab12"
    for damaged in ("{", "[]", "{}"):
        (tmp_path / "dataset.json").write_text(damaged)
        with pytest.raises(RecordError, match=r"dataset\.json .*; delete it"):
            read_record(file)


def test_variants_keep_only_the_records_that_have_them() -> None:
    records = [synthetic_record("dt"), synthetic_record("replay", variant=True)]
    (replay,) = outcomes(records, VARIANT)
    assert replay.env == VARIANT
    assert replay.optimum == pytest.approx(88.0)


def test_an_optimum_that_is_not_known_for_every_task_is_none() -> None:
    record = synthetic_record("dt")
    record["optimum"][3] = None
    assert outcomes([record])[0].optimum is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "dark-room-20x20"}, "env is dark-room-10x10 in one result and dark-room-20x20"),
        ({"split": "tune"}, "same environment and split"),
        ({"returns": [[1.0]]}, r"\[1, 40\] trials"),
        ({"method": "dt"}, "dt with seed 0 is given twice"),
    ],
)
def test_what_does_not_belong_together_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        outcomes([synthetic_record("dt"), {**synthetic_record("ra-dt"), **changes}])


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(RecordError, match="at least one"):
        outcomes([])


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "radt evaluate"), ("{", "damaged"), ("[]", "damaged"), ('{"env": 1}', "lacks")],
)
def test_files_that_are_no_results_say_so(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "icl.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RecordError, match=message):
        read_record(path)


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Put a value into a record, some levels deep."""
    *outer, last = path.split("/")
    inside: Any = record
    for name in outer:
        inside = inside[int(name) if isinstance(inside, list) else name]
    inside[int(last) if isinstance(inside, list) else last] = value
    return record


WRONG: list[tuple[str, Any]] = [
    ("returns", []),
    ("returns", [[]] * 20),
    ("returns", [[1.0]] * 3),
    ("returns", "many"),
    ("returns/0", [1.0]),
    ("returns/0/0", "NaN"),
    ("returns/0/0", 1e999),
    ("returns/0/0", float("nan")),
    ("returns/0/0", -1e30),
    ("returns/0/0", 10**400),
    ("returns/0/0", True),
    ("tasks/0", 1_000_000),
    ("tasks/0", 0.5),
    ("seed", "0"),
    ("seed", -1),
    ("optimum", [91.1]),
    ("optimum/0", "best"),
    ("optimum/0", 1e308),
    ("action_rule", {"temperature": "<img src=x>"}),
    ("action_rule", {"# a heading": 1.0}),
    ("config", {"source": "![a picture](x)"}),
    ("wall_seconds", {"train": -1.0}),
    ("wall_seconds", {"a | b": 1.0}),
    ("wall_seconds/train", None),
    ("method", "../../x"),
    ("label", "[bold]x[/]"),
    ("env", "a\x1b]0;b\x07"),
    ("variants", {"/../../../X": {"returns": [[1.0]], "optimum": [1.0]}}),
    ("variants", {"x": {"returns": [[1.0]]}}),
    ("variants", {"x": {"returns": [[1.0], []], "optimum": [1.0, 1.0]}}),
    ("controls", {"erased": {"returns": [[1.0]]}}),
    ("rules", {"<b>": {"returns": [[1.0]]}}),
    ("scoring", {"kind": "data-normalised", "low": [0.0], "high": [1.0]}),
    ("learning", [{"update": 1, "trial_x": 1.0}]),
    ("learning", [{"trial_1": 1.0}]),
    ("cost", {"parameters": "many"}),
    ("config/learn", {"updates": "6", "batch_size": 8}),
    ("config/learn", []),
    ("config/options", [[[]]]),
    ("machine", []),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_record_that_says_what_none_does_is_refused(
    tmp_path: Path, path: str, value: Any
) -> None:
    file = tmp_path / "icl.json"
    file.write_text(json.dumps(changed(synthetic_record("dt"), path, value)))
    with pytest.raises(RecordError, match=r"icl\.json .*; delete it and evaluate again"):
        read_record(file)


@pytest.mark.parametrize("levels", [100, 100_000])
def test_a_record_that_is_too_deep_is_refused(tmp_path: Path, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    (tmp_path / "icl.json").write_text(f'{{"config": {deep}}}')
    with pytest.raises(RecordError, match="too deeply"):
        read_record(tmp_path / "icl.json")


def test_a_record_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "icl.json").open("wb") as file:
        file.truncate(1 << 40)  # no byte of it is on the disk
    with pytest.raises(RecordError, match="bytes"):
        read_record(tmp_path / "icl.json")
