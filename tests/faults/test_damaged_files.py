"""Files of every kind, damaged in every way: refused in one line or read rightly, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.battery import assert_clean, watched
from tests.faults.damage import KINDS, attack
from tests.memory.conftest import Tally


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files(name: str, tmp_path: Path, tally: Tally) -> None:
    KINDS[name].make(tmp_path / "whole")
    assert_clean(attack(name, tmp_path / "whole", range(12)), tally)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_many_damaged_files(name: str, tmp_path: Path, tally: Tally) -> None:
    KINDS[name].make(tmp_path / "whole")
    assert_clean(watched(attack, name, tmp_path / "whole", cases=400), tally)
