"""Damaged records of a run: refused, left out or made anew; what is told can be, and is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean, watched
from tests.faults.records import damage_records, make_run
from tests.memory.conftest import Tally


@pytest.mark.long
def test_many_damaged_records(tmp_path: Path, tally: Tally) -> None:
    make_run(tmp_path / "whole")
    assert_clean(watched(damage_records, tmp_path / "whole", cases=300), tally)
