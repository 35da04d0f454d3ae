"""Rows of tables: what a variant may change, and what its name stands for."""

from __future__ import annotations

import pytest

from radt.commands.compare import written_variant
from radt.config import compose, from_json
from radt.runs.compare import Comparison
from radt.runs.presets import preset_layers
from radt.runs.run import RunError
from radt.variants import BUILT_IN, Variant, VariantError, arm, variant

ENV = "dark-room-20x20"


@pytest.mark.parametrize("label", ["", "a/b", "../x", "-x", "a b", "."])
def test_a_label_names_a_folder(label: str) -> None:
    with pytest.raises(VariantError, match="no label"):
        Variant(label, "dt")


@pytest.mark.parametrize("name", ["seed", "env", "method", "label", "split"])
def test_a_row_cannot_change_what_a_table_has_in_common(name: str) -> None:
    with pytest.raises(VariantError, match=name):
        arm("x", "ra-dt", {name: 1})


def test_an_arm_changes_a_row_with_all_that_its_suite_says() -> None:
    row = arm("shorter", "ra-dt+", {"options": {"memory": {"loop_erased": False}}})
    plus, mine = (compose(preset_layers(ENV, one, "laptop"))[0] for one in ("ra-dt+", row))
    assert plus.options.memory.loop_erased
    assert not mine.options.memory.loop_erased
    assert mine.options.memory.utility == plus.options.memory.utility == "aligned-return"
    assert (mine.label, mine.method) == ("shorter", "ra-dt")
    assert from_json(mine.to_json()) == mine


def test_two_rows_of_one_method_stand_in_one_table() -> None:
    row = written_variant("k4=ra-dt options.memory.top_k=4")
    compared = Comparison("dark-room-10x10", ("ra-dt", row), budget="smoke")
    configs = {one.label: compared.config(one, 0) for one in compared.rows}
    assert configs["k4"].options.memory.top_k == 4
    assert configs["ra-dt"].options.memory.top_k == 1
    with pytest.raises(RunError, match="two rows are called"):
        Comparison("dark-room-10x10", (row, arm("k4", "ra-dt", {})), budget="smoke")


@pytest.mark.parametrize("text", ["garbage", "k4=", "=ra-dt", "a/b=ra-dt"])
def test_what_is_no_variant_is_refused(text: str) -> None:
    with pytest.raises(VariantError):
        written_variant(text)


@pytest.mark.parametrize("row", BUILT_IN, ids=lambda row: row.label)
def test_an_old_name_of_a_method_stands_for_its_row(row: Variant) -> None:
    config = from_json({"env": "dark-room-10x10", "method": row.label})
    assert (config.label, config.method) == (row.label, row.method)
    assert variant(row.label) is row
