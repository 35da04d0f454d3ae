"""The table of the batteries is made from what they counted."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.battery import COLUMNS
from tests.faults.table import table

COUNTS = Path(__file__).parents[2] / "results" / "memory" / "faults.json"


def test_the_table_is_that_of_the_counts() -> None:
    kept = json.loads(COUNTS.read_text())
    assert COUNTS.with_suffix(".md").read_text() == table(kept)
    for battery, one in kept.items():
        faults = [one["counts"].get(column, 0) for column in COLUMNS if column != "clean"]
        assert not any(faults), battery
